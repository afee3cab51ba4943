"""Another machine for tests: `far` is reached through a real sshd on the loopback, `near` without ssh.

Both have a folder of their own whose program is this clone. `near` is quicker, and needs no sshd: its `ssh`
is a script that runs the words here. What is left running there at the end is killed, and fails the test.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from engine.experiment.experiment import experiment_from
from engine.machines.machine import Machine, Machines
from engine.machines.ssh import SshConnection
from engine.protocol.events import Event, Finished, Samples, Started
from engine.protocol.jobs import Train
from engine.worker.launcher import Launcher, Session, iterate

CLONE = Path(__file__).parents[1]
SSHD = Path("/usr/sbin/sshd")
_WAIT_SECONDS = 60.0


def eventually(holds: Callable[[], object], seconds: float = _WAIT_SECONDS) -> None:
    """Waits for a condition, and fails where it does not come to hold."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.01)


def has_ended(pid: int) -> bool:
    """True also for a zombie, which an orphan may stay where nobody waits for it."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def events_of(session: Session) -> list[Event]:
    """All that a session has to say, to its end."""
    return [event for event in iterate(session) if event is not None]


SCRIPT = """
import os, torch
torch.set_num_threads(1)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
open("was_here", "w").close()
while True:
    model(torch.randn(3, 4)).square().mean().backward()
    optimizer.step()
"""


TOLD = """
import json, os
begin = {"kind": "begin", "pid": 1, "python": "3", "torch": "2", "device": "cpu", "batch_size": 3}
steps = {"kind": "steps", "step": [*range(1, 31)], "seconds": [0.1 * step for step in range(1, 31)]}
steps.update(loss=[1.0] * 30, learning_rate=[0.1] * 30, samples=[3] * 30)
open("was_here", "w").close()
with open(os.path.join(os.environ["AMMETER_OBSERVER_FOLDER"], "1.jsonl"), "w") as file:
    file.writelines(json.dumps(line) + chr(10) for line in (begin, steps))
"""
"""Says what the observer would, without torch, whose import takes seconds."""


def check_script(launcher: Launcher, folder: Path, script: str = SCRIPT) -> None:
    """Checks that a script in a new folder there runs in it for all its steps."""
    folder.mkdir()
    (folder / "train.py").write_text(script)
    command = {"line": f"'{sys.executable}' train.py", "folder": str(folder)}
    measure = {"warmup_steps": 5, "block_steps": 3}
    job = Train(experiment=experiment_from({"command": command, "steps": 30, "measure": measure}))
    launcher.trusted_code.name_command(job.experiment.command)
    with closing(launcher.start(job)) as session:
        events = events_of(session)
    (started,) = (event for event in events if isinstance(event, Started))
    assert started.experiment.batch_size == 3 and started.experiment.command.folder == str(folder)
    steps = [step for event in events if isinstance(event, Samples) for step in event.step]
    assert steps == list(range(1, 31)) and isinstance(events[-1], Finished)
    assert (folder / "was_here").exists()


@dataclass
class RemoteMachine:
    """A prepared machine, and what a test does to it from behind."""

    machine: Machine
    home: Path
    bin: Path
    sshd: subprocess.Popen[bytes] | None = None

    def talk(self, script: str = "talking_worker.py") -> None:
        """From now on its workers are that script of the tests."""
        stub = self.home / "stub"
        stub.mkdir(exist_ok=True)
        (stub / "sitecustomize.py").write_text(
            "import os, runpy, sys\n"
            "if sys.orig_argv[-2:] == ['-m', 'engine.worker']:\n"
            f"    os.environ['TRAIN_NO_FURTHER'] = {str(self.home / 'no-further')!r}\n"
            f"    runpy.run_path({str(CLONE / 'tests' / script)!r})\n"
        )

    def train_to(self, step: int) -> None:
        """From now on no run of `training_worker.py` gets past that step."""
        part = self.home / "no-further.part"
        part.write_text(str(step))
        part.replace(self.home / "no-further")

    def make_known(self) -> None:
        """Puts it into the list of machines, as `ammeter machines add` does."""
        Machines().put(self.machine)

    def folders(self) -> list[Path]:
        """Those of its workers."""
        return sorted(path for path in self.home.glob("workers/*") if path.suffix != ".gone")

    def kept(self, folder: Path) -> dict[str, int]:
        """The pids of a worker and its keeper."""
        return json.loads((folder / "keeper.json").read_text())

    def kill_line(self, program: int | None = None) -> int:
        """Kills the ssh processes that a program has started, by default this one; returns how many."""
        own = _children(program or os.getpid())
        return _kill_all(pid for pid in own if b"follow" in command_of(pid))

    def kill_followers(self) -> int:
        """Kills the followers, at the far end of the line."""
        return _kill_all(self._programs("follow"))

    def kill_master(self) -> int:
        """Kills the control connection, where there is one."""
        return _kill_all(
            pid
            for pid in _pids()
            if command_of(pid).startswith(b"ssh: ")
            and b"[mux]" in command_of(pid)
            and str(self.bin).encode() in _environment(pid)
        )

    def kill_sessions(self) -> int:
        """Kills the processes of sshd that serve the connections."""
        # a keeper is below sshd too for as long as the follower that started it
        below = [] if self.sshd is None else _children(self.sshd.pid)
        return _kill_all(pid for pid in below if command_of(pid).startswith(b"sshd"))

    def kill_keepers(self) -> int:
        return _kill_all(self._programs("keep"))

    def kill_workers(self) -> int:
        return _kill_all(self.kept(folder)["worker"] for folder in self.folders() if self._has_begun(folder))

    def running(self) -> list[int]:
        """Keepers, followers and workers there."""
        return self._programs()

    def _programs(self, verb: str = "") -> list[int]:
        wanted = (b"engine.remote_main", b"\0" + verb.encode() + b"\0") if verb else (b"engine.",)
        home = str(self.home).encode()
        return [
            pid
            for pid in _pids()
            if not (command := command_of(pid)).startswith((b"ssh", b"sshd"))
            and all(each in command for each in wanted)
            and (home in command or home in _environment(pid))
        ]

    def _has_begun(self, folder: Path) -> bool:
        return (folder / "keeper.json").exists() and not (folder / "ended").exists()


def prepared(root: Path) -> Path:
    """The folder of a machine whose program is this clone."""
    home = root / "there"
    program = home / "program" / "current" / "bin" / "python"
    program.parent.mkdir(parents=True)
    home.chmod(0o700)
    program.write_text(
        "#!/bin/sh\n"
        "unset PYTHONDONTWRITEBYTECODE\n"
        f"export OMP_NUM_THREADS=1 PYTHONPATH={home}/stub:{CLONE}\n"
        f'exec {sys.executable} "$@"\n'
    )
    program.chmod(0o755)
    return home


def put_first(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Has a script stand in for ssh, in that folder."""
    folder.mkdir(exist_ok=True)
    (folder / "ssh").write_text(script)
    (folder / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


def need(program: str, *, is_there: bool) -> None:
    """Skips the test without the program, and fails it where all tests are to run."""
    if not is_there and os.environ.get("AMMETER_ALL_TESTS"):
        pytest.fail(f"{program} is not installed; .ci/run names the packages")
    if not is_there:
        pytest.skip(f"{program} is not installed")


def user_here() -> str:
    return subprocess.check_output(["id", "-un"], text=True).strip()


def free_ports(count: int) -> list[int]:
    """Ports of the loopback that nothing listens at."""
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in taken]
    for each in taken:
        each.close()
    return ports


