"""Windows and macOS, as far as Linux shows them: every module can be imported, and the branches work."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path, PureWindowsPath

import psutil
import pytest

from engine.doctor.display import display_problem
from engine.experiment.checks import DeviceEntry
from engine.experiment.experiment import experiment_from
from engine.experiment.presets import save_own
from engine.experiment.problem import ProblemError
from engine.export.files import atomic_path
from engine.export.mlflow import parse_destination
from engine.protocol import jobs
from engine.protocol.events import CatalogRead, Event, Examined, Failed, Finished, Log
from engine.store.database import file_uri
from engine.training import precision
from engine.training.measuring.memory_cap import check_cap
from engine.worker.launcher import iterate
from engine.worker.site import WorkerProcess, interpreter
from engine.worker.supervision import ProcessSession, Timeouts, death_problem
from tests import elsewhere

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pretends to be elsewhere than on Linux")

TINY = experiment_from(
    {
        "model": "linear",
        "dataset": "synthetic-regression",
        "samples": 20,
        "batch_size": 10,
        "steps": 30,
        "device": "cpu",
        "measure": {"warmup_steps": 1, "block_steps": 2},
    }
)


@pytest.fixture(scope="module")
def events() -> list[Event]:
    """The events of a worker that imports all modules on macOS and Windows, and does its jobs on Windows."""
    worker = WorkerProcess((sys.executable, "-P", elsewhere.__file__))
    events: list[Event] = []
    for job in (jobs.ReadCatalog(), jobs.Examine(), jobs.Train(experiment=TINY)):
        session = ProcessSession(worker, job, Timeouts())
        events += [event for event in iterate(session) if event is not None]
        assert not isinstance(events[-1], Failed), events
    session.close()
    return events


@pytest.mark.slow
def test_every_module_can_be_imported_on_macos_and_windows(events: list[Event]) -> None:
    said = [event.message for event in events if isinstance(event, Log)]
    assert not [message for message in said if elsewhere.FAILED in message], "\n".join(said)


def test_a_worker_on_windows_knows_its_processor_and_trains(events: list[Event]) -> None:
    (catalog,) = (event.catalog for event in events if isinstance(event, CatalogRead))
    assert catalog.devices[-1].title == elsewhere.PROCESSOR
    (examined,) = (event for event in events if isinstance(event, Examined))
    assert examined.checks
    assert isinstance(events[-1], Finished)


@pytest.mark.parametrize(
    ("system", "environment", "data", "config", "engines"),
    [
        (
            "win32",
            {"WIN_PD_OVERRIDE_LOCAL_APPDATA": r"C:\Users\me\AppData\Local"},
            r"C:\Users\me\AppData\Local\Ammeter",
            r"C:\Users\me\AppData\Local\Ammeter",
            r"C:\Users\me\AppData\Local\Ammeter\engine",
        ),
        (
            "darwin",
            {"HOME": "/Users/me"},
            "/Users/me/Library/Application Support/Ammeter",
            "/Users/me/Library/Application Support/Ammeter",
            "/Users/me/Library/Application Support/Ammeter/engine",
        ),
    ],
)
def test_the_user_s_data_lie_where_the_system_wants_them(
    system: str, environment: dict[str, str], data: str, config: str, engines: str
) -> None:
    script = (
        "from tests.elsewhere import pretend\n"
        f"pretend({system!r})\n"
        "from engine.experiment.paths import config_folder, data_folder\n"
        "from engine.installation.installed import engines_folder\n"
        "print(data_folder(), config_folder(), engines_folder(), sep='\\n')"
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AMMETER", "XDG"))}
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=elsewhere.PROGRAM,
        env={**kept, **environment},
        text=True,
        capture_output=True,
        check=True,
    )
    # written with this system's separators
    assert [*map(PureWindowsPath, done.stdout.splitlines())] == [
        *map(PureWindowsPath, (data, config, engines))
    ]


def test_a_worker_without_a_group_ends_with_all_that_it_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "killpg")
    waits = "import sys; sys.stdin.read()"
    body = (
        f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {waits!r}]).pid, flush=True)"
    )
    worker = WorkerProcess((sys.executable, "-c", f"{body}; {waits}"))
    item = worker.next_item(30)
    child = psutil.Process(int(getattr(item, "shown")))  # noqa: B009 - it is no event
    worker.kill()
    assert worker.close() != 0
    assert not psutil.wait_procs([child], timeout=10)[1]


def test_a_worker_has_streams_where_the_window_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/programs/Ammeter/python/pythonw.exe")
    assert interpreter() == "/programs/Ammeter/python/python.exe"


def test_a_crash_on_windows_bears_the_number_that_people_search_for() -> None:
    assert "with exit status 0xC0000005." in death_problem(0xC0000005).message
    assert "with exit status 3." in death_problem(3).message


def test_windows_and_macos_name_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(precision, "_MACOS_PROCESSOR", ("/bin/echo", "Apple M2"))
    assert precision.processor.__wrapped__().title == "Apple M2"
    monkeypatch.setattr(precision, "_MACOS_PROCESSOR", ("/no/such/program",))
    monkeypatch.setattr("platform.processor", lambda: "arm")
    assert precision.processor.__wrapped__().title == "arm"


def test_no_other_system_caps_a_processor_s_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(ProblemError, match="cannot be capped here"):
        check_cap(DeviceEntry(name="cpu", title="CPU", memory_mib=1.0, precisions=()), 1.0)


def test_only_linux_is_asked_for_a_display(monkeypatch: pytest.MonkeyPatch) -> None:
    assert display_problem({}) is not None
    monkeypatch.setattr(sys, "platform", "darwin")
    assert display_problem({}) is None


class SharingViolationError(PermissionError):
    """Windows' refusal to rename or replace a file that is open."""

    winerror = 32


