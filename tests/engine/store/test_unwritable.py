"""Where nothing can be written, what is there is read all the same, and it is said that nothing is saved."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path

import pytest

from engine.cli.app import main
from engine.experiment.experiment import Experiment
from engine.experiment.paths import store_path
from engine.experiment.problem import Kind, ProblemError
from engine.protocol.events import Finished, Samples, Started, Summary
from engine.store.record import Status
from engine.store.store import Store

ReadOnly = Callable[[Path], AbstractContextManager[None]]
Capture = pytest.CaptureFixture[str]

INDEX_BYTES = 32_768
"""What SQLite needs beside the log to open it."""

KILLED = """
import os, sys
from pathlib import Path
from engine.experiment.experiment import Experiment
from engine.store.store import Store

store = Store(Path(sys.argv[1]))
run = store.add(Experiment(), name="killed")
store.begin(run.id)
for _ in range(10):
    store.set_note(run.id, "a note")
os._exit(0)
"""


@pytest.fixture
def finished(path: Path, started: Callable[..., Started], batch: Callable[..., Samples]) -> str:
    """The id of a finished run in the store at `path`, which is closed."""
    with Store(path) as store:
        run = store.add(Experiment(), name="whole")
        store.begin(run.id)
        store.record(run.id, [started(), batch(1, 4), Finished(summary=Summary(steps=4))])
    return run.id


def killed(path: Path) -> None:
    """Leaves a running run in the store, whose process ends without closing anything."""
    subprocess.run([sys.executable, "-c", KILLED, str(path)], check=True, cwd=Path(__file__).parents[3])
    assert _log(path).stat().st_size > INDEX_BYTES


def _log(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def test_what_is_there_is_read_and_nothing_is_written(path: Path, finished: str, read_only: ReadOnly) -> None:
    before = path.read_bytes()
    with read_only(path.parent), Store(path) as store:
        assert store.unwritable is not None and "Nothing can be saved" in store.unwritable.message
        store.recover()
        assert [run.name for run in store.runs()] == ["whole"]
        assert store.samples(finished)["step"].tolist() == [1, 2, 3, 4]
        for write in (
            lambda: store.rename(finished, "other"),
            lambda: store.set_tags(finished, ["tag"]),
            lambda: store.delete([finished]),
            lambda: store.add(Experiment()),
            store.check_writable,
        ):
            with pytest.raises(ProblemError, match="Nothing can be saved") as caught:
                write()
            assert caught.value.problem.kind is Kind.STORE
        assert [run.name for run in store.runs()] == ["whole"]
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_what_a_kill_left_in_the_log_is_read_if_it_has_its_index(path, finished, read_only):
    killed(path)
    before = {entry.name: entry.read_bytes() for entry in path.parent.iterdir() if "-shm" not in entry.name}
    with read_only(path.parent), Store(path) as store:
        assert store.unwritable is not None and store.recover() == ()
        assert [(run.name, run.status) for run in store.runs()] == [
            ("killed", Status.RUNNING),
            ("whole", Status.FINISHED),
        ]
    after = {entry.name: entry.read_bytes() for entry in path.parent.iterdir() if "-shm" not in entry.name}
    assert after == before
    path.with_name(path.name + "-shm").unlink()
    with read_only(path.parent), pytest.raises(ProblemError, match="Nothing can be saved"):
        Store(path)


def test_a_folder_without_runs_is_refused(path: Path, read_only: ReadOnly) -> None:
    path.parent.mkdir()
    for place in (path, path.parent / "deeper" / path.name):
        with read_only(path.parent), pytest.raises(ProblemError, match="Nothing can be saved"):
            Store(place)


def test_a_full_disk_is_read_and_written_again_once_there_is_room(path, finished, no_room):
    with no_room():
        store = Store(path)
        assert store.unwritable is not None
        assert [run.name for run in store.runs()] == ["whole"]
        with pytest.raises(ProblemError, match="Nothing can be saved"):
            store.rename(finished, "other")
    with closing(store):
        store.rename(finished, "other")
        assert store.unwritable is None
    with Store(path) as again:
        assert again.run(finished).name == "other"


def test_a_disk_that_is_full_only_for_what_is_new_is_read_too(path, finished, no_room):
    killed(path)
    with no_room(_log(path).stat().st_size), Store(path) as store:
        assert store.unwritable is None
        # to mark the run as interrupted takes more room
        assert store.recover() == () and store.unwritable is not None
        assert [run.status for run in store.runs()] == [Status.RUNNING, Status.FINISHED]
    with Store(path) as again:
        assert len(again.recover()) == 1


def test_a_damaged_store_on_a_read_only_folder_is_answered_with_a_sentence(path, finished, read_only):
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))
    with read_only(path.parent), pytest.raises(ProblemError, match="damaged"), Store(path) as store:
        store.recover()


def test_the_verbs_that_read_work_and_those_that_write_refuse(path, finished, read_only, tmp_path, capsys):
    store_path().parent.mkdir(exist_ok=True)
    shutil.copyfile(path, store_path())
    with read_only(store_path().parent):
        assert main(["results", "--json"]) == 0
        said = capsys.readouterr()
        assert [run["name"] for run in json.loads(said.out)["runs"]] == ["whole"]
        assert said.err.count("Nothing can be saved") == 1
        assert main(["show", finished, "--samples", "--json"]) == 0
        assert main(["export", finished, "--to", str(tmp_path / "whole.csv")]) == 0
        assert (tmp_path / "whole.csv").stat().st_size
        capsys.readouterr()
        for verb in (["delete", finished], ["import", str(tmp_path / "some.zip")], ["run", "--steps", "1"]):
            assert main([*verb, "--json"]) == 1
            said = capsys.readouterr()
            assert "Nothing can be saved" in json.loads(said.out)["error"]["message"]
            assert not said.err


def test_a_store_of_a_version_that_never_was_or_without_a_table_is_damaged(path: Path, finished: str) -> None:
    for damage in ("PRAGMA user_version = -1", "DROP TABLE samples"):
        spoiled = path.with_name("spoiled.sqlite")
        shutil.copyfile(path, spoiled)
        with closing(sqlite3.connect(spoiled)) as connection:
            connection.execute(damage)
        before = spoiled.read_bytes()
        with pytest.raises(ProblemError, match="not a file of Ammeter's saved runs, or it is damaged"):
            Store(spoiled)
        assert spoiled.read_bytes() == before, damage


@pytest.mark.skipif(os.name != "posix", reason="Windows has limits of its own")
@pytest.mark.parametrize("length", [600, 5_000])
def test_a_path_that_is_too_long_is_answered_in_one_short_sentence(tmp_path, monkeypatch, capsys, length):
    home = str(tmp_path)
    while len(home) < length:
        home += "/" + "long" * 50
    monkeypatch.setenv("AMMETER_HOME", home)
    assert main(["results", "--json"]) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert "too long" in error["message"] and len(error["message"]) < 120
    assert not list(tmp_path.iterdir())
    assert main(["presets", "--json"]) == 0


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such names")
def test_a_home_with_a_tab_is_one_like_any_other(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("AMMETER_HOME", str(tmp_path / "a\tb"))
    with Store() as store:
        store.add(Experiment(), name="here")
    assert main(["results", "--json"]) == 0
    assert "here" in capsys.readouterr().out
