"""Runs sent to MLflow through its own client, an optional extra."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from engine.curves import Columns
from engine.export.content import Content
from engine.export.trackers.mlflow_client import Connection, MlflowPlace, connected, place_of
from engine.export.trackers.tensorboard import CURVE_TAGS, epoch_values, summary_values
from engine.protocol.events import Epoch
from engine.store.record import RunRecord, Status
from engine.words.names import applying_settings

EXPERIMENT = "Ammeter"
"""The MLflow experiment that the runs join, unless MLFLOW_EXPERIMENT_NAME says otherwise."""

MOST_STEPS = 2_500
"""A longer run sends every nth step: MLflow's charts draw no more, and a million values take many minutes."""

_MOST_METRICS, _MOST_PARAMETERS, _MOST_LETTERS = 1_000, 100, 6_000
"""MLflow's limits of a request, and of a parameter's length."""

_ENDINGS = {
    Status.FINISHED: "FINISHED",
    Status.STOPPED: "KILLED",
    Status.INTERRUPTED: "KILLED",
    Status.FAILED: "FAILED",
}

Value = TypeVar("Value")


@dataclass(frozen=True)
class Logged:
    """What was sent: MLflow's run ids in the order of `Content.runs`; of those `thinned`, not every step."""

    place: MlflowPlace
    experiment: str
    run_ids: tuple[str, ...]
    thinned: tuple[RunRecord, ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        """What was sent, what was left out, and where to look."""
        count = "1 run is" if len(self.run_ids) == 1 else f"{len(self.run_ids):,} runs are"
        sentences = [f"{count} in MLflow's experiment {self.experiment}."]
        if self.thinned:
            names = ", ".join(run.name for run in self.thinned)
            sentences.append(f"Of runs longer than {MOST_STEPS:,} steps only some steps were sent: {names}.")
        return (*sentences, self.place.how_to_open)


def log_runs(content: Content, destination: str) -> Logged:
    """Sends all runs to `destination`, as in `mlflow:./mlruns` or `mlflow:http://host:5000`.

    Each becomes a new run: settings are parameters, curves are metrics by step at their time of measurement,
    the environment is tags. Raises ProblemError if MLflow is not installed, cannot be reached or refuses;
    then the new runs are deleted.
    """
    place = place_of(destination)
    experiment = os.environ.get("MLFLOW_EXPERIMENT_NAME") or EXPERIMENT
    with connected(place, experiment) as connection:
        thinned = []
        for run in content.runs:
            curves = content.samples[run.id]
            _send(connection, run, curves, content.epochs(run.id))
            thinned += [run] if _stride(curves) > 1 else []
    return Logged(place, experiment, tuple(connection.begun), tuple(thinned))


def _send(connection: Connection, run: RunRecord, curves: Columns, epochs: Sequence[Epoch]) -> None:
    from mlflow.entities import Metric, Param

    start_ms = round((run.started or run.created).timestamp() * 1_000)
    tags = _tags(run, _stride(curves))
    client = connection.client
    sent = client.create_run(connection.experiment_id, start_time=start_ms, tags=tags, run_name=run.name)
    run_id = sent.info.run_id
    connection.begun.append(run_id)
    settings = [
        Param(name, str(value)[:_MOST_LETTERS]) for name, value in applying_settings(run.experiment).items()
    ]
    for parameters in _parts(settings, _MOST_PARAMETERS):
        client.log_batch(run_id, params=parameters, synchronous=True)
    values = [
        Metric(tag, value, start_ms + round(seconds * 1_000), step)
        for step, seconds, figures in _values(run, curves, epochs)
        for tag, value in figures.items()
    ]
    for metrics in _parts(values, _MOST_METRICS):
        client.log_batch(run_id, metrics=metrics, synchronous=True)
    if run.status in _ENDINGS:
        end_ms = round(run.ended.timestamp() * 1_000) if run.ended else None
        client.set_terminated(run_id, _ENDINGS[run.status], end_ms)
    elif run.status is Status.QUEUED:
        client.update_run(run_id, status="SCHEDULED")


def _values(
    run: RunRecord, curves: Columns, epochs: Sequence[Epoch]
) -> Iterator[tuple[int, float, dict[str, float]]]:
    """Step, seconds since the start, and values by tag, of the curves, the epochs and the run."""
    tags = [tag for name, tag in CURVE_TAGS.items() if name in curves]
    if curves:
        rows = _chosen(len(curves["step"]), _stride(curves))
        table = [curves[name][rows].tolist() for name in CURVE_TAGS if name in curves]
        steps, seconds = curves["step"][rows].tolist(), curves["seconds"][rows].tolist()
        for step, second, values in zip(steps, seconds, zip(*table, strict=True), strict=True):
            yield int(step), second, dict(zip(tags, values, strict=True))
    for epoch in epochs:
        yield epoch.step, epoch.seconds, epoch_values(epoch)
    if run.summary is not None:
        yield run.summary.steps, run.summary.seconds, summary_values(run)


def _tags(run: RunRecord, stride: int) -> dict[str, str]:
    environment = run.environment.model_dump() if run.environment else {}
    tags: dict[str, object] = {
        "ammeter.run": run.id,
        "ammeter.status": run.status.value,
        "ammeter.precision": run.experiment.precision.label,
        "ammeter.comparison": run.comparison,
        "ammeter.label": run.label,
        "ammeter.problem": run.problem.message if run.problem else None,
        "ammeter.steps_sent": f"1 of {stride:,}, and the last" if stride > 1 else None,
        **{f"environment.{name}": value for name, value in environment.items()},
    }
    return {name: str(value)[:_MOST_LETTERS] for name, value in tags.items() if value is not None}


def _stride(curves: Columns) -> int:
    """One step in this many is sent."""
    return -(-len(curves["step"]) // MOST_STEPS) if curves else 1


def _chosen(rows: int, stride: int) -> list[int]:
    return sorted({*range(0, rows, stride), rows - 1})


def _parts(values: Sequence[Value], size: int) -> Iterator[Sequence[Value]]:
    for first in range(0, len(values), size):
        yield values[first : first + size]
