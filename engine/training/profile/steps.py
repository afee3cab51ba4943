"""A run's steps made for a profile: warmed up, and timed without the profiler."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.protocol.events import Event, Phase, PhaseName
from engine.protocol.summary import Energy
from engine.training.data.batches import Batch
from engine.training.measuring.telemetry import Rows
from engine.training.runs.run import Run

_LEAST_WARMUP = 3
"""The first whole step makes the optimizer's state, and libraries choose their kernels in it."""
_LEAST_STEPS, _LEAST_SECONDS, _MOST_SECONDS = 10, 1.5, 10.0
_LEAST_BLOCK, _MOST_BLOCKS = 8, 10


class Steps:
    """A run's optimizer steps, over the ends of its epochs and beyond its own end.

    Beyond that end, and with `only_whole`, the smaller group that may end an epoch is left out.
    `wait_seconds` is how long the host waited for the batches of each step, `group` the last step's.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.samples = min(run.experiment.step_samples, run.source.train_samples)
        self.only_whole = False
        self._ends_smaller = run.steps_per_epoch > 1 and run.source.train_samples % self.samples != 0
        self._groups: Iterator[list[Batch]] = iter(())
        self._left = 0
        self._is_loading = False
        self.group: list[Batch] = []
        self.wait_seconds: list[float] = []
        self._rows: list[Rows] = []

    @property
    def must_end(self) -> bool:
        """True once a stop was requested; a NaN ends no profile."""
        return self.run.control.stop_requested.is_set()

    def enter_epoch(self) -> None:
        """Begins the next epoch where none is left of this one; as in a run, that belongs to no step."""
        leaves_out = self._ends_smaller and (self.only_whole or self.run.is_complete)
        if self._left <= leaves_out:
            if self.run.telemetry.steps:
                self._take(self.run.telemetry.flush())
                self.run.begin_epoch()
            self._left = self.run.steps_per_epoch
        elif self._is_loading:
            return
        self._groups = self.run.groups()
        self._is_loading = True
        self.run.telemetry.begin()

    def interrupt_loading(self) -> None:
        """Call it after a validation, whose batches are loaded in place of the epoch's."""
        self._is_loading = False

    def next_group(self) -> list[Batch]:
        """The batches of the next step, once its epoch is entered."""
        self._left -= 1
        began = time.perf_counter()
        self.group = next(self._groups)
        self.wait_seconds.append(time.perf_counter() - began)
        return self.group

    def make(self) -> None:
        """Makes a step as the run does."""
        self.enter_epoch()
        self.run.train_on(self.next_group())
        self.collect()

    def collect(self) -> None:
        """Takes the figures that have arrived, as often as the run does."""
        if self.run.telemetry.is_due():
            self._take(self.run.telemetry.collect())

    def wait(self) -> None:
        """Waits until the device has completed all steps; the wait belongs to no step."""
        self._take(self.run.telemetry.flush())
        self.run.telemetry.begin()

    def measured(self, first: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The samples and the seconds of the completed steps after the `first`."""
        return (
            np.concatenate([rows.samples for rows in self._rows])[first:],
            np.concatenate([rows.step_seconds for rows in self._rows])[first:],
        )

    def _take(self, arrived: list[Rows]) -> None:
        for rows in arrived:
            self.run.take(rows)
        self._rows += arrived
        self.run.samples()


@dataclass(frozen=True)
class Timed:
    """Means of steps without the profiler; in `wait_ms` of a step the host waits for its batches.

    `energy` is that of all timed steps, None where it is not counted; `disturbance` is what disturbed them.
    """

    step_ms: float
    wait_ms: float
    energy: Energy | None
    disturbance: str | None


def warm_up(steps: Steps) -> Generator[Event, None, None]:
    """Makes the run's warm-up, compiling and capturing included, and at least three steps."""
    run = steps.run
    while not steps.must_end:
        phase = run.training_phase
        if phase is PhaseName.MEASURING:
            if run.telemetry.steps >= _LEAST_WARMUP:
                return
            phase = PhaseName.WARMING_UP
        if phase is not run.phase:
            run.enter(phase)
            yield Phase(name=phase)
        steps.make()


def time_steps(steps: Steps) -> Generator[Event, None, Timed]:
    """Makes enough steps to time them, as the run measures its own, and at least one."""
    run = steps.run
    steps.wait()
    run.enter(PhaseName.MEASURING)
    yield Phase(name=PhaseName.PROFILING, fraction=0.0, detail="timing steps")
    first, began = run.telemetry.steps, time.perf_counter()
    while True:
        steps.make()
        made, seconds = run.telemetry.steps - first, time.perf_counter() - began
        if steps.must_end or (made >= _LEAST_STEPS and seconds >= _LEAST_SECONDS) or seconds >= _MOST_SECONDS:
            break
    steps.wait()
    run.enter(PhaseName.PROFILING)
    return _timed(steps, first)


def _timed(steps: Steps, first: int) -> Timed:
    (samples, seconds), waits = steps.measured(first), np.asarray(steps.wait_seconds[first:])
    instruments = steps.run.instruments
    is_whole = samples == samples.max()
    return Timed(
        step_ms=1e3 * _typical(seconds[is_whole]),
        wait_ms=1e3 * _typical(waits[is_whole]),
        energy=instruments.energy.over(len(samples), int(samples.sum()), float(seconds.sum())),
        disturbance=instruments.disturbance(),
    )


def _typical(seconds: NDArray[np.float64]) -> float:
    """The median of the means of blocks, which one hiccup of the machine does not change. A block is long
    enough for a loader's processes to take their turns."""
    blocks = min(_MOST_BLOCKS, max(1, len(seconds) // _LEAST_BLOCK))
    return float(np.median([block.mean() for block in np.array_split(seconds, blocks)]))
