"""The processes of a command: what they get from their surroundings, and how they end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from engine.experiment.command import Command, command_names
from engine.experiment.problem import ProblemError
from engine.worker.guard import _marked
from engine.worker.keeper import SCRIPTS_PATH, worker_environment
from engine.worker.script import places
from engine.worker.script import process as running
from engine.worker.script.places import FOLDER, OBSERVER, USER_SITE, environment_of, folder_of
from engine.worker.script.process import ScriptProcess

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


def started(tmp_path: Path, code: str, **changes: object) -> ScriptProcess:
    script, private = tmp_path / "script.py", tmp_path / "private"
    script.write_text(code)
    private.mkdir()
    command = Command(line=f"'{sys.executable}' script.py", folder=str(tmp_path))
    return ScriptProcess(command.model_copy(update=changes), private)


def wait_until(is_true: Callable[[], object], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def printed(process: ScriptProcess, until: str) -> str:
    text = ""

    def has_it() -> bool:
        nonlocal text
        text += process.output()
        return until in text

    wait_until(has_it)
    return text


def test_it_runs_in_its_folder_with_its_variables_the_observer_and_an_empty_input(tmp_path: Path) -> None:
    code = "import os, sys; print(os.getcwd(), os.environ['A'], os.environ['PYTHONPATH'], sys.stdin.read())"
    process = started(tmp_path, code, line=f"A='b c' '{sys.executable}' script.py")
    wait_until(lambda: process.status is not None)
    assert process.status == 0
    assert process.output().strip() == f"{tmp_path} b c {OBSERVER}"
    process.close()


def test_an_environment_in_the_folder_comes_first_and_a_workers_protection_is_gone(tmp_path: Path) -> None:
    programs = tmp_path / "venv" / "bin"
    programs.mkdir(parents=True)
    around = {"PATH": "/usr/bin", "PYTHONSAFEPATH": "1", "PYTHONPATH": "/lib"}
    command = Command(line="python train.py", folder=str(tmp_path))
    environment = environment_of(command, tmp_path, around)
    assert environment["PATH"] == f"{programs}{os.pathsep}/usr/bin"
    assert environment["VIRTUAL_ENV"] == str(programs.parent)
    assert environment["PYTHONPATH"] == f"{OBSERVER}{os.pathsep}/lib"
    assert "PYTHONSAFEPATH" not in environment and environment[FOLDER] == str(tmp_path)
    # one that is named wins
    (tmp_path / "other" / "bin").mkdir(parents=True)
    environment = environment_of(command.model_copy(update={"venv": "other"}), tmp_path, around)
    assert environment["PATH"].startswith(str(tmp_path / "other"))


def test_a_conda_environment_on_windows_has_its_python_in_its_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "_PROGRAMS", ("", "Scripts"))
    (tmp_path / "conda" / "Scripts").mkdir(parents=True)
    command = Command(line="python train.py", folder=str(tmp_path), venv="conda")
    path = environment_of(command, tmp_path, {"PATH": "system"})["PATH"]
    assert path.split(os.pathsep) == [str(tmp_path / "conda"), str(tmp_path / "conda" / "Scripts"), "system"]


def test_a_script_has_the_relative_folders_of_pythonpath_that_its_worker_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"src{os.pathsep}/lib")
    around = worker_environment({})
    assert around["PYTHONPATH"] == "/lib"
    command = Command(line="python train.py", folder=str(tmp_path))
    environment = environment_of(command, tmp_path, around)
    assert environment["PYTHONPATH"] == os.pathsep.join((str(OBSERVER), "src", "/lib"))
    # and a program that a script starts is told nothing of the worker
    assert not environment.keys() & around.keys() - os.environ.keys()
    changed = environment_of(command.model_copy(update={"line": "PYTHONPATH=own x"}), tmp_path, around)
    assert changed["PYTHONPATH"] == os.pathsep.join((str(OBSERVER), "own"))


@pytest.mark.parametrize(("own", "of_script"), [({USER_SITE: "1"}, None), ({}, "1")])
def test_a_script_of_the_packaged_program_has_the_settings_that_its_launcher_took_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: dict[str, str], of_script: str | None
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    for name, value in {SCRIPTS_PATH: "src", "PYTHONNOUSERSITE": "1", **own}.items():
        monkeypatch.setenv(name, value)
    around = worker_environment({})
    assert around["PYTHONPATH"] == "" and around["PYTHONNOUSERSITE"] == "1"
    environment = environment_of(Command(line="python train.py", folder=str(tmp_path)), tmp_path, around)
    assert environment["PYTHONPATH"] == os.pathsep.join((str(OBSERVER), "src"))
    assert environment.get("PYTHONNOUSERSITE") == of_script
    assert not environment.keys() & {SCRIPTS_PATH, USER_SITE}


def test_a_folder_on_a_remote_machine_is_below_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert folder_of(Command(folder="code")) == Path("code")
    monkeypatch.setenv("AMMETER_REMOTE", "1")
    names = ("code", "~/code", "/code", "")
    found = [folder_of(Command(folder=name)) for name in names]
    assert found == [tmp_path / "code", tmp_path / "code", Path("/code"), tmp_path]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"folder": "/nowhere/at all"}, "The folder /nowhere/at all does not exist."),
        ({"folder": "~nobody-here/code"}, "The folder ~nobody-here/code does not exist."),
        ({"line": "no-such-program train.py"}, "no-such-program was not found."),
        ({"line": "script.py --amp"}, "script.py is not a program."),
        ({"venv": "nothing here"}, "nothing here is not a virtual or conda environment."),
        ({"venv": "~nobody-here/venv"}, "~nobody-here/venv is not a virtual or conda environment."),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, changes: dict[str, str], words: str) -> None:
    with pytest.raises(ProblemError, match=words):
        started(tmp_path, "", **changes)


def test_it_ends_as_by_ctrl_c(tmp_path: Path) -> None:
    process = started(
        tmp_path,
        "import time\nprint('ready')\ntry: time.sleep(60)\nexcept KeyboardInterrupt: print('saved')",
    )
    printed(process, "ready")
    process.end(20.0)
    assert process.status == 0 and process.tail() == "ready\nsaved\n"
    process.close()


def test_one_that_ignores_signals_is_killed_with_a_child_that_left_its_group(tmp_path: Path) -> None:
    code = (
        "import signal, subprocess, sys, time\n"
        "for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, signal.SIG_IGN)\n"
        "sleep = 'import time; time.sleep(60)'\n"
        "print(subprocess.Popen([sys.executable, '-c', sleep], start_new_session=True).pid, 'ready')\n"
        "time.sleep(60)"
    )
    process = started(tmp_path, code)
    child = psutil.Process(int(printed(process, "ready").split()[0]))
    process.end(0.2)
    assert process.status == -9
    process.close()
    wait_until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)


def test_one_that_saves_as_it_ends_is_killed_once_that_is_urgent(tmp_path: Path) -> None:
    code = (
        "import time\nprint('ready')\ntry: time.sleep(60)\n"
        "except KeyboardInterrupt: print('saving'), time.sleep(60)"
    )
    process = started(tmp_path, code)
    printed(process, "ready")
    began = time.monotonic()
    process.end(50.0, lambda: "saving" in process.tail())
    assert process.status in (-9, -15) and time.monotonic() - began < 10.0
    process.close()


RANK = "import os, time; open(os.environ['RANK'], 'w').close(); time.sleep(600)"
OWNER = """
import os, sys, time
from pathlib import Path
from engine.experiment.command import Command
from engine.worker.guard import MARK, start_guard
from engine.worker.script.process import ScriptProcess
start_guard(sys.argv[1])
os.environ[MARK] = sys.argv[1]
process = ScriptProcess(Command(line=sys.argv[2], folder=sys.argv[3]), Path(sys.argv[3]))
time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="there is a guard on Linux only")
def test_the_ranks_of_torchrun_end_with_a_worker_that_is_killed(tmp_path: Path) -> None:
    mark = f"{os.getpid()}-torchrun"
    (tmp_path / "rank.py").write_text(RANK)
    line = f"'{sys.executable}' -m torch.distributed.run --standalone --nproc-per-node 2 rank.py"
    owner = subprocess.Popen([sys.executable, "-P", "-c", OWNER, mark, line, str(tmp_path)])
    try:
        wait_until(lambda: (tmp_path / "0").exists() and (tmp_path / "1").exists(), 60.0)
    finally:
        owner.kill()
        owner.wait()
    # sessions of their own do not save them
    wait_until(lambda: not any(_marked(f"{mark}/")))


