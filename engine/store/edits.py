"""What a user changes in a saved run: its name, tags, note, pin, colour and folder, and its deletion.

A deleted run is hidden at first, so that the deletion can be undone, and removed for good later.
"""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections.abc import Iterable
from pathlib import Path

from engine import __version__
from engine.experiment.problem import Kind, Problem, ProblemError, request_problem
from engine.experiment.value import one_line, printable, shortened
from engine.store import checkpoints, journal
from engine.store.queue import claims
from engine.store.record import Status
from resources.looks import OWN_COLOURS

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
            raise ProblemError(request_problem(message, f"Use at most {LONGEST_TAG}.", key="tags", value=tag))
        if words:
            kept.setdefault(words.casefold(), words)
    if len(kept) > MOST_TAGS:
        message = f"{len(kept):,} tags are more than a run may have."
        raise ProblemError(request_problem(message, f"Use at most {MOST_TAGS}.", key="tags"))
    return tuple(kept.values())


def cleaned_note(note: str) -> str:
    """A note as it is kept: printable lines. Raises ProblemError if it is too long."""
    text = printable(note).strip()
    if len(text) > LONGEST_NOTE:
        message = f"The note has {len(text):,} characters."
        raise ProblemError(request_problem(message, f"Use at most {LONGEST_NOTE:,}.", key="note"))
    return text


def cleaned_name(name: str) -> str:
    """A name as it is kept: one printable line of bounded length."""
    return shortened(name.strip(), LONGEST_NAME)


def cleaned_folder(folder: str) -> str:
    """A folder's name as it is kept: a line. Raises ProblemError if it is too long."""
    name = " ".join(one_line(folder).replace('"', "").split())
    if len(name) > LONGEST_FOLDER:
        message = f"The folder “{shortened(name, 21)}” has {len(name):,} characters."
        raise ProblemError(
            request_problem(message, f"Use at most {LONGEST_FOLDER}.", key="folder", value=name)
        )
    return name


def rename(connection: sqlite3.Connection, run_id: str, name: str) -> None:
    """Gives a run another name. Raises ProblemError for an empty one."""
    if not cleaned_name(name):
        raise ProblemError(request_problem("name is empty.", "Give the run a name.", key="name", value=name))
    claims.row_of(connection, run_id)
    connection.execute("UPDATE runs SET name = ? WHERE id = ?", (cleaned_name(name), run_id))


def set_tags(connection: sqlite3.Connection, run_id: str, tags: Iterable[str]) -> None:
    """Gives a run these tags and no others."""
    kept = json.dumps(cleaned_tags(tags), ensure_ascii=False)
    claims.row_of(connection, run_id)
    connection.execute("UPDATE runs SET tags = ? WHERE id = ?", (kept, run_id))


def set_note(connection: sqlite3.Connection, run_id: str, note: str) -> None:
    """Replaces a run's note; an empty one removes it."""
    kept = cleaned_note(note)
    claims.row_of(connection, run_id)
    connection.execute("UPDATE runs SET note = ? WHERE id = ?", (kept, run_id))


def set_pinned(connection: sqlite3.Connection, run_id: str, is_pinned: bool) -> None:
    """Pins a run to the top of the table, or unpins it."""
    claims.row_of(connection, run_id)
    connection.execute("UPDATE runs SET is_pinned = ? WHERE id = ?", (is_pinned, run_id))


def set_colour(connection: sqlite3.Connection, run_id: str, colour: str | None) -> None:
    """Gives a run one of `OWN_COLOURS`, or its precision's with None. Raises ProblemError for any other."""
    if colour is not None and colour not in OWN_COLOURS:
        remedy = f"Choose one of {', '.join(OWN_COLOURS)}."
        message = f"There is no colour “{shortened(colour)}”."
        raise ProblemError(request_problem(message, remedy, key="colour", value=colour))
    claims.row_of(connection, run_id)
    connection.execute("UPDATE runs SET colour = ? WHERE id = ?", (colour, run_id))


def set_folder(connection: sqlite3.Connection, run_id: str, folder: str) -> None:
    """Puts a run into a folder; an empty name takes it out of its folder."""
    kept = cleaned_folder(folder)
    claims.row_of(connection, run_id)
    connection.execute("UPDATE runs SET folder = ? WHERE id = ?", (kept, run_id))


KEPT_SECONDS = 24 * 3600.0
"""How long a deletion that its window never finished can be taken back."""


