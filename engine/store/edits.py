"""Changes that a user makes in saved runs: names, tags, notes, pins, colours and folders, and their deletion.

A deleted run is hidden at first, so that the deletion can be undone, and removed for good later.
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
from engine.store import checkpoints, journal, kept
from engine.store.connection import Connection
from engine.store.queue import leave, may_take, row_of
from engine.store.readings import Readings
from engine.store.record import Status
from engine.store.schema import insert
from resources.looks import OWN_COLOURS

KEPT_SECONDS = 24 * 3600.0  # how long a deletion that its window never finished can be taken back
MOST_TAGS = 20
LONGEST_TAG = 40
LONGEST_NOTE = 10_000
LONGEST_NAME = 1_000
LONGEST_FOLDER = 60

_GAPS = re.compile(r"[\s,]+")


def cleaned_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Tags as they are kept: without commas and extra spaces, each once whatever its capitals.

    Raises ProblemError for a tag that is too long, and for too many.
    """
    kept: dict[str, str] = {}
    for tag in tags:
        words = _GAPS.sub(" ", one_line(tag)).strip()
        if len(words) > LONGEST_TAG:
            message = f"The tag “{shortened(words, 21)}” has {len(words):,} characters."
            raise request_error(message, f"Use at most {LONGEST_TAG}.", key="tags", value=tag)
        if words:
            kept.setdefault(words.casefold(), words)
    if len(kept) > MOST_TAGS:
        message = f"{len(kept):,} tags are more than a run may have."
        raise request_error(message, f"Use at most {MOST_TAGS}.", key="tags")
    return tuple(kept.values())


def cleaned_note(note: str) -> str:
    """A note as it is kept: printable lines. Raises ProblemError if it is too long."""
    text = printable(note).strip()
    if len(text) > LONGEST_NOTE:
        message = f"The note has {len(text):,} characters."
        raise request_error(message, f"Use at most {LONGEST_NOTE:,}.", key="note")
    return text


def cleaned_name(name: str) -> str:
    """A name as it is kept: one printable line of bounded length."""
    return shortened(name.strip(), LONGEST_NAME)


def cleaned_folder(folder: str) -> str:
    """A folder's name as it is kept: a line. Raises ProblemError if it is too long."""
    name = " ".join(one_line(folder).replace('"', "").split())
    if len(name) > LONGEST_FOLDER:
        message = f"The folder “{shortened(name, 21)}” has {len(name):,} characters."
        raise request_error(message, f"Use at most {LONGEST_FOLDER}.", key="folder", value=name)
    return name


