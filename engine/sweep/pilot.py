"""A pilot: a few steps of a cell, how long they took, and how long a whole run of the cell will take."""

from __future__ import annotations

import time
from collections.abc import Callable

from engine.experiment.experiment import Experiment
from engine.experiment.repeats import Pilot
from engine.experiment.settings import Checkpoint, Measure
from engine.protocol.events import Epoch, Event, Finished, Phase, PhaseName, Samples, Started, Summary

_MEASURE = Measure(warmup_steps=5, block_steps=2)

MOST_SECONDS = 60.0
"""A pilot is ended once its steps have taken so long, and `_LEAST_STEPS` of them are known."""

_LEAST_STEPS = 3


def pilot_of(experiment: Experiment) -> Experiment | None:
    """The experiment that pilots another; None where the whole run is no longer."""
    pilot = experiment.model_copy(update={"epochs": None, "measure": _MEASURE, "checkpoint": Checkpoint()})
    if experiment.steps is not None and experiment.steps <= pilot.least_steps:
        return None
    return pilot.model_copy(update={"steps": pilot.least_steps})


def run_seconds(experiment: Experiment, pilot: Pilot) -> float | None:
    """How long a whole run takes, worker included; None where the pilot does not say."""
    per_epoch, every = pilot.steps_per_epoch, experiment.validation.every
    steps = experiment.steps
    if steps is None and per_epoch is not None:
        steps = (experiment.epochs or 1) * per_epoch
    if steps is None or pilot.step_ms is None:
        return None
    validations = 0
    if every:
        # a run that ends by steps validates after its last
        validations = (
            (experiment.epochs or 1) // every
            if experiment.steps is None
            else 1 + (steps - 1) // (per_epoch or steps) // every
        )
    return pilot.start_seconds + steps * pilot.step_ms / 1e3 + validations * (pilot.validation_seconds or 0.0)


class PilotWatch:
    """Times the events of a pilot as they arrive, from before its worker is started."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._first_step: float | None = None
        self._phase: PhaseName | None = None
        self._validating: float | None = None
        self._validations: list[float] = []
        self._steps_per_epoch: int | None = None
        self._step_times: list[tuple[int, float]] = []
        self._loss: float | None = None
        self._summary = Summary()

    def take(self, event: Event) -> None:
        """Takes the next event."""
        match event:
            case Started(steps_per_epoch=steps):
                self._steps_per_epoch = steps
            case Samples():
                self._first_step = self._first_step or self._clock()
                times = [*zip(event.step, event.seconds, strict=True)]
                # these end with the capture, which is in no span that a speed is taken from
                is_capturing = self._phase is PhaseName.CAPTURING
                self._step_times = times[-1:] if is_capturing else [*self._step_times, *times]
                self._loss = event.loss[-1] if event.loss else self._loss
            case Phase():
                self._phase = event.name
                if event.name is PhaseName.VALIDATING:
                    self._validating = self._clock()
            case Epoch() if self._validating is not None:
                self._validations.append(self._clock() - self._validating)
                self._validating = None
            case Finished(summary=summary):
                self._summary = summary

    @property
    def is_enough(self) -> bool:
        """Whether the pilot has taken long enough for what it can still show."""
        if self._first_step is None or len(self._step_times) < _LEAST_STEPS:
            return False
        return self._clock() - self._first_step > MOST_SECONDS

    def pilot(self) -> Pilot | None:
        """What was measured, once the worker has ended; None without a step."""
        summary, step_ms = self._summary, self._step_ms()
        seconds = max(0.0, self._clock() - self._began - (summary.paused_seconds or 0.0))
        steps = summary.steps or max((step for step, _ in self._step_times), default=0)
        if not steps:
            return None
        # compiling and slow first steps count as its start, which a whole run has once too
        rest = seconds - steps * (step_ms or 0.0) / 1e3 - sum(self._validations)
        allocated = summary.peak_allocated_mib
        return Pilot(
            steps=steps,
            seconds=seconds,
            start_seconds=max(0.0, rest),
            step_ms=step_ms,
            samples_per_second=summary.samples_per_second,
            peak_mib=summary.peak_resident_mib if allocated is None else allocated,
            validation_seconds=self._validations[-1] if self._validations else None,
            final_loss=summary.final_train_loss if summary.final_train_loss is not None else self._loss,
            steps_per_epoch=self._steps_per_epoch,
        )

    def _step_ms(self) -> float | None:
        if self._summary.step_ms is not None or len(self._step_times) < 2:
            return self._summary.step_ms
        (first, since), (last, until) = self._step_times[0], self._step_times[-1]
        return 1e3 * (until - since) / (last - first) if last > first and until > since else None
