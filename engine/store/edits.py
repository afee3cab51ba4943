"""User edits of saved runs: names, tags, notes, pins and deletion.

A deleted run is hidden at first, so that the deletion can be undone, and permanently removed later.
"""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from engine import __version__
from engine.experiment.problem import Kind, Problem, ProblemError, request_error
from engine.experiment.value import one_line, printable, shortened
from engine.store import checkpoints, journal
from engine.store.connection import Connection
from engine.store.queue import can_take_over, leave, owner_row, remote_place_of
from engine.store.readings import Readings
from engine.store.record import Status
from engine.store.schema import insert

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


class Edits(Readings):
    """The user's edits of saved runs, such as rename and delete. Each applies to all given runs or none."""

    def __init__(self, connection: Connection, path: Path) -> None:
        super().__init__(connection)
        self.path = path

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
        """Permanently delete those of the given runs that are marked as deleted. Restored runs stay."""
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
