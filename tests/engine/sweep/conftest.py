"""Saved sweeps, and workers that only say what a script has them say."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.experiment.problem import Kind, Problem
from engine.experiment.sweep import Axis, Grid, Pilot, Plan, grid_of
from engine.protocol.events import Failed, Finished, Started, Summary
from engine.store.saved.sweeps import SweepRecord
from engine.store.store import Store

OF_GRID = {"dataset": "synthetic", "samples": 64, "device": "cpu", "steps": 40}


@pytest.fixture
def grid() -> Grid:
    """Two precisions and two batch sizes: cells 0 and 2, 1 and 3 are compared."""
    return grid_of(
        OF_GRID, [Axis(key="precision", values=("fp32", "bf16")), Axis(key="batch_size", values=(4, 8))]
    )


class Sweeping:
    """A saved sweep, whose turns a test takes itself."""

    def __init__(self, store: Store, grid: Grid, plan: Plan, started: Callable[..., Started]) -> None:
        self._store, self._started, self.grid = store, started, grid
        self.id = store.sweeps.add("Night", grid, plan, device_name="CPU")

    @property
    def record(self) -> SweepRecord:
        return self._store.sweeps.find(self.id)

    def pilot(self, *cells: int, **figures: float) -> None:
        """Pilots of the cells, by default of all."""
        known = {"steps": 15, "seconds": 3.0, "start_seconds": 2.0, "step_ms": 50.0, **figures}
        for cell in cells or range(self.grid.size):
            self._store.sweeps.set_pilot(self.id, cell, Pilot.model_validate(known))

    def train(self, cell: int, repeat: int, speed: float | None = 100.0, *, fails: bool = False) -> None:
        """A run of the cell that ended."""
        own = self.grid.cells[cell].experiment
        experiment = own.model_copy(update={"seed": own.seed + repeat - 1})
        run = self._store.add(
            experiment, comparison=self.record.comparison, sweep=self.id, cell=cell, repeat=repeat
        )
        self._store.begin(run.id)
        problem = Problem(kind=Kind.OUT_OF_MEMORY, message="Full.", remedy="Take less.")
        summary = Summary(steps=40, seconds=1.0, samples_per_second=speed)
        last = Failed(problem=problem) if fails else Finished(summary=summary)
        self._store.record(run.id, [self._started(experiment), last])


@pytest.fixture
def sweeping(store: Store, grid: Grid, started: Callable[..., Started]) -> Callable[..., Sweeping]:
    """Saves a sweep with a plan's fields."""
    return lambda **plan: Sweeping(store, grid, Plan(**plan), started)
