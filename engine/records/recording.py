"""What the events of a run make of its saved row: settings as resolved, how it ended, what it came to."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence

from engine.events import Event, Failed, Finished, Pictures, Started, Summary
from engine.problem import ProblemError
from engine.records import journal, pictures, resume
from engine.records.account import summary_of
from engine.records.record import Status


def take(connection: sqlite3.Connection, run_id: str, events: Sequence[Event]) -> None:
    """Writes events of a run; the last one ends the run.

    One that says that the run was resumed drops what was recorded after the step that it goes on from.
    """
    for event in events:
        if isinstance(event, Started) and event.resumed_step is not None:
            journal.cut(connection, run_id, event.resumed_step)
    journal.append(connection, run_id, events)
    for event in events:
        _apply(connection, run_id, event)


def summary_so_far(connection: sqlite3.Connection, run_id: str) -> Summary:
    """What the recorded samples and events of a run say, for one that has no summary of its own."""
    return summary_of(journal.events_of(connection, run_id), journal.samples_of(connection, run_id))


def close_lost(connection: sqlite3.Connection, run_id: str) -> None:
    """Ends a run whose process is gone, with all that can be read of it."""
    try:
        if journal.ending(connection, run_id) is not None:
            # it was to be resumed, and never came to it
            put_back(connection, run_id)
        else:
            _end(connection, run_id, Status.INTERRUPTED, summary_so_far(connection, run_id))
    except ProblemError:
        # one that is damaged must not keep the others from being told
        statement = "UPDATE runs SET status = ?, ended = ? WHERE id = ?"
        connection.execute(statement, (Status.INTERRUPTED, time.time(), run_id))


def put_back(connection: sqlite3.Connection, run_id: str) -> None:
    """Makes a run what it was before it was queued again."""
    status = resume.status_after(journal.ending(connection, run_id))
    connection.execute("UPDATE runs SET status = ? WHERE id = ?", (status, run_id))


def _apply(connection: sqlite3.Connection, run_id: str, event: Event) -> None:
    if isinstance(event, Started):
        connection.execute(
            "UPDATE runs SET experiment = ?, environment = ?, total_steps = ?,"
            " ended = NULL, summary = NULL, problem = NULL, detail = '' WHERE id = ?",
            (event.experiment.to_json(), event.environment.model_dump_json(), event.total_steps, run_id),
        )
    elif isinstance(event, Pictures):
        pictures.put(connection, run_id, event.sheet)
    elif isinstance(event, Finished):
        _end(connection, run_id, resume.status_after(event), _whole(connection, run_id, event))
    elif isinstance(event, Failed):
        _end(connection, run_id, Status.FAILED, event.summary or summary_so_far(connection, run_id))
        connection.execute(
            "UPDATE runs SET problem = ?, detail = ? WHERE id = ?",
            (event.problem.model_dump_json(), event.detail, run_id),
        )


def _end(connection: sqlite3.Connection, run_id: str, status: Status, summary: Summary) -> None:
    connection.execute(
        "UPDATE runs SET status = ?, ended = ?, summary = ? WHERE id = ?",
        (status, time.time(), summary.model_dump_json(), run_id),
    )
    journal.compact(connection, run_id)


def _whole(connection: sqlite3.Connection, run_id: str, event: Finished) -> Summary:
    """The summary of all that was recorded: a resumed run, stopped at once, may know of itself alone."""
    told = event.summary
    if not event.stopped:
        return told
    recorded = summary_so_far(connection, run_id)
    note = {"speed_note": told.speed_note}
    return recorded.model_copy(update=note) if told.steps < recorded.steps else told