@pytest.fixture
def near(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RemoteMachine]:
    home = prepared(tmp_path)
    script = '#!/bin/sh\nwhile [ "$1" != "--" ]; do shift; done\nshift 2\ncd /\neval "$*"\n'
    folder = put_first(tmp_path / "bin", script, monkeypatch)
    with used(RemoteMachine(Machine(name="near", host="near", folder=str(home)), home, folder)) as machine:
        yield machine


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> Iterator[RemoteMachine]:
    need("sshd", is_there=SSHD.exists())
    with remote_machine(monkeypatch) as machine:
        yield machine


@contextmanager
def remote_machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[RemoteMachine]:
    """This machine through an sshd of its own, with keys that are thrown away."""
    # short: the path of a socket has a hundred bytes
    root = Path(tempfile.mkdtemp(prefix="far-", dir="/tmp"))
    home = prepared(root)
    (port,) = free_ports(1)
    sshd = _serve(root, port)
    script = f'#!/bin/sh\nexec {shutil.which("ssh")} -F {root}/config "$@"\n'
    folder = put_first(root / "bin", script, monkeypatch)
    machine = RemoteMachine(Machine(name="far", host="far", folder=str(home)), home, folder, sshd)
    try:
        with used(machine):
            yield machine
    finally:
        options = SshConnection(machine.machine).command(())
        exits = [*options[: options.index("--")], "-O", "exit", "far"]
        subprocess.run(exits, capture_output=True, check=False)
        machine.kill_sessions()
        sshd.kill()
        sshd.wait()
        shutil.rmtree(root, ignore_errors=True)


def _serve(root: Path, port: int) -> subprocess.Popen[bytes]:
    for name in ("host", "me"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(root / name)], check=True)
    kind, key, *_ = (root / "host.pub").read_text().split()
    (root / "known").write_text(f"[127.0.0.1]:{port} {kind} {key}\n")
    (root / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {root}/host\nPidFile none\n"
        f"AuthorizedKeysFile {root}/me.pub\nUsePAM no\nPasswordAuthentication no\n"
        "KbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\nStrictModes no\n"
        "MaxStartups 100:30:200\nMaxSessions 100\nLogLevel ERROR\n"
    )
    (root / "config").write_text(
        f"Host far\n  HostName 127.0.0.1\n  Port {port}\n  User {user_here()}\n  IdentityFile {root}/me\n"
        f"  IdentitiesOnly yes\n  IdentityAgent none\n  UserKnownHostsFile {root}/known\n"
        "  GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n"
    )
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    sshd = subprocess.Popen(
        [str(SSHD), "-D", "-e", "-f", str(root / "sshd_config")], stderr=subprocess.DEVNULL
    )

    def answers() -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
        return False

    eventually(answers)
    return sshd


@contextmanager
def used(machine: RemoteMachine) -> Iterator[RemoteMachine]:
    """Nothing that runs there may outlive what is done with it."""
    try:
        yield machine
        with suppress(AssertionError):
            eventually(lambda: not machine.running(), 30)
        left = [command_of(pid).replace(b"\0", b" ").decode() for pid in machine.running()]
    finally:
        _kill_all(machine.running())
    assert not left, f"left running there: {left}"


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in listed.read_text().split():
            found += [int(child), *_children(int(child))]
    return found


def command_of(pid: int) -> bytes:
    """The command line of a process, empty once it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def _environment(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes()
    return b""


def _pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").glob("[0-9]*")]


def _kill_all(pids: Iterable[int]) -> int:
    killed = 0
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            killed += 1
    return killed
