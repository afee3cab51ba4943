"""The saved runs as they are read: all of them, one by the start of its id, and what was recorded of each."""

from __future__ import annotations

from sqlite3 import Row
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.experiment.problem import ProblemError, request_problem
from engine.experiment.text import one_line, shortened
from engine.protocol.events import Event, Summary
from engine.store import edits, journal, recording
from engine.store.connection import Connection
from engine.store.record import (
    RUN_COLUMNS,
    ComparisonRecord,
    Reader,
    RunRecord,
    UnreadableRun,
    comparison_from,
    run_from,
    unreadable,
)

_SELECT = f"SELECT {RUN_COLUMNS} FROM runs WHERE deleted IS NULL"


class Listing(NamedTuple):
    """Saved runs, newest first: those that can be read, and those that cannot."""

    runs: tuple[RunRecord, ...]
    unreadable: tuple[UnreadableRun, ...]


class Readings:
    """Reads what is saved, for the thread that opened the connection; deleted runs are not there.

    A run that has not changed is the same record each time. Every method raises ProblemError of kind STORE
    when the file cannot be read, and of kind REQUEST for a run that is not there.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: dict[str, tuple[tuple[object, ...], RunRecord | UnreadableRun]] = {}
        self._read = Reader()

    def runs(self, limit: int | None = None) -> tuple[RunRecord, ...]:
        """The runs that can be read, newest first."""
        return self.listing(limit).runs

    def listing(self, limit: int | None = None) -> Listing:
        """The runs, and those of another version or damaged, which hide none of the others."""
        statement = f"{_SELECT} ORDER BY number DESC LIMIT ?"
        rows = self._connection.read(statement, (-1 if limit is None else limit,))
        before, self._known = self._known, {}
        for row in rows:
            values, known = tuple(row), before.get(row["id"])
            self._known[row["id"]] = known if known and known[0] == values else (values, self._read(row))
        found = [one for _, one in self._known.values()]
        return Listing(
            tuple(one for one in found if isinstance(one, RunRecord)),
            tuple(one for one in found if isinstance(one, UnreadableRun)),
        )

    def run(self, id_or_start: str) -> RunRecord:
        """The run of that id, or the only one whose id starts so."""
        try:
            return run_from(self._row(id_or_start))
        except (ValueError, TypeError, OverflowError, OSError, RecursionError):
            raise unreadable("parts") from None

    def name(self, id_or_start: str) -> tuple[str, str]:
        """The id and the name of the run that is meant, whether or not more of it can be read."""
        row = self._row(id_or_start)
        return row["id"], shortened(row["name"])

    def deleted(self) -> tuple[str, ...]:
        """The ids of the runs that were deleted and can still be restored."""
        with self._connection.reading() as connection:
            return edits.all_deleted(connection)

    def events(self, run_id: str) -> tuple[Event, ...]:
        """What the worker said in this run, in order, without its samples."""
        with self._connection.reading() as connection:
            return journal.events_of(connection, run_id)

    def samples(self, run_id: str) -> dict[str, NDArray[Any]]:
        """The run's samples by column, one value a step (`step` int64, the others float64).

        Columns that the run does not have are left out; a run without samples gives an empty dictionary.
        """
        with self._connection.reading() as connection:
            columns: dict[str, NDArray[Any]] = {**journal.samples_of(connection, run_id)}
        if "step" in columns:
            columns["step"] = columns["step"].astype(np.int64)
        return columns

    def summary_so_far(self, run_id: str) -> Summary:
        """What the recorded samples and events of a run say, for one that has no summary of its own."""
        with self._connection.reading() as connection:
            return recording.summary_so_far(connection, run_id)

    def comparisons(self) -> tuple[ComparisonRecord, ...]:
        """The comparisons, newest first."""
        rows = self._connection.read(
            "SELECT id, title, created FROM comparisons WHERE EXISTS"
            " (SELECT 1 FROM runs WHERE comparison = comparisons.id AND deleted IS NULL)"
            " OR NOT EXISTS (SELECT 1 FROM runs WHERE comparison = comparisons.id) ORDER BY created DESC"
        )
        return tuple(found for found in map(_readable, rows) if found is not None)

    def data_version(self) -> tuple[int, int]:
        """What changes when another connection has written, or another file took the place of this one."""
        version = int(self._connection.read("PRAGMA data_version")[0][0])
        return self._connection.files, version

    def _row(self, id_or_start: str) -> Row:
        statement = f"{_SELECT} AND substr(id, 1, ?) = ? ORDER BY number DESC LIMIT 6"
        start, shown = one_line(id_or_start).strip().lower(), shortened(id_or_start)
        rows = self._connection.read(statement, (len(start), start)) if start else []
        if len(rows) == 1:
            return rows[0]
        if rows:
            ids = ", ".join(row["id"] for row in rows)
            message = f"'{shown}' is the start of more than one run's id: {ids}."
            remedy = "Give more of the id."
        else:
            message = f"There is no run whose id starts with '{shown}'."
            remedy = "See the ids with `ammeter runs`."
        raise ProblemError(request_problem(message, remedy, key="run", value=id_or_start))


def _readable(row: Row) -> ComparisonRecord | None:
    try:
        return comparison_from(row)
    except (ValueError, TypeError, OverflowError, OSError):
        # a damaged one must not hide the others; its runs are told apart by their own ids
        return None
