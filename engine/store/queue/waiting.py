"""The saved queue: the runs and orders that wait in a window, so that they survive its end."""

from __future__ import annotations

import functools
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from engine.experiment.problem import Kind, Problem, ProblemError, request_problem
from engine.store.connection import Connection
from engine.store.queue import claims
from engine.store.queue.owner import owner_from, this_process

RUN = "run"
"""The kind of an item that is a run; an order has a kind of its own."""


@dataclass(frozen=True)
class WaitingItem:
    """A run, whose id is the `key`, or an order, which is made again from `request` (JSON)."""

    key: str
    kind: str
    title: str
    request: str = ""
    is_held: bool = False


class Waiting:
    """The queues of all windows on this store; all but `claimable` and `claim` is about this process's own.

    An item leaves in the transaction in which its work is marked as begun. Every method raises ProblemError
    of kind STORE when the file fails.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, items: Sequence[WaitingItem], *, goes_first: bool = False) -> None:
        """Adds items at the end, or at the front; an item that waits already is moved there."""
        with self._connection.writing() as connection:
            _insert(connection, items, goes_first=goes_first)

    def keys(self) -> tuple[str, ...]:
        """The keys of what waits in this process, next first."""
        statement = "SELECT key FROM waiting WHERE owner = ? ORDER BY position"
        return tuple(row["key"] for row in self._connection.read(statement, (_me(),)))

    def arrange(self, keys: Sequence[str]) -> None:
        """Gives these items this order."""
        with self._connection.writing() as connection:
            connection.executemany(
                "UPDATE waiting SET position = ? WHERE key = ?",
                [(place, key) for place, key in enumerate(keys)],
            )

    def hold(self, key: str, is_held: bool) -> None:
        """Holds an item back, or releases it."""
        with self._connection.writing() as connection:
            connection.execute("UPDATE waiting SET is_held = ? WHERE key = ?", (is_held, key))

    def remove(self, keys: Iterable[str]) -> None:
        """Takes items out; runs stay queued among the saved runs."""
        with self._connection.writing() as connection:
            for key in keys:
                claims.leave(connection, key)

    def claimable(self) -> tuple[WaitingItem, ...]:
        """What this process may take, next first: its own items, and those whose process is gone.

        Queued runs without a place in the queue come last, oldest first.
        """
        with self._connection.reading() as connection:
            placed = connection.execute(
                "SELECT waiting.* FROM waiting LEFT JOIN runs ON runs.id = key WHERE kind != ?"
                " OR (status = 'queued' AND deleted IS NULL) ORDER BY position",
                (RUN,),
            ).fetchall()
            others = connection.execute(
                "SELECT id AS key, ? AS kind, name AS title, '' AS request, 0 AS is_held, owner FROM runs"
                " WHERE status = 'queued' AND deleted IS NULL AND sweep IS NULL"
                " AND id NOT IN (SELECT key FROM waiting) ORDER BY number",
                (RUN,),
            ).fetchall()
        may_take = functools.cache(_may_take)
        return tuple(_item(row) for row in (*placed, *others) if may_take(row["owner"]))

    def claim(self, items: Sequence[WaitingItem]) -> tuple[Problem, ...]:
        """Takes items over from processes that are gone, to the end of this one's queue.

        Returns the problems of those that are no longer there to take.
        """
        claimed, problems = [], []
        # together, so that a kill leaves them in their order
        with self._connection.writing() as connection:
            for item in items:
                try:
                    _claim(connection, item)
                except ProblemError as error:
                    problems.append(error.problem)
                else:
                    claimed.append(item)
            _insert(connection, claimed)
        return tuple(problems)

    @property
    def rests(self) -> bool:
        """Whether this queue, or that of a window that is gone, was to begin nothing until told to go on."""
        may_take: Callable[[str], bool] = functools.cache(_may_take)
        return any(
            may_take(row["owner"]) for row in self._connection.read("SELECT owner FROM resting_queues")
        )

    @rests.setter
    def rests(self, rests: bool) -> None:
        with self._connection.writing() as connection:
            for row in connection.execute("SELECT owner FROM resting_queues").fetchall():
                if _may_take(row["owner"]):
                    connection.execute("DELETE FROM resting_queues WHERE owner = ?", (row["owner"],))
            if rests:
                connection.execute("INSERT INTO resting_queues (owner) VALUES (?)", (_me(),))


def _me() -> str:
    return this_process().model_dump_json()


def _may_take(text: str) -> bool:
    owner = owner_from(text)
    return owner is not None and (owner == this_process() or owner.is_gone)


def _claim(connection: sqlite3.Connection, item: WaitingItem) -> None:
    if item.kind == RUN:
        claims.claim(connection, item.key)
        return
    row = connection.execute("SELECT owner FROM waiting WHERE key = ?", (item.key,)).fetchone()
    if row is None or not _may_take(row["owner"]):
        raise ProblemError(_taken(item, is_gone=row is None))


def _insert(
    connection: sqlite3.Connection, items: Sequence[WaitingItem], *, goes_first: bool = False
) -> None:
    first, last = connection.execute(
        "SELECT coalesce(min(position), 0), coalesce(max(position), 0) FROM waiting"
    ).fetchone()
    start = first - len(items) if goes_first else last + 1
    connection.executemany(
        "INSERT OR REPLACE INTO waiting (key, position, kind, title, request, is_held, owner, created)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (item.key, start + place, item.kind, item.title, item.request, item.is_held, _me(), time.time())
            for place, item in enumerate(items)
        ],
    )


def _item(row: sqlite3.Row) -> WaitingItem:
    return WaitingItem(row["key"], row["kind"], row["title"], row["request"], bool(row["is_held"]))


def _taken(item: WaitingItem, *, is_gone: bool) -> Problem:
    if is_gone:
        message = f"“{item.title}” is no longer in the queue."
        return Problem(kind=Kind.STORE, message=message, remedy="Order it anew.")
    message = f"“{item.title}” waits in the queue of another Ammeter."
    return request_problem(message, "Take it out of the queue there.", key="queue")
