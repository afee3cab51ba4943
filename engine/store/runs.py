"""The saved runs: reading them, and the user's edits of names, tags, notes, pins and deletion.

A deleted run is hidden at first, so that the deletion can be undone, and permanently removed later.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from sqlite3 import Row
from typing import TYPE_CHECKING, Any, NamedTuple

from engine import __version__
from engine.curves import Curves
from engine.experiment.problem import Kind, Problem, ProblemError, request_error
from engine.experiment.value import one_line, printable, shortened
from engine.lazy_imports import np
from engine.protocol.events import Event, Summary
from engine.protocol.pictures import ContactSheet
from engine.store import checkpoints, journal, samples
from engine.store.connection import Connection
from engine.store.queue import can_take_over, leave, owner_row, remote_place_of
from engine.store.record import (
    RUN_COLUMNS,
    ComparisonRecord,
    RunRecord,
    Status,
    UnreadableRun,
    comparison_from,
    run_from,
    unreadable_error,
)
from engine.store.schema import insert

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SELECT = f"SELECT {RUN_COLUMNS} FROM runs WHERE deleted IS NULL"


class Listing(NamedTuple):
    """The saved runs, newest first: readable runs, and damaged runs."""

    runs: tuple[RunRecord, ...]
    unreadable: tuple[UnreadableRun, ...]


_MOST_SHAPES = 4_096
_DIGITS = b"0123456789"


KEPT_SECONDS = 24 * 3600.0  # how long a deletion that its window never finished can be taken back
MOST_TAGS = 20
LONGEST_TAG = 40
LONGEST_NOTE = 10_000
LONGEST_NAME = 1_000

_GAPS = re.compile(r"[\s,]+")


def cleaned_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return tags without commas, extra spaces and duplicates, ignoring case.

    Raises ProblemError if a tag is too long, or if there are too many.
    """
    kept: dict[str, str] = {}
    for tag in tags:
        words = _GAPS.sub(" ", one_line(tag)).strip()
        if len(words) > LONGEST_TAG:
            message = f"The tag “{shortened(words, 21)}” has {len(words):,} characters."
            raise request_error(message, f"Use at most {LONGEST_TAG} characters.", key="tags", value=tag)
        if words:
            kept.setdefault(words.casefold(), words)
    if len(kept) > MOST_TAGS:
        message = f"{len(kept):,} tags are too many for a run."
        raise request_error(message, f"Use at most {MOST_TAGS} tags.", key="tags")
    return tuple(kept.values())


def cleaned_note(note: str) -> str:
    """Return a note with printable lines only. Raises ProblemError if it is too long."""
    text = printable(note).strip()
    if len(text) > LONGEST_NOTE:
        message = f"The note has {len(text):,} characters."
        raise request_error(message, f"Use at most {LONGEST_NOTE:,} characters.", key="note")
    return text


def cleaned_name(name: str) -> str:
    """Return a name as one printable line of limited length."""
    return shortened(name.strip(), LONGEST_NAME)


