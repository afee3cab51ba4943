"""The saved studies, the trace files of profiles, and the base class of their table and of sweeps."""

from __future__ import annotations

import json
import re
import secrets
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from engine import __version__
from engine.experiment.experiment import Experiment
from engine.experiment.paths import file_name_of, traces_folder
from engine.experiment.problem import Kind, Problem, ProblemError, request_error, request_problem
from engine.experiment.value import one_line
from engine.protocol.answer import Answer, StudyKind
from engine.protocol.numerics import Numerics
from engine.protocol.profile import Profiles
from engine.protocol.trials import Limit
from engine.protocol.tune import Tuning
from engine.store.connection import Connection
from engine.store.queue import can_take_over, leave, this_owner
from engine.store.record import Work, moment
from engine.store.schema import SEALED, insert, is_intact, seal


def new_id() -> str:
    """Return an id that no other record has."""
    return secrets.token_hex(6)


ANSWERS: Mapping[StudyKind, type[Answer]] = {
    answer.kind: answer for answer in (Limit, Numerics, Profiles, Tuning)
}
NAMES: Mapping[StudyKind, str] = {
    "limit": "Limit",
    "numerics": "Numerics",
    "profile": "Profile",
    "tune": "Tuning",
}


A = TypeVar("A", bound=Answer)


@dataclass(frozen=True, kw_only=True)
class Study(Generic[A]):
    """The state of a study (limit, numerics, profile or tuning) with its results so far in `answer`.

    It `is_over` once it was finished, stopped or failed, but not if its program ended. `machine` is where it
    was made, "" for this one. `problem` is the reason of a failure. `not_done` are sentences on requested
    parts that are missing. Not saved are the current activity `doing`, as a clause, the `place` of the
    current experiment, the run in training (`trains`), and the `folder` of its traces.
    """

    answer: A
    id: str = field(default_factory=new_id)
    number: int = 0
    created: datetime = field(default_factory=lambda: datetime.now(UTC))
    device_name: str = ""
    problem: Problem | None = None
    is_over: bool = False
    ammeter: str | None = __version__
    machine: str = ""
    not_done: tuple[str, ...] = ()
    doing: str = ""
    place: int = 0
    trains: str | None = None
    folder: Path | None = field(default=None, compare=False)

    @property
    def kind(self) -> StudyKind:
        return self.answer.kind

    @property
    def name(self) -> str:
        return f"{NAMES[self.kind]} {self.number:,}"

    @property
    def title(self) -> str:
        return self.answer.title

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        return self.answer.experiments

    @property
    def is_known(self) -> bool:
        """True if the study has any result to show."""
        return self.answer.is_known or self.problem is not None

    @property
    def work(self) -> Work:
        """Return the study as work for the queue. `StudyTable.of_work` is the inverse."""
        return Work(self.id, self.kind, self.title, self.answer.model_dump_json(), machine=self.machine)

    def knowing(self, **changes: Any) -> Study[A]:
        """Return the study with `changes` to the fields of its answer."""
        return replace(self, answer=self.answer.model_copy(update=changes))


@dataclass(frozen=True)
class StudyEntry:
    """The entry of a saved study in a list, which is read without the study's results."""

    id: str
    kind: StudyKind
    number: int
    title: str
    digest: str
    created: datetime
    device_name: str
    is_over: bool
    machine: str
    run_ids: tuple[str | None, ...]


def columns_of(study: Study[Any]) -> dict[str, object]:
    """Return the columns of a row that change during the study."""
    return {
        "name": study.name,
        "title": study.title,
        "digest": study.answer.digest,
        "is_known": study.is_known,
        "runs": json.dumps(list(study.answer.run_ids)),
        "device_name": study.device_name,
        "machine": study.machine,
        "answer": study.answer.model_dump_json(),
        "not_done": json.dumps(study.not_done),
        "problem": None if study.problem is None else study.problem.model_dump_json(),
        "ended": time.time() if study.is_over else None,
    }


_TRACE = re.compile(r"\.?\w+-\d+\.json\.gz(\.part)?")


