from __future__ import annotations

import pytest

from engine.experiment.experiment import Precision
from engine.experiment.problem import ProblemError
from engine.experiment.sweep import VARIANT, Axis, Grid, grid_of
from tests.sweeps import small_grid


def test_the_last_axis_varies_fastest_and_every_cell_is_an_experiment() -> None:
    grid = small_grid()
    rates = [cell.experiment.optimizer.learning_rate for cell in grid.cells]
    assert grid.size == len(grid.cells) == 12
    assert rates[:3] == [0.001, 0.01, 0.001]
    assert [cell.index for cell in grid.cells] == [grid.index(cell.places) for cell in grid.cells]


def test_a_cell_is_compared_with_the_first_precision_at_its_other_values() -> None:
    grid = small_grid()
    cell = grid.cells[9]
    baseline = grid.baseline(cell)
    assert cell.experiment.precision is Precision.BF16
    assert baseline.experiment == cell.experiment.model_copy(update={"precision": Precision.FP32})


def test_a_cell_is_named_by_its_values() -> None:
    grid = small_grid()
    assert grid.name(grid.cells[-1].places) == "BF16 AMP, batch size 128, learning rate 0.01"


def test_values_given_as_text_become_the_settings_own() -> None:
    grid = grid_of({}, [Axis(key="batch_size", values=("32", "64"))])
    assert grid.axes[0].values == (32, 64)


def test_variants_bring_several_settings_each() -> None:
    overrides = ({"precision": "fp32"}, {"precision": "bf16", "batch_size": 128})
    grid = grid_of({}, [Axis(key=VARIANT, values=("FP32", "BF16 at 128"), overrides=overrides)])
    assert grid.cells[1].experiment.batch_size == 128
    assert grid.name((1,)) == "BF16 at 128"


def test_a_grid_survives_json() -> None:
    grid = small_grid()
    assert Grid.model_validate_json(grid.model_dump_json()) == grid


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        ([("batch_size", ("32", "x"))], "The cell batch size x cannot be trained: Batch size is 'x'"),
        ([("batch_size", ("32", "32.0"))], "Batch size has the value 32.0 twice."),
        ([("bach_size", (32, 64))], "There is no setting named 'bach_size'."),
        (
            [("batch_size", tuple(range(1, 102))), ("seed", tuple(range(100)))],
            "The sweep would have 10,100 cells, but it can have at most 10,000.",
        ),
    ],
)
def test_a_wrong_grid_is_refused_in_a_sentence(axes, words):
    with pytest.raises(ProblemError) as caught:
        grid_of({}, [Axis(key=key, values=values) for key, values in axes])
    assert words in caught.value.problem.message