def test_a_daemon_is_killed(tmp_path: Path) -> None:
    code = (
        "import os, time\n"
        "if os.fork(): os._exit(0)\n"
        "os.setsid()\n"
        "if os.fork(): os._exit(0)\n"
        "print(os.getpid(), 'ready', flush=True)\n"
        "time.sleep(60)"
    )
    process = started(tmp_path, code)
    daemon = psutil.Process(int(printed(process, "ready").split()[0]))
    wait_until(lambda: process.status is not None)
    process.close()
    assert not daemon.is_running() or daemon.status() == psutil.STATUS_ZOMBIE


def test_of_much_output_only_the_end_is_read(tmp_path: Path) -> None:
    code = (
        "import sys; sys.stdout.buffer.write(b'\\xff' * 10**8 + b'end'); sys.stdout.flush(); sys.stdin.read()"
    )
    process = started(tmp_path, code)
    wait_until(lambda: process.status is not None)
    text = process.output()
    assert text.endswith("\N{REPLACEMENT CHARACTER}end") and len(text) < 10_000
    assert process.output() == "" and f"[…]\n{process.tail()}" == text
    process.close()


def test_a_line_without_an_end_comes_once_it_is_long(tmp_path: Path) -> None:
    code = "import time\nfor _ in range(1_000): print('progress', end='\\r')\nwhile True: time.sleep(1)"
    process = started(tmp_path, code)
    assert len(printed(process, "progress\r")) < 10_000
    process.close()


