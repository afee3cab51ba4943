"""What is swept, as it is written in TOML and on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.experiment.presets import broken_presets, own_presets_folder, parse_toml, preset, save_own
from engine.experiment.problem import ProblemError
from engine.experiment.sweep import (
    VARIANT,
    axes_of,
    grid_of,
    values_of_table,
    values_of_text,
    values_of_texts,
)


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
        ({"batch_size": [{"a": 1}]}, "which is no value of Batch size"),
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


def test_a_preset_with_a_value_that_does_not_validate_is_broken() -> None:
    own_presets_folder().mkdir(parents=True)
    text = 'title = "Bad"\n[experiment]\nmodel = "small-cnn"\n[sweep]\nbatch_size = [32, -1]\n'
    (own_presets_folder() / "bad.toml").write_text(text, encoding="utf-8")
    (problem,) = broken_presets()
    assert "The cell batch size -1 cannot be trained" in problem.message