class SavedTable:
    """Base class of the tables of studies and sweeps, each of which only one process at a time may run.

    The table's column `owner` is the process that runs a row, and `ended` the time when it finished. Every
    method raises ProblemError: of kind STORE when the file cannot be read or written, of kind REQUEST for an
    unknown id.
    """

    _table: ClassVar[str]

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def starting(self, start: str) -> tuple[str, ...]:
        """Return the ids with this start, in any case. An empty start matches no id."""
        start = one_line(start).strip().lower()
        if not start:
            return ()
        statement = f"SELECT id FROM {self._table} WHERE substr(id, 1, ?) = ?"
        return tuple(row["id"] for row in self._connection.read(statement, (len(start), start)))

    def release(self, work_id: str) -> None:
        """Let other processes run the job."""
        with self._connection.writing() as connection:
            self._change(connection, work_id, owner=None)

    def _row(self, connection: sqlite3.Connection, work_id: str) -> sqlite3.Row:
        statement = f"SELECT * FROM {self._table} WHERE id = ?"
        row: sqlite3.Row | None = connection.execute(statement, (work_id,)).fetchone()
        if row is None:
            raise ProblemError(self._missing(work_id))
        return row

    def _free_row(self, connection: sqlite3.Connection, work_id: str) -> sqlite3.Row:
        row = self._row(connection, work_id)
        if row["owner"] is not None and not can_take_over(row["owner"]):
            message = f"{row['name']} is running in another instance of Ammeter."
            raise request_error(message, "Stop it there first.", key=self._table, value=work_id)
        return row

    def _change(self, connection: sqlite3.Connection, work_id: str, **columns: object) -> None:
        changes = ", ".join(f"{name} = ?" for name in columns)
        values = (*columns.values(), work_id)
        connection.execute(f"UPDATE {self._table} SET {changes} WHERE id = ?", values)

    def _missing(self, work_id: str) -> Problem:
        noun = self._table.removesuffix("s").replace("studie", "study")
        message = f"No {noun} has the id '{work_id}'."
        return request_problem(message, "Start it again.", key=noun, value=work_id)


class Traces:
    """The trace files of saved profiles, by the study's id and the position of the side in it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def folder(self) -> Path:
        return traces_folder(self._connection.path)

    def path(self, study_id: str, place: int) -> Path:
        """Return the path of a side's trace file. The worker that records the trace creates the folder."""
        return self.folder / f"{file_name_of(study_id)}-{place + 1}.json.gz"

    def delete(self, study_id: str, place: int | None = None) -> None:
        """Delete the traces of a study or of one side, including partial ones."""
        if place is None:
            _remove(path for path in self._all() if _stem(path) == file_name_of(study_id))
        else:
            _remove(self.folder.glob(f"*{self.path(study_id, place).name}*"))

    def keep_only(self, study_ids: Iterable[str]) -> None:
        """Delete the traces of all other studies."""
        kept = set(map(file_name_of, study_ids))
        _remove(path for path in self._all() if _stem(path) not in kept)

    def _all(self) -> list[Path]:
        """All traces, also partial ones. The folder may be a link to one that contains other files too."""
        return [path for path in self.folder.glob("*-*") if _TRACE.fullmatch(path.name)]


def traces_of(profiles: Profiles, folder: Path) -> tuple[Path, ...]:
    """Return the existing trace files of the profiles."""
    paths = (folder / Path(profile.trace).name for profile in profiles.measured() if profile.trace)
    # in a folder from elsewhere a link would bring any file of this disk
    return tuple(path for path in paths if path.is_file() and not path.is_symlink())


def _stem(trace: Path) -> str:
    return trace.name.lstrip(".").split("-")[0]


def _remove(paths: Iterable[Path]) -> None:
    for path in list(paths):
        # the system may refuse it for as long as another program has it open
        with suppress(OSError):
            path.unlink()


