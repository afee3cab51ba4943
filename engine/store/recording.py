"""How the events of a run change its saved row: resolved settings, status and summary.

A run that ended without a summary gets its figures from the recorded events and samples. A twin of the run
in memory is kept in case the store's file is taken away.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from engine import Later
from engine.experiment.problem import ProblemError
from engine.protocol.events import Epoch, Event, Failed, Finished, Pictures, Skipped, Started, Summary
from engine.store import checkpoints, journal
from engine.store.database import open_in_memory
from engine.store.record import Status

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
else:
    np = Later("numpy")

_INTERRUPTED_NOTE = "the run ended early"


def summary_of(events: Iterable[Event], samples: Mapping[str, NDArray[np.float64]]) -> Summary:
    """The figures that samples and events show, without a speed, since the run ended early."""
    events = tuple(events)
    started = next((event for event in events if isinstance(event, Started)), None)
    validated = [
        (event.validation_accuracy, event.epoch)
        for event in events
        if isinstance(event, Epoch) and event.validation_accuracy is not None
    ]
    # of equal accuracies the first counts as the best
    best = max(validated, key=lambda pair: (pair[0], -pair[1]), default=(None, None))
    skipped = sum(len(event.steps) for event in events if isinstance(event, Skipped))
    steps = int(_last(samples, "step") or 0)
    return Summary(
        steps=steps,
        epochs=steps / started.steps_per_epoch if started is not None else 0.0,
        speed_note=_INTERRUPTED_NOTE,
        seconds=_last(samples, "seconds") or 0.0,
        final_train_loss=_train_loss(events, samples),
        final_grad_scale=_last(samples, "grad_scale"),
        best_validation_accuracy=best[0],
        best_epoch=best[1],
        final_validation_accuracy=validated[-1][0] if validated else None,
        first_nan_step=_first_nan_step(samples),
        skipped_steps=skipped if started is not None and started.experiment.uses_scaler else None,
    )


def _first_nan_step(samples: Mapping[str, NDArray[np.float64]]) -> int | None:
    losses = samples.get("loss")
    if losses is None or not np.isnan(losses).any():
        return None
    return int(samples["step"][np.isnan(losses).argmax()])


def _train_loss(events: tuple[Event, ...], samples: Mapping[str, NDArray[np.float64]]) -> float | None:
    """The mean loss of the last epoch, or of the trained part of it, as in a whole run."""
    last = max((event for event in events if isinstance(event, Epoch)), key=_step_of, default=None)
    since = 0 if last is None else last.step
    losses = samples["loss"][samples["step"] > since] if "loss" in samples else np.empty(0)
    if len(losses):
        # the sum of a diverged run may overflow
        with np.errstate(over="ignore", invalid="ignore"):
            return float(losses.mean())
    return None if last is None else last.train_loss


def _step_of(epoch: Epoch) -> int:
    return epoch.step


def _last(samples: Mapping[str, NDArray[np.float64]], name: str) -> float | None:
    column = samples.get(name)
    return float(column[-1]) if column is not None and len(column) else None


def take(connection: sqlite3.Connection, run_id: str, events: Sequence[Event]) -> None:
    """Writes events of a run; the last one ends the run.

    A resumed start drops what was recorded after the step that the run resumes from.
    """
    for event in events:
        if isinstance(event, Started) and event.resumed_step is not None:
            journal.cut(connection, run_id, event.resumed_step)
    journal.append(connection, run_id, events)
    for event in events:
        _apply(connection, run_id, event)


def summary_so_far(connection: sqlite3.Connection, run_id: str) -> Summary:
    """The figures of a run without a summary, from its recorded samples and events."""
    events = journal.events_of(connection, run_id, with_ranges=False)
    return summary_of(events, journal.samples_of(connection, run_id))


def close_lost(connection: sqlite3.Connection, run_id: str) -> None:
    """Ends a run whose process is gone, with all of it that can be read."""
    try:
        if journal.ending(connection, run_id) is not None:
            # it was queued to be resumed, and never began
            put_back(connection, run_id)
        else:
            _end(connection, run_id, Status.INTERRUPTED, summary_so_far(connection, run_id))
    except ProblemError:
        # a damaged run must not keep the others from being closed
        statement = "UPDATE runs SET status = ?, ended = ? WHERE id = ?"
        connection.execute(statement, (Status.INTERRUPTED, time.time(), run_id))


def put_back(connection: sqlite3.Connection, run_id: str) -> None:
    """Returns a run to what it was before it was queued again."""
    status = checkpoints.status_after(journal.ending(connection, run_id))
    connection.execute("UPDATE runs SET status = ? WHERE id = ?", (status, run_id))


def _apply(connection: sqlite3.Connection, run_id: str, event: Event) -> None:
    if isinstance(event, Started):
        connection.execute(
            "UPDATE runs SET experiment = ?, environment = ?, total_steps = ?,"
            " ended = NULL, summary = NULL, problem = NULL, detail = '' WHERE id = ?",
            (event.experiment.to_json(), event.environment.model_dump_json(), event.total_steps, run_id),
        )
    elif isinstance(event, Pictures):
        journal.put(connection, run_id, event.sheet)
    elif isinstance(event, Finished):
        _end(connection, run_id, checkpoints.status_after(event), _whole(connection, run_id, event))
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
    """The summary of all that was recorded: a resumed run stopped at once may know only its own part."""
    own = event.summary
    if not event.stopped:
        return own
    recorded = summary_so_far(connection, run_id)
    note = {"speed_note": own.speed_note}
    return recorded.model_copy(update=note) if own.steps < recorded.steps else own


_PARTS = ("samples", "events")


class Twin:
    """A copy of a saved run that grows with it by `take`. For the thread that made it."""

    def __init__(self, source: sqlite3.Connection, run_id: str) -> None:
        self._run_id = run_id
        self._memory = open_in_memory()
        _copy(source, self._memory, run_id)

    def take(self, events: Sequence[Event]) -> None:
        """Adds events of the run."""
        take(self._memory, self._run_id, events)

    def put_into(self, connection: sqlite3.Connection) -> None:
        """Writes the whole run into a store that lacks it, under the next number if its own is taken."""
        _copy(self._memory, connection, self._run_id)

    def close(self) -> None:
        self._memory.close()


def _copy(source: sqlite3.Connection, target: sqlite3.Connection, run_id: str) -> None:
    run = dict(source.execute("SELECT * FROM runs WHERE id = ?", (run_id,)).fetchone())
    for table, key, value in (
        ("comparisons", "id", run["comparison"]),
        ("pictures", "hash", run["pictures"]),
        ("sweeps", "id", run["sweep"]),
        ("sweep_cells", "sweep", run["sweep"]),
    ):
        for row in source.execute(f"SELECT * FROM {table} WHERE {key} = ?", (value,)):
            _insert(target, table, _renumbered(target, table, dict(row)))
    run = _renumbered(target, "runs", run)
    place = (run["sweep"], run["cell"], run["repeat"])
    taken = "SELECT 1 FROM runs WHERE (sweep, cell, repeat) = (?, ?, ?) AND id != ? AND deleted IS NULL"
    if target.execute(taken, (*place, run_id)).fetchone():
        run.update(sweep=None, cell=None, repeat=None)
    _insert(target, "runs", run)
    for table in _PARTS:
        for row in source.execute(f"SELECT * FROM {table} WHERE run = ?", (run_id,)):
            _insert(target, table, dict(row))


def _renumbered(target: sqlite3.Connection, table: str, values: dict[str, Any]) -> dict[str, Any]:
    """The row with the next number where another row of the target has its own."""
    number = values.get("number")
    if number is None or not target.execute(f"SELECT 1 FROM {table} WHERE number = ?", (number,)).fetchone():
        return values
    return {**values, "number": target.execute(f"SELECT max(number) + 1 FROM {table}").fetchone()[0]}


def _insert(target: sqlite3.Connection, table: str, values: dict[str, object]) -> None:
    places = ", ".join(f":{name}" for name in values)
    target.execute(f"INSERT OR IGNORE INTO {table} ({', '.join(values)}) VALUES ({places})", values)