class Edits(Readings):
    """Reads saved runs, and changes them as a user wants: of several runs all or none."""

    def __init__(self, connection: Connection, path: Path) -> None:
        super().__init__(connection)
        self.path = path

    def rename(self, run_id: str, name: str) -> None:
        """Gives a run another name. Raises ProblemError for an empty one."""
        if not (kept := cleaned_name(name)):
            raise request_error("name is empty.", "Give the run a name.", key="name", value=name)
        self._set("name", {run_id: kept})

    def set_tags(self, run_id: str, tags: Iterable[str]) -> None:
        """Gives a run these tags and no others; see `cleaned_tags` for what is kept of them."""
        self.set_all_tags({run_id: tags})

    def set_all_tags(self, tags: Mapping[str, Iterable[str]]) -> None:
        """Gives runs, by id, these tags and no others."""
        kept = {run_id: cleaned_tags(run_tags) for run_id, run_tags in tags.items()}
        self._set("tags", {run_id: json.dumps(each, ensure_ascii=False) for run_id, each in kept.items()})

    def set_note(self, run_id: str, note: str) -> None:
        """Replaces a run's note; an empty one removes it."""
        self._set("note", {run_id: cleaned_note(note)})

    def set_pinned(self, run_ids: Iterable[str], is_pinned: bool) -> None:
        """Pins runs to the top of the table, or unpins them."""
        self._set("is_pinned", dict.fromkeys(run_ids, is_pinned))

    def set_colour(self, run_ids: Iterable[str], colour: str | None) -> None:
        """Gives runs one of `OWN_COLOURS`, or their precisions' colours with None."""
        if colour is not None and colour not in OWN_COLOURS:
            remedy = f"Choose one of {', '.join(OWN_COLOURS)}."
            message = f"There is no colour “{shortened(colour)}”."
            raise request_error(message, remedy, key="colour", value=colour)
        self._set("colour", dict.fromkeys(run_ids, colour))

    def set_folders(self, folders: Mapping[str, str]) -> None:
        """Puts runs, by id, into folders; an empty name is none."""
        self._set("folder", {run_id: cleaned_folder(folder) for run_id, folder in folders.items()})

    def _set(self, column: str, values: Mapping[str, object]) -> None:
        with self._connection.writing() as connection:
            for run_id, value in values.items():
                row_of(connection, run_id)
                connection.execute(f"UPDATE runs SET {column} = ? WHERE id = ?", (value, run_id))

    def delete(self, run_ids: Iterable[str]) -> None:
        """Deletes runs until they are restored or purged. A run that another process trains is refused."""
        with self._connection.writing() as connection:
            for run_id in run_ids:
                _check_deletable(connection, run_id)
                connection.execute("UPDATE runs SET deleted = ? WHERE id = ?", (time.time(), run_id))
                leave(connection, run_id)

    def restore(self, run_ids: Iterable[str]) -> None:
        """Restores deleted runs. Raises ProblemError where one was purged."""
        with self._connection.writing() as connection:
            bring_back(connection, run_ids)

    def remove(self, run_ids: Iterable[str]) -> None:
        """Deletes runs for good with samples and checkpoints; refused for one that another process trains."""
        run_ids = tuple(run_ids)
        with self._connection.writing() as connection:
            for run_id in run_ids:
                _check_deletable(connection, run_id)
            self._drop(connection, run_ids)
        self._drop_files(run_ids)

    def purge(self, run_ids: Iterable[str]) -> None:
        """Removes those of the runs that are deleted for good; restored runs stay."""
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
        """The folder of the run's checkpoints, if it has any."""
        return checkpoints.folder_of(self.path, run_id)


def _check_deletable(connection: sqlite3.Connection, run_id: str) -> None:
    row = row_of(connection, run_id)
    if (place := kept.place_of(connection, run_id)) is not None:
        message = f"{row['name']} still trains on {place.machine}."
        raise request_error(message, "Resume it, and stop it first.", key="run")
    if row["status"] == Status.RUNNING and not may_take(row["owner"]):
        message = f"{row['name']} is being trained by another Ammeter."
        raise request_error(message, "Stop it there first.", key="run")


def is_deleted(connection: sqlite3.Connection, run_id: str) -> bool:
    """True for a run that is deleted but can still be restored."""
    statement = "SELECT 1 FROM runs WHERE id = ? AND deleted IS NOT NULL"
    return connection.execute(statement, (run_id,)).fetchone() is not None


def bring_back(connection: sqlite3.Connection, run_ids: Iterable[str]) -> None:
    """Undoes a deletion. Raises ProblemError of kind STORE where a run is gone for good.

    A run whose place in its sweep was taken meanwhile belongs to the sweep no more.
    """
    for run_id in run_ids:
        connection.execute(
            "UPDATE runs SET sweep = NULL, cell = NULL, repeat = NULL WHERE id = ? AND EXISTS"
            " (SELECT 1 FROM runs AS other WHERE other.id != runs.id AND other.deleted IS NULL"
            " AND (other.sweep, other.cell, other.repeat) = (runs.sweep, runs.cell, runs.repeat))",
            (run_id,),
        )
        if not connection.execute("UPDATE runs SET deleted = NULL WHERE id = ?", (run_id,)).rowcount:
            message = f"Run {run_id} is gone for good."
            raise ProblemError(Problem(kind=Kind.STORE, message=message, remedy="Train it as a new run."))


def add_comparison(connection: sqlite3.Connection, comparison: str, title: str) -> None:
    """Adds a comparison with the time and the version."""
    insert(connection, "comparisons", id=comparison, title=title, created=time.time(), ammeter=__version__)


def drop_comparison(connection: sqlite3.Connection, comparison: str | None) -> None:
    """Removes a comparison without runs, unless it is a sweep's, whose runs may be yet to come."""
    connection.execute(
        "DELETE FROM comparisons WHERE id = :id"
        " AND NOT EXISTS (SELECT 1 FROM runs WHERE comparison = :id)"
        " AND NOT EXISTS (SELECT 1 FROM sweeps WHERE comparison = :id)",
        {"id": comparison},
    )
