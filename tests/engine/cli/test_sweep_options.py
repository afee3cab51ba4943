"""The grid and the plan that the options of a sweep stand for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.cli.options import asked
from engine.cli.sweep import Request, grid_from, is_sweep, plan_from
from engine.experiment.problem import ProblemError
from engine.experiment.repeats import Plan
from engine.experiment.sweep import Grid


def grid(
    swept: Sequence[str] = (), *, precisions: Sequence[str] = (), on_gpu: bool = False, **options: Any
) -> Grid:
    return grid_from(asked({"sweep": None, **options}), Request(precisions, swept, Plan()), on_gpu=on_gpu)


def axes(found: Grid) -> dict[str, tuple[object, ...]]:
    return {axis.key: axis.values for axis in found.axes}


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "grid.toml"
    path.write_text("steps = 5\n[sweep]\nbatch_size = [8, 16]\nseed = [1, 2, 3]\n", encoding="utf-8")
    return str(path)


def test_flags_become_axes_in_their_order() -> None:
    found = grid(["batch_size=32,64", "precision=fp32,bf16"])
    assert axes(found) == {"batch_size": (32, 64), "precision": ("fp32", "bf16")}
    assert found.size == 4 and found.axes[found.compared].key == "precision"


def test_several_precisions_are_the_first_axis_and_one_is_a_setting() -> None:
    assert list(axes(grid(["batch_size=32,64"], precisions=["fp32", "bf16"]))) == ["precision", "batch_size"]
    cells = grid(["batch_size=32,64"], precisions=["bf16"]).cells
    assert [cell.experiment.precision.value for cell in cells] == ["bf16", "bf16"]


def test_a_flag_replaces_the_axis_of_the_file_and_a_setting_ends_it(config: str) -> None:
    assert axes(grid(["seed=7,8"], config=config)) == {"batch_size": (8, 16), "seed": (7, 8)}
    fixed = grid(config=config, batch_size="64")
    assert axes(fixed) == {"seed": (1, 2, 3)}
    assert {cell.experiment.batch_size for cell in fixed.cells} == {64}


def test_a_comparison_is_a_sweep_where_settings_are_swept_or_a_plan_asks_for_more(config: str) -> None:
    plain = Request((), (), Plan(repeats=3))
    assert is_sweep(asked({"sweep": None, "config": config}), plain) and is_sweep(
        asked({"preset": "batch-sweep"}), plain
    )
    assert is_sweep(asked({}), Request((), ("seed=1,2",), Plan())) and not is_sweep(asked({}), plain)
    assert is_sweep(asked({}), Request((), (), Plan(precision_percent=2)))


def test_a_file_with_a_sweep_is_refused_where_nothing_is_swept(config: str) -> None:
    with pytest.raises(ProblemError, match=r"grid.toml has a table \[sweep\], which only `ammeter sweep`"):
        asked({"config": config})


def test_a_presets_variants_and_sweep_are_axes() -> None:
    assert list(axes(grid(["seed=1,2"], preset="fashion"))) == ["variant", "seed"]
    assert axes(grid(["precision=fp32,tf32"], preset="fashion")) == {"precision": ("fp32", "tf32")}
    swept = grid(preset="batch-sweep", set_=["precision=bf16"])
    assert axes(swept) == {"batch_size": (32, 64, 128)}
    assert axes(grid()) == {"precision": ("fp32", "bf16")}


@pytest.mark.parametrize(
    ("swept", "options", "words"),
    [
        (["batch_size=32,0"], {}, "The cell batch size 0 cannot be trained: Batch size is"),
        (["precision=fp32,fp99"], {}, "The cell fp99 cannot be trained: Precision is 'fp99'"),
        (["batch_size=32,32"], {}, "Batch size has the value 32 twice."),
        (["nope=1"], {}, "There is no setting named 'nope'."),
        (["seed=1,2", "seed=3"], {}, "Seed is swept twice."),
        (["batch_size=8,16"], {"preset": "resnet50-memory"}, "the variants of the preset set it themselves"),
        (["precision=fp32"], {"precisions": ["fp32", "bf16"]}, "is given by --precision and by --sweep"),
        ([f"seed={','.join(map(str, range(5_001)))}", "batch_size=1,2"], {}, "10,002 cells, but it can have"),
        (["model=nowhere/net.py,small-cnn"], {}, "net.py does not exist"),
    ],
)
def test_a_grid_that_cannot_be_is_refused(swept: list[str], options: dict[str, Any], words: str) -> None:
    with pytest.raises(ProblemError, match=words):
        grid(swept, **options)


def test_a_plan_is_read_from_percents_and_times() -> None:
    assert plan_from(3, "2%", "1h30m") == Plan(repeats=3, precision_percent=2, time_limit_seconds=5_400)
    assert plan_from(1, "0.5 %", "45s").time_limit_seconds == 45
    assert plan_from(1, "", "") == Plan()


@pytest.mark.parametrize(
    ("to_within", "limit"),
    [("x", ""), ("0%", ""), ("101", ""), ("", "8"), ("", "0h"), ("", "h"), ("", "9999999999h"), ("", " ")],
)
def test_a_wrong_plan_is_refused(to_within: str, limit: str) -> None:
    with pytest.raises(ProblemError, match=r"--(to-within|time-limit) is '.*', but it must be"):
        plan_from(1, to_within, limit)
