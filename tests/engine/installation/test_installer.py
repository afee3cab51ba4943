"""Installing the engine: whole or not at all, and never in use before it has trained a step."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from engine.experiment.problem import Kind, Problem, ProblemError
from engine.installation import installed
from engine.installation.installed import (
    State,
    cache_folder,
    engine_here,
    installation_folder,
    installations_folder,
    missing_files_problem,
)
from engine.installation.installer import Installer, remove
from engine.installation.request import Fetched, Installed, InstallRequest, Planned, Stage, StageBegan
from tests.engine.installation.conftest import events_of, problem_of, useful, write_wheels
from tests.wheel_index import Fault, WheelIndex


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
    assert not cache_folder(engines).exists()
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
    assert cache_folder(engines).exists()


def test_updating_leaves_the_old_engine_only_where_a_worker_has_it(engines, wanted, wheels):
    events_of(engines, wanted)
    (before,) = names(engines)
    code = "import sys; from pathlib import Path; from engine.installation.installed import mark_in_use"
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
    """Installs in a process that is killed once it says that it is there."""
    command = [sys.executable, "-c", SET_UP, str(engines), index.simple]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert any(line.strip() == moment for line in process.stdout)
        process.kill()


@pytest.mark.slow
def test_killed_in_any_stage_the_next_attempt_uses_what_is_whole(engines, wanted, index):
    index.order(Fault(path="torch-", cut_after=2_000_000, held=threading.Event()))
    kill_at("half", engines, index)
    index.mend()
    kill_at("trying", engines, index)
    assert engine_here(engines).state is State.ABSENT
    index.requests.clear()
    events = events_of(engines, wanted)
    assert index.fetched() == [], "all of it was unpacked before the kill"
    (planned,) = (event.plan for event in events if isinstance(event, Planned))
    assert planned.kept_bytes > 3_000_000
    assert missing_files_problem(engines) is None
    assert len(names(engines)) == 1 and not cache_folder(engines).exists()


@pytest.mark.slow
def test_stop_ends_the_download_at_once_and_leaves_pytorch_as_it_was(engines, wanted, index, wheels):
    events_of(engines, wanted)
    before = names(engines)
    write_wheels(wheels, "2.16.0")
    index.requests.clear()
    held = index.order(Fault(path="torch-", cut_after=1_000_000, held=threading.Event()))
    installer, fetched = Installer(engines, useful), []
    for event in installer.install(wanted):
        if isinstance(event, Fetched) and event.done_bytes > 500_000:
            fetched.append(event)
            installer.stop()
    assert len(fetched) == 1 and fetched[0].packages == "torch" and fetched[0].total_bytes > 3_000_000
    assert held.held is not None and not held.held.is_set()
    assert names(engines) == before and engine_here(engines).state is State.READY
    assert not list(cache_folder(engines).glob(".tmp*"))
    index.mend()
    events_of(engines, wanted)
    assert index.fetched().count("torchvision-0.30.0-py3-none-any.whl") == 1, "it was whole before the stop"


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


def test_a_package_that_a_crash_damaged_in_the_cache_is_downloaded_again(engines, wanted):
    with pytest.raises(ProblemError):
        events_of(engines, wanted, useless)
    part = next(cache_folder(engines).rglob("part7.bin"))
    part.write_bytes(b"")
    assert "part7.bin is incomplete. Start the installation again." in problem_of(engines, wanted)
    events_of(engines, wanted)
    assert missing_files_problem(engines) is None