class RunTable:
    """Reads and edits saved runs, except deleted ones, in the thread that opened the connection.

    An edit, such as rename and delete, applies to all given runs or none.
    Repeated reads of an unchanged run return the same object. Every method raises ProblemError: of kind STORE
    when the file cannot be read, of kind REQUEST for an unknown run.
    """

    def __init__(self, connection: Connection, path: Path) -> None:
        self._connection, self.path = connection, path
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

    def of_comparison(self, comparison: str) -> tuple[RunRecord, ...]:
        """Return the readable runs of a comparison, oldest first."""
        rows = self._connection.read(f"{_SELECT} AND comparison = ? ORDER BY number", (comparison,))
        return tuple(run for run in map(self._record, rows) if isinstance(run, RunRecord))

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
            return journal.summary_so_far(connection, run_id)

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

    def rename(self, run_id: str, name: str) -> None:
        """Rename a run. Raises ProblemError for an empty name."""
        if not (kept := cleaned_name(name)):
            raise request_error("The name is empty.", "Enter a name.", key="name", value=name)
        self._set("name", {run_id: kept})

    def set_tags(self, run_id: str, tags: Iterable[str]) -> None:
        """Replace the tags of a run by `cleaned_tags` of these."""
        self.set_all_tags({run_id: tags})

    def set_all_tags(self, tags: Mapping[str, Iterable[str]]) -> None:
        """Replace the tags of runs, by id."""
        kept = {run_id: cleaned_tags(run_tags) for run_id, run_tags in tags.items()}
        self._set("tags", {run_id: json.dumps(each, ensure_ascii=False) for run_id, each in kept.items()})

    def set_note(self, run_id: str, note: str) -> None:
        """Replace a run's note. An empty note removes it."""
        self._set("note", {run_id: cleaned_note(note)})

    def set_pinned(self, run_ids: Iterable[str], is_pinned: bool) -> None:
        """Pin runs to the top of the table, or unpin them."""
        self._set("is_pinned", dict.fromkeys(run_ids, is_pinned))

    def _set(self, column: str, values: Mapping[str, object]) -> None:
        with self._connection.writing() as connection:
            for run_id, value in values.items():
                owner_row(connection, run_id)
                connection.execute(f"UPDATE runs SET {column} = ? WHERE id = ?", (value, run_id))

    def delete(self, run_ids: Iterable[str]) -> None:
        """Delete runs until they are restored or purged. Refuses a run that another process trains."""
        with self._connection.writing() as connection:
            for run_id in run_ids:
                _check_deletable(connection, run_id)
                connection.execute("UPDATE runs SET deleted = ? WHERE id = ?", (time.time(), run_id))
                leave(connection, run_id)

    def restore(self, run_ids: Iterable[str]) -> None:
        """Restore deleted runs. Raises ProblemError if one was purged."""
        with self._connection.writing() as connection:
            undelete(connection, run_ids)

    def remove(self, run_ids: Iterable[str]) -> None:
        """Permanently delete runs with samples and checkpoints. Refuses a run that another process trains."""
        run_ids = tuple(run_ids)
        with self._connection.writing() as connection:
            for run_id in run_ids:
                _check_deletable(connection, run_id)
            self._drop(connection, run_ids)
        self._drop_files(run_ids)

    def purge(self, run_ids: Iterable[str]) -> None:
        """Permanently delete the given runs, except runs that are not marked as deleted."""
        with self._connection.writing() as connection:
            gone = [run_id for run_id in run_ids if is_deleted(connection, run_id)]
            self._drop(connection, gone)
        self._drop_files(gone)

    def _drop(self, connection: sqlite3.Connection, run_ids: Iterable[str]) -> None:
        """Removes runs with all that was recorded, and comparisons and pictures with their last run.

        Their checkpoints are only marked: `_drop_files` deletes them once this is committed.
        """
        for run_id in run_ids:
            checkpoints.mark(self.checkpoints_folder(run_id))
            row = connection.execute(
                "SELECT comparison, pictures FROM runs WHERE id = ?", (run_id,)
            ).fetchone()
            connection.execute("DELETE FROM runs WHERE id = ?", (run_id,))
            leave(connection, run_id)
            drop_comparison(connection, row["comparison"] if row else None)
            journal.drop(connection, row["pictures"] if row else None)

    def _drop_files(self, run_ids: Iterable[str]) -> None:
        for run_id in run_ids:
            checkpoints.remove(self.checkpoints_folder(run_id))

    def checkpoints_folder(self, run_id: str) -> Path:
        """Return the folder of the run's checkpoints, if it has any."""
        return checkpoints.folder_of(self.path, run_id)


def _check_deletable(connection: sqlite3.Connection, run_id: str) -> None:
    row = owner_row(connection, run_id)
    if (place := remote_place_of(connection, run_id)) is not None:
        message = f"{row['name']} still trains on {place.machine}."
        raise request_error(message, "Resume it, and stop it first.", key="run")
    if row["status"] == Status.RUNNING and not can_take_over(row["owner"]):
        message = f"{row['name']} is being trained by another instance of Ammeter."
        raise request_error(message, "Stop it there first.", key="run")


def is_deleted(connection: sqlite3.Connection, run_id: str) -> bool:
    """Return True for a run that is deleted but can still be restored."""
    statement = "SELECT 1 FROM runs WHERE id = ? AND deleted IS NOT NULL"
    return connection.execute(statement, (run_id,)).fetchone() is not None


def undelete(connection: sqlite3.Connection, run_ids: Iterable[str]) -> None:
    """Undo a deletion. Raises ProblemError of kind STORE if a run was permanently deleted.

    A run whose place in its sweep was taken in the meantime no longer belongs to the sweep.
    """
    for run_id in run_ids:
        connection.execute(
            "UPDATE runs SET sweep = NULL, cell = NULL, repeat = NULL WHERE id = ? AND EXISTS"
            " (SELECT 1 FROM runs AS other WHERE other.id != runs.id AND other.deleted IS NULL"
            " AND (other.sweep, other.cell, other.repeat) = (runs.sweep, runs.cell, runs.repeat))",
            (run_id,),
        )
        if not connection.execute("UPDATE runs SET deleted = NULL WHERE id = ?", (run_id,)).rowcount:
            message = f"Run {run_id} was permanently deleted."
            raise ProblemError(Problem(kind=Kind.STORE, message=message, remedy="Train it as a new run."))


def add_comparison(connection: sqlite3.Connection, comparison: str, title: str) -> None:
    """Add a comparison with the time and the version."""
    insert(connection, "comparisons", id=comparison, title=title, created=time.time(), ammeter=__version__)


def drop_comparison(connection: sqlite3.Connection, comparison: str | None) -> None:
    """Remove a comparison without runs, unless it belongs to a sweep, which may add runs later."""
    connection.execute(
        "DELETE FROM comparisons WHERE id = :id"
        " AND NOT EXISTS (SELECT 1 FROM runs WHERE comparison = :id)"
        " AND NOT EXISTS (SELECT 1 FROM sweeps WHERE comparison = :id)",
        {"id": comparison},
    )
