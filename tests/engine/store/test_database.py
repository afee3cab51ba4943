"""Opening the file: what is not ours or newer is refused and stays as it is."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind, ProblemError
from engine.store import database
from engine.store.database import open_database
from engine.store.schema import VERSION
from engine.store.store import Store


def newer(path: Path) -> None:
    Store(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")


def letter(path: Path) -> None:
    path.write_bytes(b"a letter to my aunt, rather long, and no database at all" * 10)


def recipes(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")


@pytest.mark.parametrize(
    ("make", "why"),
    [(newer, "newer Ammeter"), (letter, "not a file of Ammeter's"), (recipes, "not a file of Ammeter's")],
)
def test_a_file_that_is_not_ours_is_refused_and_not_touched(path, make, why):
    path.parent.mkdir()
    make(path)
    before = path.read_bytes()
    with pytest.raises(ProblemError, match=why) as caught:
        Store(path)
    assert caught.value.problem.kind is Kind.STORE and path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_a_store_that_another_program_makes_first_is_opened(path, monkeypatch):
    version, choose_journal = database._version, database._choose_journal
    read: list[int] = []

    def choose_and_be_overtaken(connection: sqlite3.Connection) -> tuple[str, ...]:
        monkeypatch.setattr(database, "_choose_journal", choose_journal)
        notes = choose_journal(connection)
        read.append(version(connection))
        Store(path).close()
        # the version is read before the lock is waited for, and again with the lock
        monkeypatch.setattr(database, "_version", lambda at: version(at) if at.in_transaction else read[0])
        return notes

    monkeypatch.setattr(database, "_choose_journal", choose_and_be_overtaken)
    with Store(path) as store:
        assert store.unwritable is None and store.runs() == ()
    assert read == [0]


def test_a_damaged_file_is_answered_with_a_sentence(path: Path) -> None:
    with Store(path) as store:
        for _ in range(50):
            store.add(Experiment())
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))
    with pytest.raises(ProblemError) as caught, Store(path) as store:
        store.runs()
    assert caught.value.problem.kind is Kind.STORE


def test_a_folder_that_cannot_be_made_or_is_no_file_is_answered_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder", encoding="utf-8")
    with pytest.raises(ProblemError, match="cannot be opened or written") as caught:
        Store(tmp_path / "file" / "ammeter.sqlite")
    assert "AMMETER_HOME" in caught.value.problem.remedy
    with pytest.raises(ProblemError) as caught:
        Store(tmp_path)
    assert caught.value.problem.kind is Kind.STORE


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.parent.mkdir()
    path.touch()
    with Store(path) as store:
        assert store.runs() == ()


def test_the_journal_is_written_ahead_where_the_file_system_can(path: Path) -> None:
    with Store(path) as store:
        assert store.notes == ()
        assert store._connection.read("PRAGMA journal_mode")[0][0] == "wal"
        assert store._connection.read("PRAGMA foreign_keys")[0][0] == 1


@pytest.mark.skipif(sys.platform == "win32", reason="dot-file locks are a Unix way of SQLite's")
def test_where_wal_is_refused_a_rollback_journal_is_used_and_said(path: Path) -> None:
    # this way of SQLite's to reach files has no shared memory, as network file systems have none
    connection, notes, *_ = open_database(path, vfs="unix-dotfile")
    try:
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "delete"
        assert len(notes) == 1 and "rollback journal" in notes[0]
        assert connection.execute("SELECT count(*) FROM runs").fetchone()[0] == 0
    finally:
        connection.close()


def test_a_file_locked_by_another_program_is_answered_with_a_sentence(path, monkeypatch):
    monkeypatch.setattr("engine.store.database._BUSY_SECONDS", 0.05)
    with Store(path) as first, Store(path) as second:
        with first._connection.writing(), pytest.raises(ProblemError, match="locked by another program"):
            second.add(Experiment())
        assert second.add(Experiment()).number == 1


def test_a_store_that_another_program_just_makes_is_not_taken_for_a_strange_file(path, monkeypatch):
    Store(path).close()
    real, answers = database._version, [0]
    # as read a moment before the other program committed its tables
    monkeypatch.setattr(
        database, "_version", lambda connection: answers.pop() if answers else real(connection)
    )
    with Store(path) as store:
        assert store.runs() == ()
