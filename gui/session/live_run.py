"""A run in the live panel, with its curves and metrics. Does not use Qt or torch."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.curves import Curves, Series, Values
from engine.experiment.experiment import Experiment, Precision
from engine.experiment.problem import Problem
from engine.lazy_imports import np
from engine.protocol.events import (
    Environment,
    Epoch,
    Event,
    Failed,
    Finished,
    Log,
    Phase,
    PhaseName,
    RankMemory,
    Samples,
    Skipped,
    Started,
    Summary,
)
from engine.sweep.order import SweepEvent, TurnEnded, TurnStarted
from engine.words.names import speed_unit

_MOST_EPOCHS = 8_192
"""More than a plot can show; then only the validated ones are kept, and of these every second."""


@dataclass
class LiveRun:
    """The settings, recorded samples and state of a run, for display while it trains and later.

    `add` appends an event, which is new or replayed from the store. `status` is queued, running, finished,
    stopped, failed or interrupted. `unit` is the unit of the throughput, and `batch_size` the number of
    samples per optimizer step. `detail` is the full message of a failure. `revision` increases with every
    change.
    """

    run_id: str
    experiment: Experiment
    label: str
    unit: str = "img/s"
    status: str = "queued"
    batch_size: int = 1
    block_steps: int = 10
    warmup_steps: int = 10
    total_steps: int | None = None
    loss_name: str = ""
    loss_unit: str = ""
    phase: Phase | None = None
    phase_began: float = 0.0
    curves: Curves = field(default_factory=Curves)
    rank_memory: RankMemory | None = None
    skipped: Series = field(default_factory=Series)
    epochs: list[Epoch] = field(default_factory=list)
    summary: Summary | None = None
    environment: Environment | None = None
    problem: Problem | None = None
    detail: str = ""
    revision: int = 0

    @classmethod
    def queued(cls, run_id: str, experiment: Experiment, label: str | None = None) -> LiveRun:
        """Return a queued run of `experiment`, named for its precision unless a label is given."""
        run = cls(run_id, experiment, label or experiment.precision.label)
        run._set_settings(experiment)
        return run

    @property
    def precision(self) -> Precision:
        return self.experiment.precision

    @property
    def is_over(self) -> bool:
        return self.status not in ("queued", "running")

    @property
    def is_paused(self) -> bool:
        return self.status == "running" and self.phase is not None and self.phase.name is PhaseName.PAUSED

    @property
    def phase_seconds(self) -> float:
        """Return the seconds since the phase began, by this machine's clock."""
        return time.monotonic() - self.phase_began if self.phase is not None else 0.0

    @property
    def step(self) -> int:
        """Return the last step that has a sample, or 0 before the first."""
        steps = self.column("step")
        return int(steps[-1]) if len(steps) else 0

    @property
    def progress(self) -> float | None:
        """Return the progress of the run, 0 to 1. None before it is known."""
        return self.step / self.total_steps if self.total_steps else None

    def seconds_left(self) -> float | None:
        """Estimate the remaining seconds from the last steps. None before the third step."""
        seconds, steps = self.column("seconds"), self.column("step")
        if self.total_steps is None or len(steps) < 3:
            return None
        back = min(len(steps) - 1, 200)
        span, done = float(seconds[-1] - seconds[-1 - back]), float(steps[-1] - steps[-1 - back])
        return max(0.0, self.total_steps - float(steps[-1])) * span / done if done > 0 and span > 0 else None

    def column(self, name: str) -> Values:
        """Return the samples' column of that name. Empty if there is none."""
        return self.curves.column(name)

    def rows_until(self, step: int) -> int:
        """Return the number of rows up to this step."""
        return int(np.searchsorted(self.column("step"), step, side="right"))

    def add(self, event: Event) -> None:
        """Append an event. Events without metrics of the run are ignored."""
        self.revision += 1
        match event:
            case Samples():
                self.add_samples(event.columns())
            case Started():
                self._on_started(event)
            case Phase():
                # a growing fraction is not another phase
                if self.phase is None or self.phase.name is not event.name:
                    self.phase_began = time.monotonic()
                self.phase = event
                self.status = "running" if self.status == "queued" else self.status
            case RankMemory():
                self.rank_memory = event
            case Epoch():
                self._add_epoch(event)
            case Skipped():
                self.skipped.extend(event.steps)
            case Finished():
                self.summary, self.phase = event.summary, None
                self.status = "stopped" if event.stopped else "finished"
            case Failed():
                self.problem, self.summary = event.problem, event.summary or self.summary
                self.detail, self.status, self.phase = event.detail, "failed", None
            case _:
                self.revision -= 1

    def add_all(self, events: Iterable[Event]) -> None:
        """Append events in order."""
        for event in events:
            self.add(event)

    def add_samples(self, columns: Mapping[str, Any]) -> None:
        """Append samples by column."""
        self.curves.extend(columns)
        self.revision += 1

    def set_curves(self, curves: Curves) -> None:
        """Set the curves of a saved run."""
        self.curves = curves
        self.revision += 1

    def set_status(self, status: str, summary: Summary | None = None, problem: Problem | None = None) -> None:
        """Set the status from the store, with the summary so far."""
        self.status, self.phase, self.summary, self.problem = status, None, summary, problem
        self.revision += 1

    def _on_started(self, event: Started) -> None:
        self._set_settings(event.experiment)
        self.summary, self.problem, self.rank_memory = None, None, None
        # what came after is forgotten: a resumed run trains it again
        step = event.resumed_step or 0
        self.curves.truncate(step)
        self.skipped.truncate(int(np.searchsorted(self.skipped.values, step, side="right")))
        self.epochs = [epoch for epoch in self.epochs if epoch.step <= step]
        self.environment, self.total_steps = event.environment, event.total_steps
        self.loss_name, self.loss_unit = event.loss_name, event.loss_unit
        self.status = "running"

    def _add_epoch(self, epoch: Epoch) -> None:
        self.epochs.append(epoch)
        if len(self.epochs) > _MOST_EPOCHS:
            validated = [epoch for epoch in self.epochs[:-1] if epoch.validation_accuracy is not None]
            stride = 2 if len(validated) > _MOST_EPOCHS // 2 else 1
            self.epochs = [*validated[::stride], epoch]

    def _set_settings(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self.batch_size = experiment.step_samples
        self.block_steps = experiment.measure.block_steps
        self.warmup_steps = experiment.measure.warmup_steps
        self.unit = speed_unit([experiment])


Line = tuple[str, str]
"""A level and a message."""


def run_lines(event: Event) -> tuple[Line, ...]:
    """Return the log lines of a run's event. A failure is logged when the run ends."""
    match event:
        case Started(notes=notes, environment=machine):
            started = f"Started on {machine.device_name}, torch {machine.torch}."
            return (("info", started), *(("info", note) for note in notes))
        case Failed():
            return ()
    return common_lines(event)


def sweep_lines(event: SweepEvent, cell: str) -> tuple[Line, ...]:
    """Return the log lines of a sweep's event. `cell` is the name of the current cell, or empty."""
    match event:
        case TurnStarted(turn=turn):
            return (("info", f"Pilot of {cell}." if turn.kind == "pilot" else f"{cell}, run {turn.repeat}."),)
        case TurnEnded(problem=Problem() as problem):
            return (("problem", f"{cell}: {problem.message} {problem.remedy}"),)
    # a run's own events are logged with its name
    return () if cell else common_lines(event)


def common_lines(event: object) -> tuple[Line, ...]:
    """Return the log lines of an event that all work has."""
    match event:
        case Log(level=level, message=message):
            return ((level, message),)
        case Phase(name=PhaseName.DOWNLOADING, detail=detail, fraction=None):
            return (("info", detail),)
        case Finished(stopped=stopped):
            return (("info", "Stopped." if stopped else "Finished."),)
        case Failed(problem=problem, detail=detail):
            text = f"{problem.message} {problem.remedy}"
            return (("problem", f"{text}\n{detail}" if detail else text),)
    return ()
