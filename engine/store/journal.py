"""Save what a run records while it trains: samples, other events in order, images, and its state and summary.

Runs with the same images share one saved sheet. A run that ended without a summary gets its metrics from the
recorded events and samples.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Sequence

from engine.curves import Columns
from engine.experiment.problem import ProblemError
from engine.protocol.events import (
    EarlyEnd,
    Epoch,
    Event,
    Failed,
    Finished,
    Heartbeat,
    Log,
    Pictures,
    RankMemory,
    Ready,
    Samples,
    Skipped,
    Started,
    Summary,
    from_line,
    to_line,
)
from engine.protocol.pictures import MOST_BYTES, ContactSheet
from engine.store import checkpoints, samples
from engine.store.record import Status, checksum_error, unreadable_error
from engine.store.schema import BLOCKS, checksum_of, is_intact, seal

_LINE = "run, position, line, checksum"


def sheet_of(connection: sqlite3.Connection, run_id: str) -> ContactSheet | None:
    """Return the sheet of a run, or None without an intact one."""
    # checks the length first: more than any sheet holds is not read into memory
    row = connection.execute(
        "SELECT hash, side, count, jpeg FROM pictures WHERE hash = (SELECT pictures FROM runs WHERE id = ?)"
        " AND typeof(jpeg) = 'blob' AND length(jpeg) <= ?",
        (run_id, MOST_BYTES),
    ).fetchone()
    if row is None or not (isinstance(row["side"], int) and isinstance(row["count"], int)):
        return None
    sheet = ContactSheet(row["jpeg"], row["side"], row["count"])
    return sheet if sheet.key == row["hash"] and sheet.is_sound() else None


def put(connection: sqlite3.Connection, run_id: str, sheet: ContactSheet) -> None:
    """Set the sheet of a run."""
    row = connection.execute("SELECT pictures FROM runs WHERE id = ?", (run_id,)).fetchone()
    key = sheet.key
    # the next run with the same sheet mends a damaged one
    connection.execute(
        "INSERT INTO pictures (hash, side, count, jpeg) VALUES (?, ?, ?, ?) ON CONFLICT (hash) DO UPDATE"
        " SET side = excluded.side, count = excluded.count, jpeg = excluded.jpeg"
        " WHERE (side, count, jpeg) IS NOT (excluded.side, excluded.count, excluded.jpeg)",
        (key, sheet.side, sheet.count, sheet.jpeg),
    )
    connection.execute("UPDATE runs SET pictures = ? WHERE id = ?", (key, run_id))
    if row is not None and row["pictures"] != key:
        drop(connection, row["pictures"])


def drop(connection: sqlite3.Connection, key: str | None) -> None:
    """Delete a sheet of training images, unless a run uses it, or a deleted run that can be restored."""
    connection.execute(
        "DELETE FROM pictures WHERE hash = :key AND NOT EXISTS (SELECT 1 FROM runs WHERE pictures = :key)",
        {"key": key},
    )


def append(connection: sqlite3.Connection, run_id: str, events: Sequence[Event]) -> None:
    """Add events: samples as blocks, others as one line each, except heartbeats and images."""
    batches = [event for event in events if isinstance(event, Samples)]
    samples.append(connection, run_id, samples.columns_in(batches))
    unkept = Samples | Heartbeat | Ready | RankMemory | Pictures
    kept = (event for event in events if not isinstance(event, unkept))
    first = samples.next_position(connection, "events", run_id)
    lines = enumerate((to_line(event).decode() for event in kept), first)
    connection.executemany(
        "INSERT INTO events (run, position, line, checksum) VALUES (?, ?, ?, ?)",
        [(run_id, position, line, checksum_of(run_id, position, line)) for position, line in lines],
    )


def events_of(connection: sqlite3.Connection, run_id: str) -> tuple[Event, ...]:
    """Return the events of a run without samples. Raises ProblemError of kind STORE for a damaged event."""
    statement = f"SELECT {_LINE} FROM events WHERE run = ? ORDER BY position"
    return tuple(_parse_event(connection, run_id, row) for row in connection.execute(statement, (run_id,)))


def ending(connection: sqlite3.Connection, run_id: str) -> Finished | Failed | None:
    """Return the end of the run's last training, or None if it was not recorded."""
    endings = (event for event in events_of(connection, run_id) if isinstance(event, Finished | Failed))
    return next(endings, None)


def cut(connection: sqlite3.Connection, run_id: str, step: int) -> None:
    """Delete everything recorded after `step`, and the run's end, so that it can resume from that step."""
    samples.cut(connection, run_id, step)
    rows = connection.execute(
        f"SELECT {_LINE} FROM events WHERE run = ? ORDER BY position", (run_id,)
    ).fetchall()
    for row in rows:
        event = _parse_event(connection, run_id, row)
        if isinstance(event, Finished | Failed):
            _drop_events(connection, run_id, "=", row["position"])
        elif _is_later(event, step):
            # everything from here on is later, phases and remarks too
            _drop_events(connection, run_id, ">=", row["position"])
            if isinstance(event, Skipped):
                steps = tuple(skipped for skipped in event.steps if skipped <= step)
                append(connection, run_id, [Skipped(steps=steps)] if steps else [])
            return


