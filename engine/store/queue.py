"""The saved queue, which survives its window, and the process or remote worker that has a run."""

from __future__ import annotations

import functools
import socket
import sqlite3
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from pydantic import ValidationError

from engine.experiment.paths import boot_id
from engine.experiment.problem import Kind, Problem, ProblemError, request_error
from engine.experiment.value import Message
from engine.lazy_imports import psutil
from engine.protocol.jobs import RemotePlace
from engine.store.connection import Connection
from engine.store.record import RUN, Status, Work
from engine.store.schema import insert

# psutil derives the start from the boot time, which shifts a little when the clock is set
_START_TOLERANCE_SECONDS = 2.0


class Owner(Message):
    """The process that runs a job, identified by its pid and start time, because a pid can be used again.

    `boot` is empty on systems without a boot id.
    """

    host: str
    boot: str
    pid: int
    started: float

    @property
    def is_gone(self) -> bool:
        """True once the process has certainly ended. False for another host, where that is unknown."""
        if self.host != socket.gethostname():
            return False
        if self.boot != boot_id():
            return True
        try:
            started = psutil.Process(self.pid).create_time()
        except psutil.NoSuchProcess:
            return True
        except psutil.AccessDenied:
            return False
        return abs(started - self.started) > _START_TOLERANCE_SECONDS


def owner_from(text: str) -> Owner | None:
    """Return the owner saved with a run, or None if another version wrote it in another form."""
    try:
        return Owner.model_validate_json(text)
    except ValidationError:
        return None


@functools.cache
def this_process() -> Owner:
    """Return this process as an owner. It is cached, because setting the clock changes the start time."""
    process = psutil.Process()
    return Owner(host=socket.gethostname(), boot=boot_id(), pid=process.pid, started=process.create_time())


def this_owner() -> str:
    """Return this process as the text of a column `owner`."""
    return this_process().model_dump_json()


def can_take_over(owner: str) -> bool:
    """Return True if the owner is this process or one that has ended."""
    known = owner_from(owner)
    return known is not None and (known == this_process() or known.is_gone)


def is_deserted(owner: str) -> bool:
    """Return True if the process that owns the work has certainly ended.

    A process of another host is assumed to run.
    """
    known = owner_from(owner)
    return known is not None and known.is_gone


def owner_row(connection: sqlite3.Connection, run_id: str) -> sqlite3.Row:
    """Return the columns that decide who may train a run. Raises ProblemError of kind STORE if it is gone."""
    columns = "name, status, owner, comparison, environment"
    statement = f"SELECT {columns} FROM runs WHERE id = ? AND deleted IS NULL"
    row: sqlite3.Row | None = connection.execute(statement, (run_id,)).fetchone()
    if row is None:
        message = f"Run {run_id} no longer exists."
        raise ProblemError(Problem(kind=Kind.STORE, message=message, remedy="Start it as a new run."))
    return row


def check_queued(connection: sqlite3.Connection, run_id: str) -> None:
    """Raise ProblemError if a run is not queued, or is queued by another running process."""
    row = owner_row(connection, run_id)
    if row["status"] != Status.QUEUED:
        message = f"{row['name']} is {row['status']}, not queued."
        raise request_error(message, "Start it as a new run.", key="run")
    if not can_take_over(row["owner"]):
        message = f"{row['name']} is queued in another instance of Ammeter."
        raise request_error(message, "Start it there, or start a new run.", key="run")


def save_remote_place(connection: sqlite3.Connection, run_id: str, place: RemotePlace) -> None:
    """Save where a run trains on a remote machine, and how far it has been recorded."""
    # errors_at is of an earlier version
    insert(connection, "kept_runs", "INSERT OR REPLACE", run=run_id, errors_at=0, **asdict(place))


def remote_place_of(connection: sqlite3.Connection, run_id: str) -> RemotePlace | None:
    """Return where a run trains on a remote machine, or None if it does not."""
    statement = "SELECT machine, worker, events_at FROM kept_runs WHERE run = ?"
    row = connection.execute(statement, (run_id,)).fetchone()
    return None if row is None else RemotePlace(*row)


def drop_remote_place(connection: sqlite3.Connection, run_id: str) -> None:
    """Delete the remote place of a run that has ended."""
    connection.execute("DELETE FROM kept_runs WHERE run = ?", (run_id,))


