"""An older store is copied before it is updated; no kill, full disk or failure loses it."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections import namedtuple
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from engine import __version__
from engine.cli import main
from engine.experiment.experiment import Experiment
from engine.experiment.problem import ProblemError
from engine.protocol.tune import Tuning
from engine.store import database, format16
from engine.store.database import backups, remove_backups
from engine.store.queue import WaitingItem
from engine.store.saved.study import Study
from engine.store.schema import VERSION
from engine.store.store import Store
from gui.session.jobs import job_of

Older = Callable[[], None]
KILLED_AT_EACH_STATEMENT = """
import json, os, shutil, signal, sys
from pathlib import Path
from engine.store import database
from engine.store.store import Store

before, path = Path(sys.argv[1]), Path(sys.argv[2])
connect, copy = database._connect, database.back_up

def dies_at(number):
    left = [number]
    def count(_):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    def counted(*arguments):
        connection = connect(*arguments)
        connection.set_trace_callback(count)
        return connection
    database._connect = counted
    Store(path)
    os._exit(0)

for number in range(1, 1000):
    shutil.rmtree(path.parent, ignore_errors=True)
    shutil.copytree(before, path.parent)
    child = os.fork()
    if child == 0:
        dies_at(number)
    status = os.waitpid(child, 0)[1]
    with Store(path) as store:
        print(json.dumps([run.name for run in store.runs()]), flush=True)
    whole = [database._connect(copy, "ro&immutable=1", None) for copy in database.backups(path)]
    print(json.dumps([c.execute("PRAGMA integrity_check").fetchone()[0] for c in whole]), flush=True)
    hidden = [entry.name for entry in path.parent.iterdir() if entry.name.endswith(".part")]
    print(json.dumps(hidden), flush=True)
    if os.WIFEXITED(status):
        break
"""


def names_in(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [row[0] for row in connection.execute("SELECT name FROM runs")]


def test_the_copy_has_what_was_only_in_the_log_and_the_store_is_up_to_date(path: Path, older: Older) -> None:
    older()
    with closing(sqlite3.connect(path)) as writer:
        # left open: what it wrote is in the log, and not yet in the file
        writer.execute("UPDATE runs SET name = 'In the log'")
        writer.commit()
        with Store(path) as store:
            assert [run.name for run in store.runs()] == ["In the log"]
    (copy,) = backups(path)
    assert copy.name == "ammeter.sqlite.v16.backup" and names_in(copy) == ["In the log"]
    with Store(path):
        pass
    assert backups(path) == [copy]
    remove_backups(path)
    assert backups(path) == []


def test_a_new_store_and_a_current_one_are_not_copied(path: Path) -> None:
    for _ in range(2):
        Store(path).close()
    assert backups(path) == []


def test_a_verb_that_reads_the_runs_and_ends_well_ends_the_need_for_the_copy(home, monkeypatch, capsys):
    path = home / "ammeter.sqlite"
    Store(path).close()
    copy = home / f"ammeter.sqlite.v{VERSION - 1}.backup"
    copy.touch()
    assert main(["presets"]) == 0 and main(["show", "no such run"]) == 2
    assert copy.exists()
    assert main(["results"]) == 0
    assert not copy.exists()


def test_without_room_for_the_copy_nothing_is_touched_and_the_runs_are_read(path, older, monkeypatch):
    older()
    before = path.read_bytes()
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(database.shutil, "disk_usage", lambda _: usage(2**40, 2**40, 2**20))
    with Store(path) as store:
        assert [run.name for run in store.runs()] == ["Old"]
        assert store.unwritable is not None
        assert (
            "no room for a copy" in store.unwritable.message and "Free disk space" in store.unwritable.remedy
        )
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_a_migration_that_fails_leaves_the_store_as_it_was_and_says_where_the_copy_is(
    path, older, monkeypatch
):
    older()

    def broken(connection: sqlite3.Connection) -> None:
        connection.execute("DROP TABLE waiting")
        connection.execute("INSERT INTO runs (id) VALUES ('a')")

    with monkeypatch.context() as then:
        then.setattr(format16, "bring_over", broken)
        with pytest.raises(ProblemError, match="could not be updated") as caught:
            Store(path)
    (copy,) = backups(path)
    assert str(copy) in caught.value.problem.message and names_in(path) == names_in(copy) == ["Old"]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (format16.FORMAT,)
    with Store(path) as store:
        assert [run.name for run in store.runs()] == ["Old"]


def test_a_newer_store_names_the_copy_from_before_the_update(path: Path) -> None:
    Store(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    copy = path.with_name(f"{path.name}.v{VERSION}.backup")
    copy.touch()
    with pytest.raises(ProblemError, match=f"version {__version__} supports") as caught:
        Store(path)
    assert str(copy) in caught.value.problem.remedy


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the kills are in forks")
def test_killed_at_any_statement_the_migration_loses_nothing(path, older, tmp_path):
    older()
    told = subprocess.run(
        [
            sys.executable,
            "-c",
            KILLED_AT_EACH_STATEMENT,
            str(path.parent),
            str(tmp_path / "again" / path.name),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    lines = [json.loads(line) for line in told.stdout.splitlines()]
    runs, copies, hidden = lines[0::3], lines[1::3], lines[2::3]
    assert len(runs) > 15
    assert all(names == ["Old"] for names in runs)
    assert all(checks in ([], ["ok"]) for checks in copies) and copies[-1] == ["ok"]
    assert not any(hidden)


def test_what_is_saved_tells_the_version_that_made_it(path: Path, older: Older) -> None:
    older()
    with Store(path) as store:
        comparison = store.add_comparison("New")
        store.add(Experiment(), comparison=comparison)
        study = store.studies.begin(Study(answer=Tuning(experiment=Experiment())))
        assert [store.comparisons()[0].ammeter, study.ammeter] == [__version__] * 2


def test_an_order_that_cannot_be_read_says_so(path: Path, older: Callable[[], None]) -> None:
    older()
    with Store(path) as store:
        store.waiting.add([WaitingItem("strange", "limit", "A search", "{}")])
        (strange,) = (item for item in store.waiting.claimable() if item.key == "strange")
    with pytest.raises(ProblemError, match="cannot be read from the queue"):
        job_of(strange)
