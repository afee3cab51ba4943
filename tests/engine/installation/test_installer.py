"""Installing the engine: whole or not at all, and never in use before it has trained a step."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
from collections import namedtuple
from pathlib import Path

import pytest

from engine.experiment.problem import Kind, Problem, ProblemError
from engine.installation import installed
from engine.installation.control import sole
from engine.installation.installed import (
    CURRENT,
    State,
    downloads_folder,
    engine_here,
    installation_folder,
    installations_folder,
    missing_files_problem,
)
from engine.installation.installer import Installer, remove
from engine.installation.request import Installed, InstallRequest, Stage, StageBegan
from tests.engine.installation.conftest import events_of, problem_of, write_wheels
from tests.wheel_index import Fault, WheelIndex, stand_in_wheel


@pytest.fixture(autouse=True)
def no_own_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "has_own_torch", lambda: False)


def useless(packages: Path) -> None:
    raise ProblemError(Problem(kind=Kind.NO_ENGINE, message="It does not train.", remedy="Choose another."))


def names(engines: Path) -> list[str]:
    return [place.name for place in installations_folder(engines).iterdir()]


def test_it_is_in_use_once_it_was_tried_and_leaves_no_downloads(
    engines: Path, wanted: InstallRequest
) -> None:
    tried: list[tuple[bool, State]] = []

    def try_out(packages: Path) -> None:
        tried.append(((packages / "torch" / "lib" / "part59.bin").exists(), engine_here(engines).state))

    events = events_of(engines, wanted, try_out)
    assert [event.stage for event in events if isinstance(event, StageBegan)] == list(Stage)[1:]
    assert tried == [(True, State.ABSENT)]
    engine = engine_here(engines)
    assert engine.state is State.READY
    assert engine.installation is not None
    assert events[-1] == Installed(engine.installation)
    assert engine.installation.packages == {"torch": "2.15.0", "torchvision": "0.30.0"}
    assert not downloads_folder(engines).exists()
    assert missing_files_problem(engines) is None


def test_a_failed_trial_leaves_the_old_engine_in_use(
    engines: Path, wanted: InstallRequest, wheels: Path
) -> None:
    events_of(engines, wanted)
    (before,) = names(engines)
    write_wheels(wheels, "2.16.0")
    assert problem_of(engines, wanted, useless) == "It does not train. Choose another."
    assert names(engines) == [before]
    assert missing_files_problem(engines) is None
    assert (downloads_folder(engines) / "torch-2.16.0-py3-none-any.whl").exists()


def test_updating_leaves_the_old_engine_only_where_a_worker_has_it(engines, wanted, wheels):
    events_of(engines, wanted)
    (before,) = names(engines)
    code = "import sys; from pathlib import Path; from engine.installation.control import mark_in_use"
    code += "; mark_in_use(Path(sys.argv[1])); print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code, str(installation_folder(engines, before))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        assert worker.stdout is not None and worker.stdin is not None
        worker.stdout.readline()
        write_wheels(wheels, "2.16.0")
        events_of(engines, wanted)
        assert before in names(engines)
        worker.stdin.close()
    assert remove(engines) > 6_000_000
    assert names(engines) == []
    assert engine_here(engines).state is State.ABSENT


SET_UP = """
import sys
from pathlib import Path
from engine.installation.request import Fetched, StageBegan
from engine.installation.installer import Installer
from engine.installation.request import Source, InstallRequest

def try_out(packages):
    sys.stdin.read()

for event in Installer(Path(sys.argv[1]), try_out).install(InstallRequest(source=Source(mirror=sys.argv[2]))):
    if isinstance(event, StageBegan):
        print(event.stage.value, flush=True)
    if isinstance(event, Fetched) and event.done_bytes > 1_000_000:
        print("half", flush=True)
"""


def kill_at(moment: str, engines: Path, index: WheelIndex) -> None:
    """Sets the engine up in a process that is killed once it says that it is there."""
    command = [sys.executable, "-c", SET_UP, str(engines), index.simple]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert any(line.strip() == moment for line in process.stdout)
        process.kill()


def test_killed_in_any_stage_it_goes_on_and_never_claims_to_be_whole(engines, wanted, index):
    index.order(Fault(path="torch-", cut_after=2_000_000, held=threading.Event()))
    kill_at("half", engines, index)
    index.mend()
    for moment in ("unpacking", "trying"):
        kill_at(moment, engines, index)
        assert engine_here(engines).state is State.ABSENT
    asked = [
        request.first_byte
        for request in index.requests
        if request.path.endswith("torch-2.15.0-py3-none-any.whl")
    ]
    assert len(asked) == 2 and asked[1] is not None and asked[1] > 1_000_000
    events_of(engines, wanted)
    assert missing_files_problem(engines) is None
    assert len(names(engines)) == 1


def test_a_stop_while_it_is_tried_waits_for_nothing(engines: Path, wanted: InstallRequest) -> None:
    is_over = threading.Event()

    def try_out(packages: Path) -> None:
        is_over.wait()

    installer = Installer(engines, try_out)
    for event in installer.install(wanted):
        if event == StageBegan(Stage.TRYING):
            installer.stop()
    is_over.set()
    assert names(engines) == []
    assert engine_here(engines).state is State.ABSENT


def test_without_room_nothing_is_fetched(engines, wanted, index, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: namedtuple("Usage", "free")(5 * 2**20))
    assert f"only 5.0 MiB are free at {engines}." in problem_of(engines, wanted)
    assert not index.fetched()


def test_a_pointer_that_cannot_be_read_is_a_problem_in_words(engines: Path, wanted: InstallRequest) -> None:
    (engines / CURRENT).mkdir(parents=True)
    installations_folder(engines).mkdir()
    assert f"cannot be written to {engines}: it is a folder." in problem_of(engines, wanted)


def test_one_engine_is_set_up_at_a_time(engines: Path, wanted: InstallRequest) -> None:
    with sole(engines):
        assert "Another Ammeter process" in problem_of(engines, wanted)


def test_a_broken_engine_is_named_by_its_file_and_repaired(engines: Path, wanted: InstallRequest) -> None:
    events_of(engines, wanted)
    packages = engine_here(engines).packages
    assert packages is not None
    file = packages / "torch" / "lib" / "part7.bin"
    for harm, break_it in (("incomplete", lambda: file.write_bytes(b"half")), ("missing", file.unlink)):
        break_it()
        problem = missing_files_problem(engines)
        assert problem is not None and problem.message.endswith(f"its file torch/lib/part7.bin is {harm}.")
    events_of(engines, wanted)
    assert missing_files_problem(engines) is None


def test_a_wheel_that_cannot_be_unpacked_is_not_blamed_on_the_folder(engines, wanted, wheels):
    stand_in_wheel(wheels, "torch", "2.15.0", {"torch/away": "", "torch/away/below.py": ""})
    told = problem_of(engines, wanted)
    # what uv says depends on which of its threads was first
    assert re.fullmatch(
        r"(torch-2\.15\.0-py3-none-any\.whl|A wheel) cannot be unpacked: (File exists|Is a directory)\. "
        r"The wheel is faulty\. Choose a mirror or a folder of wheels\.",
        told,
    ), told


def test_a_read_only_folder_is_refused(engines, wanted, read_only):
    engines.mkdir()
    with read_only(engines):
        assert "Permission denied" in problem_of(engines, wanted)
    assert not list(engines.iterdir())
