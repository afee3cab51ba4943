"""Sweeps as they are written, their grids, and repeats that take turns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.experiment.experiment import Experiment, Precision
from engine.experiment.presets import parse_toml, preset, save_own
from engine.experiment.problem import ProblemError
from engine.experiment.sweep import (
    VARIANT,
    Axis,
    Grid,
    alternating_turns,
    axes_of,
    grid_of,
    values_of_table,
    values_of_text,
    values_of_texts,
)
from tests.engine.experiment.test_checks import cards
from tests.sweeps import small_grid


def test_commas_part_values_and_semicolons_those_that_contain_commas() -> None:
    assert values_of_text("batch_size=32, 64") == ("batch_size", ("32", "64"))
    key, values = values_of_text("overrides=hidden_size=64,num_hidden_layers=2;hidden_size=128")
    assert (key, values) == ("overrides", ("hidden_size=64,num_hidden_layers=2", "hidden_size=128"))
    assert values_of_text("optimizer.learning_rate=0.1")[1] == ("0.1",)


def test_a_table_has_nested_and_dotted_settings() -> None:
    table = parse_toml(
        'batch_size = [32, 64]\noptimizer.learning_rate = [0.1]\n"step.recipe" = ["fast"]', "x"
    )
    assert values_of_table(table) == {
        "batch_size": (32, 64),
        "optimizer.learning_rate": (0.1,),
        "step.recipe": ("fast",),
    }


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["batch_size"], "--sweep is 'batch_size', but it must be KEY=VALUES."),
        (["batch_size="], "Batch size is swept, but has no values."),
        (["batch_size=32,,64"], "Batch size has an empty value among 32,,64."),
        (["batch_size=1", "batch_size=2"], "Batch size is swept twice."),
        (["batchsize=1,2"], "There is no setting named 'batchsize'."),
        (["seed=" + ",".join(map(str, range(10_001)))], "Seed has 10,001 values"),
    ],
)
def test_wrong_texts_are_refused(texts: list[str], words: str) -> None:
    with pytest.raises(ProblemError, match=words.replace("(", r"\(")):
        values_of_texts(texts)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("batch_size", "sweep is batch_size, but it must be a table"),
        ({"batch_size": 32}, "Batch size is swept over 32, which must be a list"),
        ({"batch_size": []}, "Batch size is swept, but has no values."),
        ({"batch_size": [{"a": 1}]}, "which is not a value of Batch size"),
        ({"optimizer": {"rate": [1]}}, "There is no setting named 'optimizer.rate'."),
    ],
)
def test_wrong_tables_are_refused(table: Any, words: str) -> None:
    with pytest.raises(ProblemError, match=words):
        values_of_table(table)


def test_models_of_ones_own_bring_their_code(tmp_path: Path) -> None:
    names = []
    for folder, width in (("one", 8), ("two", 16)):
        path = tmp_path / folder / "net.py"
        path.parent.mkdir()
        path.write_text(f"WIDTH = {width}\ndef model(): ...\ndef batch(): ...\n", encoding="utf-8")
        names.append(str(path))
    (axis,) = axes_of({"model": (*names, "small-cnn")})
    one, two, built_in = (cell.experiment for cell in grid_of({"dataset": "fashion"}, [axis]).cells)
    assert one.own_code is not None and two.own_code is not None and built_in.own_code is None
    assert "WIDTH = 16" in two.own_code.text and one.own_code != two.own_code
    assert (one.dataset, built_in.dataset) == ("own", "fashion")


def test_a_preset_sweeps_its_variants_and_its_settings() -> None:
    assert [axis.key for axis in preset("batch-sweep").axes(has_gpu=False)] == ["precision", "batch_size"]
    assert preset("batch-sweep").sweep_for(has_gpu=False)["precision"] == ("fp32", "bf16")
    saved = preset("fashion")
    experiment = saved.experiments(has_gpu=False)[0][1]
    own = save_own("Rates", experiment, saved.variants, sweep={"optimizer.learning_rate": (0.1, 0.01)})
    assert own == preset("rates")
    variant, rate = own.axes(has_gpu=False)
    assert (variant.key, variant.values) == (VARIANT, ("FP32", "FP16 AMP"))
    assert rate.values == (0.1, 0.01)


def test_the_last_axis_varies_fastest_and_every_cell_is_an_experiment() -> None:
    grid = small_grid()
    rates = [cell.experiment.optimizer.learning_rate for cell in grid.cells]
    assert grid.size == len(grid.cells) == 12
    assert rates[:3] == [0.001, 0.01, 0.001]
    assert [cell.index for cell in grid.cells] == [grid.index(cell.places) for cell in grid.cells]


def test_a_cell_has_a_name_and_is_compared_with_the_first_precision_at_its_other_values() -> None:
    grid = small_grid()
    cell = grid.cells[9]
    baseline = grid.baseline(cell)
    assert cell.experiment.precision is Precision.BF16
    assert baseline.experiment == cell.experiment.model_copy(update={"precision": Precision.FP32})
    grid = small_grid()
    assert grid.name(grid.cells[-1].places) == "BF16 AMP, batch size 128, learning rate 0.01"
    grid = grid_of({}, [Axis(key="batch_size", values=("32", "64"))])
    assert grid.axes[0].values == (32, 64)


def test_variants_bring_several_settings_each() -> None:
    overrides = ({"precision": "fp32"}, {"precision": "bf16", "batch_size": 128})
    grid = grid_of({}, [Axis(key=VARIANT, values=("FP32", "BF16 at 128"), overrides=overrides)])
    assert grid.cells[1].experiment.batch_size == 128
    assert grid.name((1,)) == "BF16 at 128"
    grid = small_grid()
    assert Grid.model_validate_json(grid.model_dump_json()) == grid


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        ([("batch_size", ("32", "x"))], "The combination batch size x cannot be trained: Batch size is 'x'"),
        ([("batch_size", ("32", "32.0"))], "Batch size has the value 32.0 twice."),
        (
            [("batch_size", tuple(range(1, 102))), ("seed", tuple(range(100)))],
            "The sweep would have 10,100 combinations, but the maximum is 10,000.",
        ),
    ],
)
def test_a_wrong_grid_is_refused_in_a_sentence(axes, words):
    with pytest.raises(ProblemError) as caught:
        grid_of({}, [Axis(key=key, values=values) for key, values in axes])
    assert words in caught.value.problem.message


A = ("A", Experiment(seed=7))
B = ("B", Experiment(seed=7, precision=Precision.FP16))
C = ("C", Experiment(seed=9, precision=Precision.BF16))


def test_each_repeat_goes_the_other_way_round_with_the_next_seed() -> None:
    turns = alternating_turns((A, B, C), 3)
    assert [turn.label for turn in turns] == ["A", "B", "C", "C", "B", "A", "A", "B", "C"]
    assert [turn.experiment.seed for turn in turns] == [7, 7, 9, 10, 8, 8, 9, 9, 11]
    assert [(turn.repeat, turn.repeats) for turn in turns[::3]] == [(1, 3), (2, 3), (3, 3)]
    assert turns[4].experiment == B[1].model_copy(update={"seed": 8})
    assert [(turn.label, turn.experiment) for turn in alternating_turns((A, B))] == [A, B]


def test_runs_of_one_name_are_told_apart_by_what_there_are_several_of() -> None:
    assert [turn.name("Old") for turn in alternating_turns((A, B))] == ["Old, A", "Old, B"]
    assert [turn.name("Old") for turn in alternating_turns((A, B), 2)][2] == "Old, B, repeat 2"
    assert alternating_turns((A,), 2)[1].name("Old", is_alone=True) == "Old, repeat 2"
    assert alternating_turns((A,))[0].name("Old", is_alone=True) == "Old"
    assert alternating_turns((A,), 2)[0].name(None) is None and alternating_turns((A,), 2)[0].name("") is None


def test_seeds_must_not_run_out() -> None:
    last = ("A", Experiment(seed=2**63 - 2))
    assert alternating_turns((last,), 2)[1].experiment.seed == 2**63 - 1
    with pytest.raises(ProblemError, match="Seed is 9223372036854775806, but 3 repeats") as refused:
        alternating_turns((B, last), 3)
    assert refused.value.problem.key == "seed"


@pytest.mark.parametrize(("given", "counts"), [("1,2,all", (1, 2)), ("all,1,2", (2, 1)), ("all", (2,))])
def test_all_devices_are_as_many_as_the_machine_has_and_counted_once(
    given: str, counts: tuple[int, ...]
) -> None:
    axes = axes_of(values_of_texts([f"devices={given}"]))
    grid = grid_of({"device": "auto"}, axes, cards("cuda", 2))
    assert grid.axes[0].values == counts
    assert [cell.experiment.devices for cell in grid.cells] == list(counts)
    anywhere = grid_of({}, axes)
    names = {anywhere.name(cell.places) for cell in anywhere.cells}
    assert names == {"all devices", "1 device", "2 devices"} or (names, given) == ({"all devices"}, "all")


def test_of_several_first_devices_each_has_its_own_all() -> None:
    axes = axes_of(values_of_texts(["device=cuda:0,cuda:1", "devices=1,all"]))
    assert grid_of({}, axes, cards("cuda", 2)).axes[1].values == (1, 0)
