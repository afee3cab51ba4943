"""The time to the end: from runs, from pilots, and before these from saved runs of the same speed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from engine.experiment.experiment import Experiment
from engine.experiment.repeats import Pilot, Plan
from engine.experiment.settings import Validation
from engine.store.record import RunRecord
from engine.store.saved.sweeps import SweepRecord
from engine.sweep.estimate import KnownRuns, estimate_of, estimate_of_grid
from engine.sweep.order import Estimate, run_seconds
from tests.engine.sweep.conftest import Sweeping

Sweepings = Callable[..., Sweeping]
Runs = Callable[..., RunRecord]

PILOTED_SECONDS = 2.0 + 40 * 0.05
"""What a run takes by the pilots of `Sweeping`."""


@pytest.fixture
def took(record: Runs) -> Runs:
    """Makes a run that took so many seconds."""

    def make(experiment: Experiment, seconds: float, *, repeat: int = 1, paused: float = 0.0) -> RunRecord:
        run = record(1, experiment, steps=40, epochs=2.5, seconds=seconds / 2, paused_seconds=paused)
        assert run.started is not None
        return replace(run, ended=run.started + timedelta(seconds=seconds + paused), cell=0, repeat=repeat)

    return make


def with_runs(sweep: SweepRecord, cell: int, *runs: RunRecord) -> SweepRecord:
    cells = list(sweep.cells)
    cells[cell] = replace(cells[cell], runs=runs)
    return replace(sweep, cells=tuple(cells))


def test_without_a_pilot_or_a_run_nothing_is_said(sweeping):
    assert estimate_of(sweeping().record) is None


def test_pilots_foretell_the_runs(sweeping):
    sweep = sweeping(repeats=2)
    sweep.pilot()
    assert estimate_of(sweep.record) == Estimate(pytest.approx(8 * PILOTED_SECONDS), 8, is_rough=False)


def test_the_first_pilot_speaks_for_the_others(sweeping):
    sweep = sweeping()
    sweep.pilot(0)
    # the three other pilots take as long as that one, and so do their runs
    expected = 3 * 3.0 + 4 * PILOTED_SECONDS
    assert estimate_of(sweep.record) == Estimate(pytest.approx(expected), 7, is_rough=True)


def test_repeats_take_as_long_as_the_runs_did(sweeping, took):
    sweep = sweeping(repeats=2)
    sweep.pilot()
    run = took(sweep.grid.cells[0].experiment, 2 * PILOTED_SECONDS, paused=100.0)
    # the others will take longer than their pilots say, as this one did
    expected = 7 * 2 * PILOTED_SECONDS
    known = estimate_of(with_runs(sweep.record, 0, run))
    assert known == Estimate(pytest.approx(expected), 7, is_rough=False)


def test_the_time_limit_bounds_the_estimate(sweeping):
    sweep = sweeping(repeats=5, time_limit_seconds=3 * PILOTED_SECONDS)
    sweep.pilot()
    spent = replace(sweep.record, spent_seconds=1.5 * PILOTED_SECONDS)
    # the turn in which the time runs out is completed
    assert estimate_of(spent) == Estimate(pytest.approx(2 * PILOTED_SECONDS), 2, is_rough=False)


def test_saved_runs_of_the_same_speed_tell_of_a_grid_that_is_not_saved(grid, took):
    first, *_ = grid.cells
    trained = first.experiment.model_copy(update={"seed": 9, "image_size": 28, "num_classes": 10})
    known = estimate_of_grid(grid, Plan(), [took(trained, 10.0)], left_out={3})
    assert known is not None and known.is_rough and known.turns_left == 6
    # a run is foretold as the saved one was; a pilot of 15 of its 40 steps takes less
    assert 3 * 10.0 < known.seconds_left < 6 * 10.0
    other_size = trained.model_copy(update={"batch_size": 16})
    assert estimate_of_grid(grid, Plan(), [took(other_size, 10.0)]) is None


def test_a_longer_run_compiles_and_captures_as_often_as_the_saved_one(grid, took):
    experiment = grid.cells[0].experiment
    run = took(experiment, 10.0)
    assert run.summary is not None and run.summary.seconds == 5.0
    summary = run.summary.model_copy(update={"compile_seconds": 2.0, "capture_seconds": 1.0})
    known = KnownRuns([replace(run, summary=summary)])
    # 40 steps took the 2 seconds that are left
    assert known.seconds(experiment.model_copy(update={"steps": 400})) == pytest.approx(8.0 + 400 * 0.05)


@pytest.mark.parametrize(
    ("length", "validations", "steps"),
    [
        ({"steps": 40}, 3, 40),
        ({"steps": 16}, 1, 16),
        ({"epochs": 4, "steps": None}, 4, 64),
        ({"epochs": 4, "steps": None, "validation": Validation(every=3)}, 1, 64),
        ({"steps": 40, "validation": Validation(every=0)}, 0, 40),
    ],
)
def test_a_run_validates_as_often_as_it_will(length, validations, steps):
    pilot = Pilot(
        steps=15, seconds=9.0, start_seconds=2.0, step_ms=100.0, validation_seconds=7.0, steps_per_epoch=16
    )
    expected = 2.0 + 0.1 * steps + 7.0 * validations
    assert run_seconds(Experiment().model_copy(update=length), pilot) == pytest.approx(expected)