class StudyTable(SavedTable):
    """The table of saved studies, with the latest state of each."""

    _table = "studies"

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.traces = Traces(connection)

    def save(self, study: Study[A]) -> None:
        """Save a study that has started, even if the store's file was removed in the meantime."""
        with self._connection.writing() as connection:
            self._put(connection, study, owner=this_owner())

    def begin(self, study: Study[A], *, keeps_place: bool = False) -> Study[A]:
        """Mark a study as run by this process and as not finished, and add it if it is new.

        It leaves the queue, unless it `keeps_place` there. Raises ProblemError if another running process, or
        one of another machine, runs it.
        """
        study = replace(study, is_over=False, problem=None, folder=self.traces.folder)
        with self._connection.writing() as connection:
            if _has(connection, study.id):
                row = self._free_row(connection, study.id)
                study = replace(study, number=row["number"], created=moment(row["created"]))
            study = self._put(connection, study, owner=this_owner())
            if not keeps_place:
                leave(connection, study.id)
        return study

    def add(self, study: Study[A]) -> Study[A]:
        """Save a study that no process runs yet, and return it with its number."""
        with self._connection.writing() as connection:
            return self._put(connection, study, owner=None)

    def end(self, study: Study[A]) -> Study[A]:
        """Mark a study as finished, and let other processes continue it."""
        study = replace(study, is_over=True, doing="", trains=None)
        with self._connection.writing() as connection:
            return self._put(connection, study, owner=None)

    def find(self, study_id: str, kind: StudyKind | None = None) -> Study[Any]:
        """Return the study of that id, if given only of that kind."""
        with self._connection.reading() as connection:
            row = self._row(connection, study_id)
            if kind not in (None, row["kind"]):
                raise ProblemError(self._missing(study_id))
            try:
                if not is_intact(row, SEALED["studies"]):
                    raise ValueError(study_id)
                return self._study(row)
            except (ValueError, KeyError):
                message = f"{row['name']} cannot be read. It is damaged or from another version of Ammeter."
                problem = Problem(kind=Kind.STORE, message=message, remedy="Delete it, or start it again.")
                raise ProblemError(problem) from None

    def of_work(self, work: Work) -> Study[Any]:
        """Return the study of queued work: as it is saved, or a new one.

        Raises ProblemError if another version of Ammeter wrote the request.
        """
        # another process may have continued it since it was queued
        if work.key in self.starting(work.key):
            return self.find(work.key)
        try:
            answer = ANSWERS[work.kind].model_validate_json(work.request)  # type: ignore[index]
        except (KeyError, ValueError):
            message = f"“{work.title}” cannot be read from the queue: another version of Ammeter wrote it."
            raise ProblemError(
                Problem(kind=Kind.STORE, message=message, remedy="Remove it and add it again.")
            ) from None
        return Study(id=work.key, answer=answer, machine=work.machine)

    def newest(self, kind: StudyKind | None = None, limit: int | None = None) -> tuple[StudyEntry, ...]:
        """Return the studies with results, newest first, of one kind or of all."""
        rows = self._connection.read(
            "SELECT id, kind, number, title, digest, created, device_name, machine, ended, runs FROM studies"
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
        """Return the id of the newest study of that kind of exactly these runs, in this order, if any."""
        rows = self._connection.read(
            "SELECT id FROM studies WHERE is_known AND kind = ? AND runs = ? ORDER BY number DESC LIMIT 1",
            (kind, json.dumps(list(run_ids))),
        )
        return rows[0]["id"] if rows else None

    def delete(self, study_id: str, *, keeps_traces: bool = False) -> None:
        """Delete a study with its traces, also from the queue, but not the runs that it trained.

        With `keeps_traces` these stay until the next cleanup, so that `restore` brings all of it back.
        Refused while another process runs it.
        """
        with self._connection.writing() as connection:
            if _has(connection, study_id):
                self._free_row(connection, study_id)
                connection.execute("DELETE FROM studies WHERE id = ?", (study_id,))
            leave(connection, study_id)
        if not keeps_traces:
            self.traces.delete(study_id)

    def restore(self, study: Study[A]) -> None:
        """Restore a deleted study under its number. Does nothing if it exists."""
        with self._connection.writing() as connection:
            if not _has(connection, study.id):
                self._write_new(connection, study, owner=None)

    def clean_up(self) -> None:
        """Delete traces whose study is gone."""
        self.traces.keep_only(row["id"] for row in self._connection.read("SELECT id FROM studies"))

    def _put(self, connection: sqlite3.Connection, study: Study[A], owner: str | None) -> Study[A]:
        if _has(connection, study.id):
            self._change(connection, study.id, **columns_of(study), owner=owner)
            seal(connection, self._table, study.id)
        else:
            statement = "SELECT coalesce(max(number), 0) + 1 FROM studies WHERE kind = ?"
            study = replace(study, number=connection.execute(statement, (study.kind,)).fetchone()[0])
            self._write_new(connection, study, owner)
        return study

    def _write_new(self, connection: sqlite3.Connection, study: Study[A], owner: str | None) -> None:
        head = {"id": study.id, "kind": study.kind, "number": study.number, "ammeter": study.ammeter}
        insert(
            connection, "studies", **head, created=study.created.timestamp(), owner=owner, **columns_of(study)
        )
        seal(connection, self._table, study.id)

    def _study(self, row: sqlite3.Row) -> Study[Any]:
        return Study(
            id=row["id"],
            number=row["number"],
            created=moment(row["created"]),
            device_name=row["device_name"],
            machine=one_line(row["machine"]),
            is_over=row["ended"] is not None,
            problem=Problem.model_validate_json(row["problem"]) if row["problem"] else None,
            ammeter=row["ammeter"],
            not_done=tuple(map(one_line, json.loads(row["not_done"]))),
            answer=ANSWERS[row["kind"]].model_validate_json(row["answer"]),
            folder=self.traces.folder,
        )


def _has(connection: sqlite3.Connection, study_id: str) -> bool:
    return connection.execute("SELECT 1 FROM studies WHERE id = ?", (study_id,)).fetchone() is not None


def _entry(row: sqlite3.Row) -> StudyEntry:
    return StudyEntry(
        id=row["id"],
        kind=row["kind"],
        number=row["number"],
        title=row["title"],
        digest=row["digest"],
        created=moment(row["created"]),
        device_name=row["device_name"],
        machine=one_line(row["machine"]),
        is_over=row["ended"] is not None,
        run_ids=tuple(json.loads(row["runs"])),
    )
