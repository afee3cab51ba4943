"""The time to the end: from runs, from pilots, and before these from saved runs of the same speed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from engine.experiment.checks import Catalog, DatasetEntry, DeviceEntry, ModelEntry, PrecisionEntry
from engine.experiment.command import Command
from engine.experiment.experiment import Experiment, Precision
from engine.experiment.settings import Validation
from engine.experiment.sweep import Axis, Pilot, Plan, grid_of
from engine.store.record import RunRecord
from engine.store.saved.forecasts import FILE_NAME, Forecasts
from engine.store.saved.sweeps import SweepRecord
from engine.sweep.estimate import KnownRuns, estimate_of, estimate_of_grid, exclusion_reasons, fit_of
from engine.sweep.order import Estimate, run_seconds
from tests.engine.sweep.conftest import Sweeping
from tests.forecasts import forecast_made

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


@pytest.mark.parametrize(("whole", "seconds"), [(False, 5.0 + 400 * 0.125), (True, 10.0)])
def test_a_script_takes_as_long_as_its_earlier_run_however_that_was_observed(took, whole, seconds):
    command = Command(line="python train.py", whole=whole, require="loss")
    trained = Experiment(command=command, steps=40, precision="fp16", batch_size=7, device="cuda:0")
    known = KnownRuns([took(trained, 10.0)])
    asked = Experiment(command=command.model_copy(update={"require": ""}), steps=400)
    assert known.seconds(asked) == pytest.approx(seconds)
    other = command.model_copy(update={"line": "python train.py --amp"})
    assert known.seconds(asked.model_copy(update={"command": other})) is None


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


BASE = {"model": "small-cnn", "dataset": "synthetic", "steps": 10}


@pytest.fixture
def catalog() -> Catalog:
    """A card of 2 GiB that cannot do BF16."""
    precisions = tuple(
        PrecisionEntry(
            precision=precision,
            available=precision is not Precision.BF16,
            reason="it has no BF16" if precision is Precision.BF16 else None,
        )
        for precision in Precision
    )
    return Catalog(
        devices=(DeviceEntry(name="cuda:0", title="A card", memory_mib=2_048, precisions=precisions),),
        models=(ModelEntry(name="small-cnn", task="classification", min_image_size=8),),
        datasets=(
            DatasetEntry(
                name="synthetic", title="Synthetic", task="classification", image_size=32, any_classes=True
            ),
        ),
    )


@pytest.fixture
def keep(tmp_path) -> Callable[..., Forecasts]:
    """Keeps a forecast of 100 MiB and some for each sample."""

    def keep(per_sample_mib: float, **settings: object) -> Forecasts:
        experiment = Experiment.model_validate(BASE | settings)
        forecasts = Forecasts(tmp_path)
        forecasts.keep(experiment, forecast_made(experiment, 100.0, per_sample_mib, "allocated"))
        return forecasts

    return keep


def test_a_cell_that_does_not_fit_is_left_out_with_what_it_needs(catalog, keep):
    keep(24, precision="fp32")
    forecasts = keep(12, precision="fp16")
    axes = [Axis(key="precision", values=("fp32", "fp16")), Axis(key="batch_size", values=(32, 64, 128))]

    fit = fit_of(grid_of(BASE, axes), catalog, forecasts)

    assert fit.why == {2: "It needs about 3.1 GiB of 2.0 GiB, so it does not fit."}
    assert fit.needed_mib[5] == 100 + 12 * 128
    assert not fit.unknown


@pytest.mark.parametrize(
    ("swept", "why"),
    [
        (
            {"memory_cap_gib": (None, 0.5), "batch_size": (32,)},
            "It needs about 868 MiB of 512 MiB, so it does not fit.",
        ),
        (
            {"precision": ("fp32", "bf16")},
            "Precision is 'bf16', but it is not available on A card: it has no BF16.",
        ),
        (
            {"devices": (1,), "ranks.strategy": ("ddp", "fsdp")},
            "On one device this is the same as 1 device, strategy DDP.",
        ),
    ],
)
def test_a_cell_that_is_left_out_says_why(catalog, keep, tmp_path, swept, why):
    grid = grid_of(BASE, [Axis(key=key, values=values) for key, values in swept.items()])
    assert exclusion_reasons(grid, catalog, keep(24)) == {1: why}
    (tmp_path / FILE_NAME).write_text("{", encoding="utf-8")
    without_forecasts = exclusion_reasons(grid, catalog, Forecasts(tmp_path))
    assert without_forecasts == ({} if "needs" in why else {1: why}), "a damaged file excludes nothing"


def test_cells_without_a_forecast_may_fit_and_ask_for_as_few_as_will_tell(catalog, tmp_path):
    axes = [
        Axis(key="precision", values=("fp32", "fp16")),
        Axis(key="batch_size", values=(1, 2, 4)),
        Axis(key="optimizer.learning_rate", values=(0.1, 0.2)),
        Axis(key="label_smoothing", values=(0.1, 0.2)),
    ]

    fit = fit_of(grid_of(BASE, axes), catalog, Forecasts(tmp_path))

    assert not fit.why
    assert [experiment.precision.value for experiment in fit.unknown] == ["fp32", "fp16"]


def test_no_more_forecasts_are_asked_for_than_a_user_would_wait_for(catalog, tmp_path):
    sizes = Axis(key="image_size", values=tuple(range(8, 108)))

    assert len(fit_of(grid_of(BASE, [sizes]), catalog, Forecasts(tmp_path)).unknown) == 24