def leave(connection: sqlite3.Connection, key: str) -> None:
    """Remove work from the queue, in the transaction in which it starts or is withdrawn."""
    connection.execute("DELETE FROM waiting WHERE key = ?", (key,))


class Waiting:
    """The saved queue of this process. `claimable` and `claim` also see the queues of other processes.

    Work is removed in the transaction in which it is marked as started. Every method raises ProblemError of
    kind STORE when the file cannot be read or written.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def save(self, works: Sequence[Work]) -> None:
        """Save the waiting work of this process in its order. Work that has left is removed by `remove`."""
        mine = (this_owner(), time.time())
        rows = [
            (work.key, place, work.kind, work.title, work.request, work.machine, work.is_paused, *mine)
            for place, work in enumerate(works)
        ]
        columns = "key, position, kind, title, request, machine, is_held, owner, created"
        statement = f"INSERT OR REPLACE INTO waiting ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
        with self._connection.writing() as connection:
            connection.executemany(statement, rows)

    def remove(self, keys: Iterable[str]) -> None:
        """Remove work. Runs stay queued among the saved runs."""
        with self._connection.writing() as connection:
            for key in keys:
                leave(connection, key)

    def claimable(self) -> tuple[Work, ...]:
        """Return the work of this process and of ended processes, next first.

        Runs without a position come last.
        """
        with self._connection.reading() as connection:
            placed = connection.execute(
                "SELECT waiting.* FROM waiting LEFT JOIN runs ON runs.id = key WHERE kind != ?"
                " OR (status = 'queued' AND deleted IS NULL) ORDER BY position",
                (RUN,),
            ).fetchall()
            others = connection.execute(
                "SELECT id AS key, ? AS kind, name AS title, '' AS request, 0 AS is_held, owner, machine"
                " FROM runs WHERE status = 'queued' AND deleted IS NULL AND sweep IS NULL"
                " AND id NOT IN (SELECT key FROM waiting) ORDER BY number",
                (RUN,),
            ).fetchall()
        may_take_cached = functools.cache(can_take_over)
        return tuple(
            Work(row["key"], row["kind"], row["title"], row["request"], bool(row["is_held"]), row["machine"])
            for row in (*placed, *others)
            if may_take_cached(row["owner"])
        )

    def claim(self, works: Sequence[Work]) -> dict[Work, Problem | None]:
        """Take work over from processes that have ended. Return the problem of each that is missing."""
        claimed: dict[Work, Problem | None] = {}
        # together, so that a kill leaves them in their order
        with self._connection.writing() as connection:
            for work in works:
                try:
                    _claim(connection, work)
                except ProblemError as error:
                    claimed[work] = error.problem
                else:
                    claimed[work] = None
        return claimed

    @property
    def rests(self) -> bool:
        """True if this queue, or the queue of a closed window, was paused."""
        rows = self._connection.read("SELECT owner FROM resting_queues")
        return any(can_take_over(row["owner"]) for row in rows)

    @rests.setter
    def rests(self, rests: bool) -> None:
        with self._connection.writing() as connection:
            for row in connection.execute("SELECT owner FROM resting_queues").fetchall():
                if can_take_over(row["owner"]):
                    connection.execute("DELETE FROM resting_queues WHERE owner = ?", (row["owner"],))
            if rests:
                connection.execute("INSERT INTO resting_queues (owner) VALUES (?)", (this_owner(),))


def _claim(connection: sqlite3.Connection, work: Work) -> None:
    if work.kind == RUN:
        check_queued(connection, work.key)
        connection.execute("UPDATE runs SET owner = ? WHERE id = ?", (this_owner(), work.key))
    else:
        row = connection.execute("SELECT owner FROM waiting WHERE key = ?", (work.key,)).fetchone()
        if row is None:
            message = f"“{work.title}” is no longer in the queue."
            raise ProblemError(Problem(kind=Kind.STORE, message=message, remedy="Add it again."))
        if not can_take_over(row["owner"]):
            message = f"“{work.title}” is queued in another instance of Ammeter."
            raise request_error(message, "Remove it from the queue there.", key="queue")
    connection.execute("UPDATE waiting SET owner = ? WHERE key = ?", (this_owner(), work.key))