def hide(connection: sqlite3.Connection, run_ids: Iterable[str]) -> None:
    """Marks runs as deleted. Raises ProblemError for a run that another process trains, or that is gone."""
    for run_id in run_ids:
        check(connection, run_id)
        connection.execute("UPDATE runs SET deleted = ? WHERE id = ?", (time.time(), run_id))
        claims.leave(connection, run_id)


def bring_back(connection: sqlite3.Connection, run_ids: Iterable[str]) -> None:
    """Undoes a deletion. Raises ProblemError of kind STORE where a run is gone for good.

    A run whose place in its sweep was taken meanwhile belongs to the sweep no more.
    """
    for run_id in run_ids:
        _leave_taken_place(connection, run_id)
        change = connection.execute("UPDATE runs SET deleted = NULL WHERE id = ?", (run_id,))
        if not change.rowcount:
            message = f"Run {run_id} is gone for good."
            raise ProblemError(Problem(kind=Kind.STORE, message=message, remedy="Train it as a new run."))


def _leave_taken_place(connection: sqlite3.Connection, run_id: str) -> None:
    connection.execute(
        "UPDATE runs SET sweep = NULL, cell = NULL, repeat = NULL WHERE id = ? AND EXISTS"
        " (SELECT 1 FROM runs AS other WHERE other.id != runs.id AND other.deleted IS NULL"
        " AND (other.sweep, other.cell, other.repeat) = (runs.sweep, runs.cell, runs.repeat))",
        (run_id,),
    )


def deleted_before(connection: sqlite3.Connection, unix_seconds: float) -> tuple[str, ...]:
    """The ids of the runs that were deleted before that moment."""
    rows = connection.execute("SELECT id FROM runs WHERE deleted < ?", (unix_seconds,))
    return tuple(row["id"] for row in rows)


def all_deleted(connection: sqlite3.Connection) -> tuple[str, ...]:
    """The ids of runs that are deleted but can still be restored, oldest deletion first."""
    rows = connection.execute("SELECT id FROM runs WHERE deleted IS NOT NULL ORDER BY deleted, number")
    return tuple(row["id"] for row in rows)


def still_deleted(connection: sqlite3.Connection, run_ids: Iterable[str]) -> tuple[str, ...]:
    """Those of the runs that are deleted but can still be restored."""
    statement = "SELECT 1 FROM runs WHERE id = ? AND deleted IS NOT NULL"
    return tuple(run_id for run_id in run_ids if connection.execute(statement, (run_id,)).fetchone())


def remove(connection: sqlite3.Connection, run_ids: Iterable[str], store: Path) -> None:
    """Removes runs with all that was recorded, and comparisons and pictures with their last run.

    Their checkpoints are only marked: `remove_files` deletes them once this is committed.
    """
    for run_id in run_ids:
        checkpoints.mark(checkpoints.folder_of(store, run_id))
        row = connection.execute("SELECT comparison, pictures FROM runs WHERE id = ?", (run_id,)).fetchone()
        connection.execute("DELETE FROM runs WHERE id = ?", (run_id,))
        claims.leave(connection, run_id)
        drop_comparison(connection, row["comparison"] if row else None)
        journal.drop(connection, row["pictures"] if row else None)


def add_comparison(connection: sqlite3.Connection, comparison: str, title: str) -> None:
    """Adds a comparison with the time and the version."""
    connection.execute(
        "INSERT INTO comparisons (id, title, created, ammeter) VALUES (?, ?, ?, ?)",
        (comparison, title, time.time(), __version__),
    )


def drop_comparison(connection: sqlite3.Connection, comparison: str | None) -> None:
    """Removes a comparison without runs, unless it is a sweep's, whose runs may be yet to come."""
    connection.execute(
        "DELETE FROM comparisons WHERE id = :id"
        " AND NOT EXISTS (SELECT 1 FROM runs WHERE comparison = :id)"
        " AND NOT EXISTS (SELECT 1 FROM sweeps WHERE comparison = :id)",
        {"id": comparison},
    )


def remove_files(run_ids: Iterable[str], store: Path) -> None:
    """Deletes the checkpoints of removed runs."""
    for run_id in run_ids:
        checkpoints.remove(checkpoints.folder_of(store, run_id))


def check(connection: sqlite3.Connection, run_id: str) -> None:
    """Raises ProblemError for a run that this process may not delete, or that is gone."""
    row = claims.row_of(connection, run_id)
    if row["status"] == Status.RUNNING and not claims.may_take(row):
        message = f"{row['name']} is being trained by another Ammeter."
        raise ProblemError(request_problem(message, "Stop it there first.", key="run"))
