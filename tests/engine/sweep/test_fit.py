"""Which cells of a grid are left out because they cannot be trained here or will not fit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.experiment.checks import Catalog, DatasetEntry, DeviceEntry, ModelEntry, PrecisionEntry
from engine.experiment.experiment import Experiment, Precision
from engine.experiment.sweep import Axis, grid_of
from engine.protocol.events import ForecastMade
from engine.protocol.trials import MemoryLine
from engine.store.saved.forecasts import FILE_NAME, Forecasts
from engine.sweep.estimate import fit_of, why_unfit

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
        line = MemoryLine(fixed_mib=100, per_sample_mib=per_sample_mib)
        made = ForecastMade(
            experiment=experiment,
            quantity="allocated",
            parameters_mib=0,
            gradients_mib=0,
            optimizer_state_mib=0,
            activations_mib=0,
            libraries_mib=0,
            fixed_mib=100,
            per_sample_mib=per_sample_mib,
            needed_mib=100,
            lines=(line,),
            seconds=1,
        )
        forecasts = Forecasts(tmp_path)
        forecasts.keep(experiment, made)
        return forecasts

    return keep


def test_a_cell_that_does_not_fit_is_left_out_with_what_it_needs(catalog, keep):
    keep(24, precision="fp32")
    forecasts = keep(12, precision="fp16")
    axes = [Axis(key="precision", values=("fp32", "fp16")), Axis(key="batch_size", values=(32, 64, 128))]

    fit = fit_of(grid_of(BASE, axes), catalog, forecasts)

    assert fit.why == {2: "It needs about 3.1 GiB of 2.0 GiB, and does not fit."}
    assert fit.needed_mib[5] == 100 + 12 * 128
    assert not fit.unknown


def test_a_memory_cap_counts_in_place_of_the_card(catalog, keep):
    forecasts = keep(24)
    grid = grid_of(
        BASE, [Axis(key="memory_cap_gib", values=(None, 0.5)), Axis(key="batch_size", values=(32,))]
    )

    assert why_unfit(grid, catalog, forecasts) == {1: "It needs about 868 MiB of 512 MiB, and does not fit."}


def test_a_cell_that_cannot_be_trained_here_says_why(catalog, keep):
    axes = [Axis(key="precision", values=("fp32", "bf16"))]

    why = why_unfit(grid_of(BASE, axes), catalog, keep(1))

    assert why == {1: "Precision is 'bf16', but A card cannot do it: it has no BF16."}


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


def test_a_damaged_file_of_forecasts_leaves_nothing_out(catalog, keep, tmp_path):
    forecasts = keep(10_000)
    (tmp_path / FILE_NAME).write_text("{", encoding="utf-8")

    assert not why_unfit(grid_of(BASE, [Axis(key="batch_size", values=(1, 2))]), catalog, forecasts)
