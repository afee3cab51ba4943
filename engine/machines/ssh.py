"""The connection to a remote machine, by the system's OpenSSH with the user's configuration, keys and agent.

No password is asked for, no host key is accepted here, and no port is opened. Commands sent there use only
a few characters, so no shell there can misread them. A shell script is sent as standard input of `sh -s`.
"""

from __future__ import annotations

import contextlib
import queue
import re
import secrets
import shlex
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import IO, Any

from engine.experiment.paths import sockets_folder
from engine.experiment.problem import Kind, Problem, ProblemError, request_error
from engine.experiment.value import printable, shortened
from engine.installation.installed import platform_here
from engine.machines.machine import Machine

_WORD = re.compile(r"[A-Za-z0-9._/~+-]+")
_OPTIONS = (
    *("-T", "-x", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15"),
    *("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", "-o", "ClearAllForwardings=yes"),
    *("-o", "ForwardAgent=no", "-o", "PermitLocalCommand=no", "-o", "RemoteCommand=none"),
)
_MOST_COMPLAINT_BYTES = 8 * 2**10
_MOST_ANSWER_BYTES = 16 * 2**20
_BLOCK_BYTES = 64 * 2**10
NOT_FOUND = (126, 127)  # the status of a shell that finds no such program
_LASTING = {
    "Host key verification failed": "Run `ssh {host}` in a terminal and compare its host key with that of "
    "the machine.",
    "Permission denied": "`ssh {host}` must work in a terminal without a password. Add your key there, or "
    "load it into your agent.",
    "Could not resolve hostname": "Correct the machine's host, or its name in your ssh configuration.",
}
"""Errors that another try would not change, each with what to do."""
_SSH_FAILED = 255  # the status of ssh for an error of its own
_ROOM = "Free disk space in {folder} on {name}, or name a folder on another disk there."
_RIGHTS = "Check the permissions of {folder} on {name}, or name another folder there."
_THERE = {
    "No space left on device": ("The disk of {name} is full, or has no inodes left.", _ROOM),
    "Disk quota exceeded": ("Your disk quota on {name} is used up.", _ROOM),
    "Read-only file system": ("The disk of {name} is read-only.", _RIGHTS),
    "Permission denied": ("Ammeter cannot read, write or run files in its folder on {name}.", _RIGHTS),
    "Input/output error": ("The disk of {name} has errors.", "Check the disk of {name}."),
    "Stale file handle": ("A network disk of {name} is gone.", "Check the network disks of {name}."),
    "Too many open files": ("{name} has too many open files.", "Close other programs on {name}."),
    "Cannot allocate memory": ("{name} is out of memory.", "Close other programs on {name}."),
    "Resource temporarily unavailable": (
        "{name} cannot start more processes.",
        "Close other programs on {name}.",
    ),
}
"""Errors of a program there while the connection works, each with a message and what to do."""


class Channel:
    """The streams of a running ssh process. Raises ProblemError if ssh cannot be started.

    A thread writes to its stdin, so that a dead connection blocks no caller.
    """

    def __init__(self, command: Sequence[str]) -> None:
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except OSError as error:
            message = f"OpenSSH could not be started: {error.strerror or error}."
            remedy = "Install the system's OpenSSH client. `ssh` must be in PATH."
            raise request_error(message, remedy) from error
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self.stdout: IO[bytes] = self._process.stdout
        self._waiting: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._complaint = b""
        streams = ((self._write, self._process.stdin), (self._read_complaint, self._process.stderr))
        self._threads = [threading.Thread(target=work, args=(end,), daemon=True) for work, end in streams]
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def put(self, data: bytes | None) -> None:
        """Send the bytes. None closes the other side's stdin."""
        self._waiting.put(data)

    def kill(self) -> None:
        self._process.kill()

    def close(self, seconds: float = 2.0) -> tuple[int, str]:
        """Close ssh's stdin, wait, then kill it. Return its exit status and the last line of its stderr."""
        self.put(None)
        try:
            status = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            status = self._process.wait()
        for thread in self._threads:
            # a control connection that was made for this ssh may hold its stderr for longer
            thread.join(0.5)
        self.stdout.close()
        lines = [line for line in self._complaint.decode(errors="replace").splitlines() if line.strip()]
        return status, shortened(lines[-1].strip(), 300) if lines else ""

    def _write(self, stream: IO[bytes]) -> None:
        with contextlib.suppress(OSError), stream:
            while (data := self._waiting.get()) is not None:
                stream.write(data)
                stream.flush()

    def _read_complaint(self, stream: IO[bytes]) -> None:
        with stream:
            for block in _blocks(stream):
                self._complaint = (self._complaint + block)[-_MOST_COMPLAINT_BYTES:]


def program_words(home: str, *words: str, program: str = "current") -> tuple[str, ...]:
    """Return the command that runs Ammeter's `program` on a remote machine, where its folder is `home`."""
    return (f"{home}/program/{program}/bin/python", "-P", "-m", "engine.remote_main", home, *words)


class SshConnection:
    """Runs programs on a remote machine through ssh, all over one shared connection."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def command(self, words: Sequence[str]) -> list[str]:
        """Return the local command for these words. Raises ValueError for a word unsafe in a shell."""
        if not all(_WORD.fullmatch(word) for word in words):
            raise ValueError(f"not to be passed to a shell: {words}")
        if not self.machine.host:
            # Slurm's login node is this machine
            return ["sh", "-c", f"cd && exec {' '.join(words)}"]
        return ["ssh", *_OPTIONS, *_control(), "--", self.machine.host, f"exec {' '.join(words)}"]

    def open(self, words: Sequence[str]) -> Channel:
        """Start a program on the remote machine and return its streams. Raises ProblemError without ssh."""
        return Channel(self.command(words))

    def ask(self, words: Sequence[str], *, stdin: bytes = b"", seconds: float) -> bytes:
        """Run a program on the remote machine, and return its stdout.

        Raises ProblemError, which quotes ssh or the program, if it fails, takes longer than `seconds`, or
        writes more than 16 MiB.
        """
        answer = bytearray()
        self._run(words, stdin, seconds, _MOST_ANSWER_BYTES, answer.extend)
        return bytes(answer)

    def save(self, words: Sequence[str], file: IO[bytes], *, most_bytes: int, seconds: float) -> None:
        """Write the stdout of a program on the remote machine to a local file.

        Raises ProblemError as `ask` does.
        """
        self._run(words, b"", seconds, most_bytes, file.write)

    def _run(
        self,
        words: Sequence[str],
        stdin: bytes,
        seconds: float,
        most_bytes: int,
        take: Callable[[bytes], Any],
    ) -> None:
        channel, is_late = self.open(words), threading.Event()

        def give_up() -> None:
            is_late.set()
            channel.kill()

        timer = threading.Timer(seconds, give_up)
        timer.daemon = True
        timer.start()
        try:
            channel.put(stdin)
            channel.put(None)
            for block in _blocks(channel.stdout):
                most_bytes -= len(block)
                if most_bytes < 0:
                    channel.kill()
                    break
                take(block)
        finally:
            status, complaint = channel.close()
            timer.cancel()
        if is_late.is_set():
            raise self.problem(f"it did not answer within {seconds:.0f} seconds")
        if most_bytes < 0:
            raise self.problem("it sent more data than expected")
        if status:
            raise self.failure(status, complaint)

    def failure(self, status: int, complaint: str) -> ProblemError:
        """Return the error for an ssh process that ended with this exit status and stderr."""
        if (trouble := self.remote_trouble(status, complaint)) is not None:
            return trouble
        if status in NOT_FOUND:
            why = _sentence_end(complaint)
            return self._unusable(f"Ammeter is not installed on {self.machine.name}: {why}.", "Install")
        if refused := re.search(r"\bsbatch: (.+)", complaint):
            message = f"Slurm on {self.machine.name} refused the job: {_sentence_end(refused[1])}."
            remedy = "Correct the machine's partition, account, time limit or options."
            return request_error(message, remedy, key="machine", value=self.machine.name)
        return self.problem(complaint or f"ssh ended with status {status}")

    def remote_trouble(self, status: int, complaint: str) -> ProblemError | None:
        """Return the error of a program that failed there for lack of disk space, permissions or memory.
        Return None for another failure, and for one of ssh itself."""
        found = next((trouble for words, trouble in _THERE.items() if words in complaint), None)
        if found is None or status == _SSH_FAILED:
            return None
        name, (message, remedy) = self.machine.name, found
        message = f"{message.format(name=name)} Error: {_sentence_end(complaint)}."
        remedy = remedy.format(name=name, folder=self.machine.home or self.machine.folder)
        return request_error(message, remedy, key="machine", value=name)

    def outdated(self) -> ProblemError:
        """Return the error for a program on the remote machine that uses another version of the protocol."""
        message = f"{self.machine.name} has a different version of Ammeter."
        return self._unusable(message, "Update")

    def _unusable(self, message: str, verb: str) -> ProblemError:
        remedy = f"{verb} it: `ammeter engine install --machine '{self.machine.name}'`."
        return ProblemError(Problem(kind=Kind.NO_ENGINE, message=message, remedy=remedy))

    def problem(self, why: str) -> ProblemError:
        """Return the error for a machine that cannot be reached or gives an unexpected answer."""
        usual = "`ssh {host}` must work in a terminal without any prompt. Then try again."
        if not self.machine.host:
            usual = f"Check it: `ammeter machines check '{self.machine.name}'`."
        remedy = next((remedy for words, remedy in _LASTING.items() if words in why), usual)
        message = f"No connection to {self.machine.name}: {_sentence_end(why)}."
        return request_error(message, remedy.format(host=self.machine.host))


def lasts(complaint: str) -> bool:
    """Return True if the error is permanent, so that connecting again would fail too."""
    return any(words in complaint for words in _LASTING)


def _sentence_end(why: str) -> str:
    return shortened(why, 300).rstrip(". ")


def _blocks(stream: IO[bytes]) -> Iterator[bytes]:
    return iter(partial(stream.read1, _BLOCK_BYTES), b"")  # type: ignore[attr-defined]


@cache
def _control_folder() -> Path:
    return sockets_folder() or Path(tempfile.mkdtemp(prefix="ammeter-", dir="/tmp"))


def _control() -> tuple[str, ...]:
    if sys.platform == "win32":
        # its OpenSSH has no such connections
        return ()
    path = f"ControlPath={_control_folder()}/%C"
    return ("-o", "ControlMaster=auto", "-o", path, "-o", "ControlPersist=60")


_LONGEST_ANSWER = 4 * 2**20
_HOME = re.compile(r"/[A-Za-z0-9._/+-]*")


@dataclass(frozen=True)
class ScriptOutput:
    """The output and exit status of a script on a remote machine. `chatter` is what the login printed."""

    text: str
    status: int
    chatter: str = ""


def run_script(
    line: SshConnection, script: str, arguments: Sequence[str] = (), seconds: float = 30.0
) -> ScriptOutput:
    """Run a shell script on the machine and return its output. Raises ProblemError, also if cut off."""
    mark = f"ammeter-{secrets.token_hex(8)}"
    # the script is read as a whole before it begins: a program in it would read the rest of it
    whole = f"main() {{\n{script}\n}}\necho {mark}\n"
    whole += f"(main {shlex.join(arguments)}) </dev/null 2>&1\necho {mark} $?\n"
    said = line.ask(["sh", "-s"], stdin=whole.encode(), seconds=seconds)[-_LONGEST_ANSWER:]
    text = said.decode("utf-8", "replace").replace("\r\n", "\n")
    found = re.fullmatch(rf"(.*?){mark}\n(.*?){mark} (\d+)\n?", text, re.DOTALL)
    if found is None:
        raise ProblemError(_unanswered(line.machine.name, text))
    return ScriptOutput(found[2], int(found[3]), found[1].strip())


def _unanswered(name: str, text: str) -> Problem:
    words = shortened(text.strip(), 200)
    message = f"{name} answers, but no shell runs there." + (f" Its answer: {words}" if words else "")
    remedy = "Its ssh server may allow only one command. Ask its administrator for a login with a shell."
    return Problem(kind=Kind.PROTOCOL, message=message, remedy=remedy)


@dataclass(frozen=True)
class RemoteFacts:
    """A remote machine's system, disk and installed programs, as found by a check.

    `home` is Ammeter's folder as an absolute path, `program` the id of the Ammeter version there, and `uv`
    the path of uv. The last two may be "". `pythons` are like "3.12.1". `unread` counts the runs that still
    train or were not read to the end. `is_own` is True if the folder is missing, empty or Ammeter's.
    """

    home: str
    system: str
    processor: str
    libc: str
    free_bytes: int
    is_writable: bool
    is_own: bool
    uv: str
    pythons: tuple[str, ...]
    program: str
    unread: int
    chatter: str

    @property
    def is_same_platform(self) -> bool:
        """True if the remote machine has the same operating system and processor type as this one."""
        return f"{self.system.lower()}-{self.processor.lower()}" == platform_here()


_LOOK = """
cd 2>/dev/null || cd /
case $1 in /*) home=$1 ;; "~/"*) home=$(pwd -P)/${1#??} ;; *) home=$(pwd -P)/$1 ;; esac
place=$home
while [ ! -d "$place" ]; do place=$(dirname "$place"); done
rest=${home#"$place"}
home=$(cd "$place" && pwd -P)$rest
say() { printf 'ammeter:%s %s\\n' "$1" "$2"; }
say home "$home"
say system "$(uname -s)"
say processor "$(uname -m)"
say libc "$(getconf GNU_LIBC_VERSION 2>/dev/null)"
say free "$(df -Pk "$place" | awk 'NR == 2 { print $4 }')"
[ -w "$place" ] && say writable yes
if [ -n "$rest" ] || [ -z "$(ls -A "$home")" ] || [ -f "$home/.ammeter-folder" ] ||
  [ -e "$home/program/current/bin/python" ]
then say own yes; fi
for each in uv "$HOME/.local/bin/uv" "$HOME/.cargo/bin/uv"; do
  if found=$(command -v "$each" 2>/dev/null); then say uv "$found"; break; fi
done
for each in python3 python3.14 python3.13 python3.12 python3.11; do
  command -v "$each" >/dev/null 2>&1 && say python "$("$each" -V 2>&1 | head -n 1)"
done
unread=0
for each in "$home"/workers/*/requests; do
  grep -q '"do": "keep"' "$each" 2>/dev/null && unread=$((unread + 1))
done
say unread "$unread"
[ -x "$home/program/current/bin/python" ] && say program "$(basename "$(readlink "$home/program/current")")"
true
"""


def inspect_machine(line: SshConnection, machine: Machine) -> RemoteFacts:
    """Return the facts about a machine, without writing any file on it. Raises ProblemError."""
    answer = run_script(line, _LOOK, [machine.folder])
    found: dict[str, list[str]] = {}
    for key, value in re.findall(r"^ammeter:(\w+) (.*)$", answer.text, re.MULTILINE):
        found.setdefault(key, []).append(printable(value)[:1_000])

    def first(key: str) -> str:
        return found.get(key, [""])[0].strip()

    home = first("home")
    if len(home) > 1_000 or not _HOME.fullmatch(home) or ".." in home.split("/"):
        raise request_error(
            f"The folder on {machine.name} would be '{shortened(home, 200)}', which needs quotes in a shell.",
            "Name another folder there: letters, digits and . _ / + - only, such as /scratch/me/ammeter.",
            key="folder",
            value=machine.folder,
        )
    free, unread = first("free"), first("unread")
    pythons = (re.fullmatch(r"Python (\d+\.\d+\.\d+)\S*", each.strip()) for each in found.get("python", []))
    return RemoteFacts(
        home=home,
        system=first("system"),
        processor=first("processor"),
        libc=first("libc"),
        free_bytes=int(free) * 1024 if re.fullmatch(r"\d{1,15}", free) else 0,
        is_writable=first("writable") == "yes",
        is_own=first("own") == "yes",
        uv=first("uv") if first("uv").startswith("/") else "",
        pythons=tuple(dict.fromkeys(each[1] for each in pythons if each)),
        program=first("program") if re.fullmatch(r"[0-9a-f]{1,64}", first("program")) else "",
        unread=int(unread) if re.fullmatch(r"\d{1,9}", unread) else 0,
        chatter=answer.chatter,
    )