@pytest.fixture
def open_files_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that this process has open are neither renamed nor replaced, as on Windows."""

    def refusing(change: Callable[..., None]) -> Callable[..., None]:
        def changed(source: str | Path, target: str | Path) -> None:
            paths = {os.path.realpath(source), os.path.realpath(target)}
            if any(file.path in paths for file in psutil.Process().open_files()):
                raise SharingViolationError(13, "The process cannot access the file")
            change(source, target)

        return changed

    monkeypatch.setattr(os, "rename", refusing(os.rename))
    monkeypatch.setattr(os, "replace", refusing(os.replace))


@pytest.mark.usefixtures("open_files_stay")
def test_an_export_names_the_program_that_has_its_file_open(tmp_path: Path) -> None:
    target = tmp_path / "runs.csv"
    target.write_text("old")
    with (
        target.open(),
        pytest.raises(ProblemError, match=r"Could not replace runs.csv: it is open in another program"),
        atomic_path(target, force=True) as temporary,
    ):
        temporary.write_text("new")
    assert target.read_text() == "old"


def test_a_drive_in_a_uri_of_mlflow_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "C:").mkdir()
    assert parse_destination("mlflow:file:///C:/runs").shown == str(tmp_path / "C:" / "runs")
    assert parse_destination(f"mlflow:file://{tmp_path}/runs").shown == str(tmp_path / "runs")


def test_sqlite_is_given_a_server_within_the_path() -> None:
    assert file_uri(PureWindowsPath(r"\\server\share\a b.sqlite")) == "file:////server/share/a%20b.sqlite"
    assert file_uri(PureWindowsPath(r"C:\a b.sqlite")) == "file:///C:/a%20b.sqlite"


def test_a_preset_s_file_is_no_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMMETER_HOME", str(tmp_path))
    assert save_own("Con", TINY).origin.name == "con-preset.toml"
    assert save_own("Console", TINY).origin.name == "console.toml"


def test_a_code_page_without_a_letter_stops_no_verb() -> None:
    script = (
        "import sys; from engine.cli.app import main; from engine.cli import output; main(['--version']); "
    )
    done = subprocess.run(
        [sys.executable, "-c", script + "output.line('1.5\u00d7, \u22122')"],
        cwd=elsewhere.PROGRAM,
        env={**os.environ, "PYTHONIOENCODING": "cp1252"},
        capture_output=True,
        check=True,
    )
    assert done.stdout.decode("cp1252").splitlines()[-1] == "1.5×, ?2"
