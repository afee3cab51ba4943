"""What was recorded of a run while it ran: its sample blocks and its other events, in order."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from engine.events import (
    Epoch,
    Event,
    Failed,
    Finished,
    Heartbeat,
    Log,
    Pictures,
    Ready,
    Samples,
    Skipped,
    Started,
    from_line,
    to_line,
)
from engine.records.blocks import Block, Columns, blocks_of, columns_in, columns_of, joined
from engine.records.record import unreadable


def append(connection: sqlite3.Connection, run_id: str, events: Sequence[Event]) -> None:
    """Adds the events: samples as blocks, the others a line each.

    Signs of life are left out, and pictures, which are saved apart.
    """
    batches = [event for event in events if isinstance(event, Samples)]
    _append_blocks(connection, run_id, list(blocks_of(columns_in(batches))))
    kept = (event for event in events if not isinstance(event, Samples | Heartbeat | Ready | Pictures))
    first = _next_position(connection, "events", run_id)
    connection.executemany(
        "INSERT INTO events (run, position, line) VALUES (?, ?, ?)",
        [(run_id, position, to_line(event).decode()) for position, event in enumerate(kept, first)],
    )


def events_of(connection: sqlite3.Connection, run_id: str) -> tuple[Event, ...]:
    """The events of a run without its samples. Raises ProblemError of kind STORE for one that is damaged."""
    rows = connection.execute("SELECT line FROM events WHERE run = ? ORDER BY position", (run_id,))
    return tuple(map(_event, rows))


def samples_of(connection: sqlite3.Connection, run_id: str) -> Columns:
    """The samples of a run by column; empty if it has none. Raises ProblemError where they are damaged."""
    statement = "SELECT names, rows, data FROM samples WHERE run = ? ORDER BY position"
    rows = connection.execute(statement, (run_id,))
    try:
        return joined(columns_of(Block(row["names"], row["rows"], row["data"])) for row in rows)
    except (ValueError, TypeError, AttributeError):
        # a name or a block may be of any type
        raise unreadable("curves") from None


def compact(connection: sqlite3.Connection, run_id: str) -> None:
    """Makes few large blocks of the several small ones a second, which are quicker to read."""
    replace_samples(connection, run_id, samples_of(connection, run_id))


def replace_samples(connection: sqlite3.Connection, run_id: str, columns: Columns) -> None:
    """Makes `columns` the samples of a run, in place of those that it has."""
    connection.execute("DELETE FROM samples WHERE run = ?", (run_id,))
    _append_blocks(connection, run_id, list(blocks_of(columns)))


def ending(connection: sqlite3.Connection, run_id: str) -> Finished | Failed | None:
    """How the run ended when it was trained last; None if nobody could say."""
    endings = (event for event in events_of(connection, run_id) if isinstance(event, Finished | Failed))
    return next(endings, None)


def cut(connection: sqlite3.Connection, run_id: str, step: int) -> None:
    """Drops all that was recorded after `step`, and that the run ended: it goes on from there."""
    columns = samples_of(connection, run_id)
    if columns:
        is_kept = columns["step"] <= step
        kept = {name: values[is_kept] for name, values in columns.items()}
        replace_samples(connection, run_id, kept)
    rows = connection.execute(
        "SELECT position, line FROM events WHERE run = ? ORDER BY position", (run_id,)
    ).fetchall()
    for row in rows:
        event = _event(row)
        if isinstance(event, Finished | Failed):
            _drop_events(connection, run_id, "=", row["position"])
        elif _is_later(event, step):
            # from here on all is later, phases and remarks too
            _drop_events(connection, run_id, ">=", row["position"])
            if isinstance(event, Skipped):
                steps = tuple(each for each in event.steps if each <= step)
                append(connection, run_id, [Skipped(steps=steps)] if steps else [])
            return


def _event(row: sqlite3.Row) -> Event:
    try:
        return from_line(row["line"])
    except ValueError:
        raise unreadable("events") from None


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


def _append_blocks(connection: sqlite3.Connection, run_id: str, blocks: Sequence[Block]) -> None:
    first = _next_position(connection, "samples", run_id)
    connection.executemany(
        "INSERT INTO samples (run, position, names, rows, data) VALUES (?, ?, ?, ?, ?)",
        [
            (run_id, position, block.names, block.rows, block.data)
            for position, block in enumerate(blocks, first)
        ],
    )


def _next_position(connection: sqlite3.Connection, table: str, run_id: str) -> int:
    statement = f"SELECT coalesce(max(position), -1) + 1 FROM {table} WHERE run = ?"
    return int(connection.execute(statement, (run_id,)).fetchone()[0])
