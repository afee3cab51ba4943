"""The saved studies."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from engine.experiment.problem import Kind, Problem, ProblemError
from engine.protocol.answer import Answer, StudyKind
from engine.store.connection import Connection
from engine.store.queue import claims
from engine.store.saved.study import ANSWERS, Study, StudyEntry, columns_of
from engine.store.saved.table import SavedTable, me, moment
from engine.store.saved.traces import Traces

A = TypeVar("A", bound=Answer)


class Studies(SavedTable):
    """The saved studies, one row each, which has its newest snapshot."""

    _table = "studies"

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.traces = Traces(connection)

    def save(self, study: Study[A]) -> None:
        """Writes a study that has begun, even where the store's file was taken away meanwhile."""
        with self._connection.writing() as connection:
            self._put(connection, study, owner=me())

    def begin(self, study: Study[A], *, keeps_place: bool = False) -> Study[A]:
        """Marks a study as carried on by this process and as not over; it is added if it is new.

        It leaves the queue, unless it `keeps_place` there. Raises ProblemError where a process that lives, or
        that of another machine, carries it on.
        """
        study = replace(study, is_over=False, problem=None, folder=self.traces.folder)
        with self._connection.writing() as connection:
            if connection.execute("SELECT 1 FROM studies WHERE id = ?", (study.id,)).fetchone():
                row = self._free_row(connection, study.id)
                study = replace(study, number=row["number"], created=moment(row["created"]))
            study = self._put(connection, study, owner=me())
            if not keeps_place:
                claims.leave(connection, study.id)
        return study

    def add(self, study: Study[A]) -> Study[A]:
        """Saves a study that nobody carries on yet; returns it with its number."""
        with self._connection.writing() as connection:
            return self._added(connection, study, owner=None)

    def end(self, study: Study[A]) -> Study[A]:
        """Marks a study as over, and lets it be carried on elsewhere."""
        study = replace(study, is_over=True, doing="", trains=None)
        with self._connection.writing() as connection:
            return self._put(connection, study, owner=None)

    def find(self, study_id: str, kind: StudyKind | None = None) -> Study[Any]:
        """The study of that id, of that kind alone if one is given."""
        with self._connection.reading() as connection:
            row = self._row(connection, study_id)
            if kind not in (None, row["kind"]):
                raise ProblemError(self._missing(study_id))
            try:
                return self._study(row)
            except (ValueError, KeyError):
                raise ProblemError(_unreadable(row)) from None

    def newest(self, kind: StudyKind | None = None, limit: int | None = None) -> tuple[StudyEntry, ...]:
        """The studies of which something is known, newest first; of one kind, or of all."""
        rows = self._connection.read(
            "SELECT id, kind, number, title, digest, created, device_name, ended, runs FROM studies"
            " WHERE is_known AND kind = coalesce(?, kind) ORDER BY created DESC, number DESC LIMIT ?",
            (kind, -1 if limit is None else limit),
        )
        entries = []
        for row in rows:
            # one damaged row must not hide the others
            with suppress(ValueError, TypeError, OverflowError):
                entries.append(_entry(row))
        return tuple(entries)

    def newest_of_runs(self, kind: StudyKind, run_ids: Sequence[str]) -> str | None:
        """The id of the newest study of that kind of exactly these runs, in this order, if any."""
        rows = self._connection.read(
            "SELECT id FROM studies WHERE is_known AND kind = ? AND runs = ? ORDER BY number DESC LIMIT 1",
            (kind, json.dumps(list(run_ids))),
        )
        return rows[0]["id"] if rows else None

    def delete(self, study_id: str, *, keeps_traces: bool = False) -> None:
        """Deletes a study with its traces, also from the queue; the runs that it trained stay.

        With `keeps_traces` these stay until the next cleaning up, so that `restore` brings all of it back.
        Refused while another process carries it on.
        """
        with self._connection.writing() as connection:
            if connection.execute("SELECT 1 FROM studies WHERE id = ?", (study_id,)).fetchone():
                self._free_row(connection, study_id)
                connection.execute("DELETE FROM studies WHERE id = ?", (study_id,))
            claims.leave(connection, study_id)
        if not keeps_traces:
            self.traces.delete(study_id)

    def restore(self, study: Study[A]) -> None:
        """Puts back a study that was deleted, under its number. Nothing happens if it is there."""
        with self._connection.writing() as connection:
            if connection.execute("SELECT 1 FROM studies WHERE id = ?", (study.id,)).fetchone() is None:
                self._write_new(connection, study, owner=None)

    def clean_up(self) -> None:
        """Deletes traces whose study is gone."""
        self.traces.keep_only(row["id"] for row in self._connection.read("SELECT id FROM studies"))

    def _put(self, connection: sqlite3.Connection, study: Study[A], owner: str | None) -> Study[A]:
        if connection.execute("SELECT 1 FROM studies WHERE id = ?", (study.id,)).fetchone() is None:
            return self._added(connection, study, owner)
        self._change(connection, study.id, **columns_of(study), owner=owner)
        return study

    def _added(self, connection: sqlite3.Connection, study: Study[A], owner: str | None) -> Study[A]:
        study = replace(study, number=next_number(connection, study.kind))
        self._write_new(connection, study, owner)
        return study

    def _write_new(self, connection: sqlite3.Connection, study: Study[A], owner: str | None) -> None:
        head = {"id": study.id, "kind": study.kind, "number": study.number, "ammeter": study.ammeter}
        self._insert(connection, **head, created=study.created.timestamp(), owner=owner, **columns_of(study))

    def _study(self, row: sqlite3.Row) -> Study[Any]:
        return Study(
            id=row["id"],
            number=row["number"],
            created=moment(row["created"]),
            device_name=row["device_name"],
            is_over=row["ended"] is not None,
            problem=Problem.model_validate_json(row["problem"]) if row["problem"] else None,
            ammeter=row["ammeter"],
            answer=ANSWERS[row["kind"]].model_validate_json(row["answer"]),
            folder=self.traces.folder,
        )


def next_number(connection: sqlite3.Connection, kind: str) -> int:
    """The number of the next study of a kind."""
    statement = "SELECT coalesce(max(number), 0) + 1 FROM studies WHERE kind = ?"
    return int(connection.execute(statement, (kind,)).fetchone()[0])


def _entry(row: sqlite3.Row) -> StudyEntry:
    return StudyEntry(
        id=row["id"],
        kind=row["kind"],
        number=row["number"],
        title=row["title"],
        digest=row["digest"],
        created=moment(row["created"]),
        device_name=row["device_name"],
        is_over=row["ended"] is not None,
        run_ids=tuple(json.loads(row["runs"])),
    )


def _unreadable(row: sqlite3.Row) -> Problem:
    message = f"{row['name']} cannot be read: it is damaged, or another version of Ammeter wrote it."
    return Problem(kind=Kind.STORE, message=message, remedy="Delete it, or ask anew.")