def test_a_line_without_an_end_is_held_back_for_a_while_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = started(tmp_path, "import time\nprint('10%', end='\\r')\nwhile True: time.sleep(1)")
    wait_until(lambda: (tmp_path / "private" / "output").read_bytes() == b"10%\r")
    assert process.output() == ""
    monkeypatch.setattr(running, "_HELD_SECONDS", 0.0)
    assert process.output() == "10%\r" and process.output() == ""
    process.close()


def test_a_shell_runs_only_if_asked(tmp_path: Path) -> None:
    process = started(tmp_path, "", line="echo $((1 + 1)) && exit 3", shell=True)
    wait_until(lambda: process.status is not None)
    assert process.status == 3 and process.tail() == "2\n"
    process.close()
    plain = Command(line="echo $HOME '*'")
    assert plain.words == ("echo", "$HOME", "*")


def test_lines_come_whole(tmp_path: Path) -> None:
    code = "import sys\nprint('one')\nsys.stdout.write('tw')\nsys.stdout.flush()\nsys.stdout.write('o')"
    process = started(tmp_path, code)
    wait_until(lambda: process.status is not None)
    assert process.output() == "one\ntwo" and process.output() == ""
    process.close()


@pytest.mark.parametrize(
    ("lines", "names"),
    [
        (["python train.py", "python train.py --amp"], ["train.py", "train.py --amp"]),
        (["old/bin/python train.py", "new/bin/python train.py"], None),
        (["/usr/bin/python3.12 -u code/train.py"], ["train.py"]),
        (["python -m pkg.train x"], ["-m pkg.train x"]),
        (["A=1 torchrun --nproc-per-node 2 train.py"], ["A=1 torchrun --nproc-per-node 2 train.py"]),
    ],
)
def test_commands_are_named_by_what_tells_them_apart(lines: list[str], names: list[str] | None) -> None:
    assert command_names([Command(line=line) for line in lines]) == tuple(names or lines)
