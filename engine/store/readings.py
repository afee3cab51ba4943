"""Read saved runs: the list, a run by the start of its id, and the samples and events of a run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from sqlite3 import Row
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.curves import Curves
from engine.experiment.problem import ProblemError, request_error
from engine.experiment.value import one_line, shortened
from engine.lazy_imports import np
from engine.protocol.events import Event, Summary
from engine.protocol.pictures import ContactSheet
from engine.store import journal, recording, samples
from engine.store.connection import Connection
from engine.store.record import (
    RUN_COLUMNS,
    ComparisonRecord,
    RunRecord,
    UnreadableRun,
    comparison_from,
    run_from,
    unreadable_error,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SELECT = f"SELECT {RUN_COLUMNS} FROM runs WHERE deleted IS NULL"


class Listing(NamedTuple):
    """The saved runs, newest first: those that can be read, and those that cannot."""

    runs: tuple[RunRecord, ...]
    unreadable: tuple[UnreadableRun, ...]


_MOST_SHAPES = 4_096
_DIGITS = b"0123456789"


class Readings:
    """Reads saved runs, except deleted ones, in the thread that opened the connection.

    Repeated reads of an unchanged run return the same object. Every method raises ProblemError: of kind STORE
    when the file cannot be read, of kind REQUEST for an unknown run.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: dict[str, tuple[tuple[object, ...], RunRecord | UnreadableRun]] = {}
        self._sound: set[bytes] = set()

    def runs(self, limit: int | None = None) -> tuple[RunRecord, ...]:
        """Return the readable runs, newest first."""
        return self.listing(limit).runs

    def listing(self, limit: int | None = None) -> Listing:
        """Return all runs, readable and unreadable."""
        statement = f"{_SELECT} ORDER BY number DESC LIMIT ?"
        rows = self._connection.read(statement, (-1 if limit is None else limit,))
        before, self._known = self._known, {}
        for row in rows:
            values, known = tuple(row), before.get(row["id"])
            self._known[row["id"]] = known if known and known[0] == values else (values, self._record(row))
        runs = [run for _, run in self._known.values()]
        return Listing(
            tuple(run for run in runs if isinstance(run, RunRecord)),
            tuple(run for run in runs if isinstance(run, UnreadableRun)),
        )

    def times(self) -> list[tuple[float, str]]:
        """Return when the runs were created, in Unix seconds, and their ids, newest first."""
        # from an index: reading all of the runs takes long
        statement = "SELECT created, id FROM runs WHERE deleted IS NULL ORDER BY created DESC, id DESC"
        rows = self._connection.read(statement)
        # SQLite keeps a value of any type in any column
        return [(row[0] if isinstance(row[0], float) else 0.0, str(row[1])) for row in rows]

    def some(self, run_ids: Sequence[str]) -> Iterator[RunRecord | UnreadableRun]:
        """Return the given runs that still exist, in the given order, readable or not."""
        places = ", ".join("?" * len(run_ids))
        rows = self._connection.read(f"{_SELECT} AND id IN ({places})", tuple(run_ids))
        found = {row["id"]: row for row in rows}
        return (self._record(found[run_id]) for run_id in run_ids if run_id in found)

    def _record(self, row: Row) -> RunRecord | UnreadableRun:
        def unreadable_run(why: str) -> UnreadableRun:
            return UnreadableRun(shortened(row["id"]), shortened(row["name"]), why)

        try:
            record = run_from(row)
            for name in ("experiment", "environment", "summary"):
                if row[name] is not None:
                    self._check(row[name], record, name)
        except ProblemError as error:
            return unreadable_run(error.problem.message)
        except (ValueError, TypeError, OverflowError, OSError, RecursionError):
            return unreadable_run("The saved record of this run is damaged.")
        return record

    def _check(self, text: str, record: RunRecord, name: str) -> None:
        # parsing the settings of ten thousand runs takes longer than showing them, and they differ in seeds,
        # sizes and figures; those of other versions differ in names. As a hash, since they may hold code
        shape = hashlib.sha256(text.encode().translate(None, _DIGITS)).digest()
        if shape not in self._sound:
            getattr(record, name)
            if len(self._sound) < _MOST_SHAPES:
                self._sound.add(shape)

    def run(self, id_or_start: str) -> RunRecord:
        """Return the run of that id, or the only run whose id starts with it."""
        try:
            return run_from(self._row(id_or_start))
        except (ValueError, TypeError, OverflowError, OSError, RecursionError):
            raise unreadable_error("parts") from None

    def starting(self, start: str) -> tuple[str, ...]:
        """Return the run ids with this start, in any case. An empty start matches no id."""
        return tuple(row["id"] for row in self._rows(start))

    def name(self, id_or_start: str) -> tuple[str, str]:
        """Return the id and name of a run, even if the rest of it is unreadable."""
        row = self._row(id_or_start)
        return row["id"], shortened(row["name"])

    def deleted(self) -> tuple[str, ...]:
        """Return the ids of deleted runs that can still be restored."""
        statement = "SELECT id FROM runs WHERE deleted IS NOT NULL ORDER BY deleted, number"
        return tuple(row["id"] for row in self._connection.read(statement))

    def pictures(self, run_ids: Iterable[str]) -> ContactSheet | None:
        """Return the training images of the first of the given runs that has any that are undamaged."""
        with self._connection.reading() as connection:
            sheets = (journal.sheet_of(connection, run_id) for run_id in run_ids)
            return next((sheet for sheet in sheets if sheet is not None), None)

    def events(self, run_id: str) -> tuple[Event, ...]:
        """Return the run's events in order, without samples."""
        with self._connection.reading() as connection:
            return journal.events_of(connection, run_id)

    def samples(self, run_id: str) -> dict[str, NDArray[Any]]:
        """Return the run's known samples by column, one value per step (`step` int64, others float64)."""
        with self._connection.reading() as connection:
            columns: dict[str, NDArray[Any]] = {**samples.samples_of(connection, run_id)}
        if "step" in columns:
            columns["step"] = columns["step"].astype(np.int64)
        return columns

    def curves(self, run_id: str) -> Curves:
        """Return the run's samples in a limited number of rows."""
        with self._connection.reading() as connection:
            return samples.curves_of(connection, run_id)

    def summary_so_far(self, run_id: str) -> Summary:
        """Return a summary from the recorded samples and events, for a run without its own."""
        with self._connection.reading() as connection:
            return recording.summary_so_far(connection, run_id)

    def comparisons(self) -> tuple[ComparisonRecord, ...]:
        """Return the comparisons, newest first."""
        rows = self._connection.read(
            "SELECT id, title, created, ammeter FROM comparisons WHERE EXISTS"
            " (SELECT 1 FROM runs WHERE comparison = comparisons.id AND deleted IS NULL)"
            " OR NOT EXISTS (SELECT 1 FROM runs WHERE comparison = comparisons.id) ORDER BY created DESC"
        )
        comparisons = []
        for row in rows:
            # damage must not hide the other comparisons; these runs are then known by their own ids
            with suppress(ValueError, TypeError, OverflowError, OSError):
                comparisons.append(comparison_from(row))
        return tuple(comparisons)

    def data_version(self) -> tuple[int, int]:
        """Return a value that changes when another connection has written, or when the file was replaced."""
        version = int(self._connection.read("PRAGMA data_version")[0][0])
        return self._connection.files, version

    def _rows(self, start: str) -> list[Row]:
        statement = f"{_SELECT} AND substr(id, 1, ?) = ? ORDER BY number DESC LIMIT 6"
        start = one_line(start).strip().lower()
        return self._connection.read(statement, (len(start), start)) if start else []

    def _row(self, id_or_start: str) -> Row:
        rows, shown = self._rows(id_or_start), shortened(id_or_start)
        if len(rows) == 1:
            return rows[0]
        message = f"No run id starts with '{shown}'."
        remedy = "List the ids with `ammeter results`."
        if rows:
            ids = ", ".join(row["id"] for row in rows)
            message = f"Several run ids start with '{shown}': {ids}."
            remedy = "Enter more of the id."
        raise request_error(message, remedy, key="run", value=id_or_start)