def _parse_event(connection: sqlite3.Connection, run_id: str, row: sqlite3.Row) -> Event:
    if not is_intact(row, BLOCKS["events"]):
        raise checksum_error(connection, run_id, "events")
    try:
        return from_line(row["line"])
    except ValueError:
        raise unreadable_error("events") from None


def _is_later(event: Event, step: int) -> bool:
    match event:
        case Epoch():
            return event.step > step
        case Skipped():
            return max(event.steps, default=0) > step
        case Log(step=int(about)):
            return about > step
        case Started(resumed_step=int(resumed)):
            return resumed >= step
    return False


def _drop_events(connection: sqlite3.Connection, run_id: str, relation: str, position: int) -> None:
    connection.execute(f"DELETE FROM events WHERE run = ? AND position {relation} ?", (run_id, position))


_INTERRUPTED_NOTE = "the run ended early"


def summary_of(events: Iterable[Event], parts: Iterable[Columns]) -> Summary:
    """Return the metrics of a run that ended early, from its events and samples, without throughput."""
    so_far = EarlyEnd()
    for event in events:
        so_far.add_event(event)
    for part in parts:
        so_far.add_samples(part)
    return so_far.summary(_INTERRUPTED_NOTE)


def write_events(connection: sqlite3.Connection, run_id: str, events: Sequence[Event]) -> None:
    """Write events of a run. The last event ends it. A resumed start drops later steps."""
    for event in events:
        if isinstance(event, Started) and event.resumed_step is not None:
            cut(connection, run_id, event.resumed_step)
    append(connection, run_id, events)
    for event in events:
        _apply(connection, run_id, event)


def summary_so_far(connection: sqlite3.Connection, run_id: str) -> Summary:
    """Return the metrics of a run without a summary, from its recorded samples and events."""
    events = events_of(connection, run_id)
    return summary_of(events, samples.parts_of(connection, run_id))


def close_lost(connection: sqlite3.Connection, run_id: str) -> None:
    """End a run whose process is gone, with all of its readable data."""
    try:
        if ending(connection, run_id) is not None:
            # it was queued to be resumed, and never began
            put_back(connection, run_id)
        else:
            _end_run(connection, run_id, Status.INTERRUPTED, summary_so_far(connection, run_id))
    except ProblemError:
        # a damaged run must not keep the others from being closed
        statement = "UPDATE runs SET status = ?, ended = ? WHERE id = ?"
        connection.execute(statement, (Status.INTERRUPTED, time.time(), run_id))


def put_back(connection: sqlite3.Connection, run_id: str) -> None:
    """Restore a run to its state before it was queued again."""
    status = checkpoints.status_after(ending(connection, run_id))
    connection.execute("UPDATE runs SET status = ? WHERE id = ?", (status, run_id))


def _apply(connection: sqlite3.Connection, run_id: str, event: Event) -> None:
    if isinstance(event, Started):
        connection.execute(
            "UPDATE runs SET experiment = ?, environment = ?, total_steps = ?,"
            " ended = NULL, summary = NULL, problem = NULL, detail = '' WHERE id = ?",
            (event.experiment.to_json(), event.environment.model_dump_json(), event.total_steps, run_id),
        )
        seal(connection, "runs", run_id)
    elif isinstance(event, Pictures):
        put(connection, run_id, event.sheet)
    elif isinstance(event, Finished):
        _end_run(
            connection, run_id, checkpoints.status_after(event), _complete_summary(connection, run_id, event)
        )
    elif isinstance(event, Failed):
        _end_run(connection, run_id, Status.FAILED, event.summary or summary_so_far(connection, run_id))
        connection.execute(
            "UPDATE runs SET problem = ?, detail = ? WHERE id = ?",
            (event.problem.model_dump_json(), event.detail, run_id),
        )


def _end_run(connection: sqlite3.Connection, run_id: str, status: Status, summary: Summary) -> None:
    connection.execute(
        "UPDATE runs SET status = ?, ended = ?, summary = ? WHERE id = ?",
        (status, time.time(), summary.model_dump_json(), run_id),
    )
    seal(connection, "runs", run_id)
    samples.compact(connection, run_id)


def _complete_summary(connection: sqlite3.Connection, run_id: str, event: Finished) -> Summary:
    own = event.summary
    if not event.stopped or own.steps >= samples.last_step(connection, run_id):
        return own
    return summary_so_far(connection, run_id).model_copy(update={"speed_note": own.speed_note})
