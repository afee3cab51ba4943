"""Sweeps on the command line: what is printed, refused, stopped, gone on with, listed and deleted."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.cli.app import main
from engine.cli.options import parse
from engine.cli.sweep import SweepOptions, grid_from, is_sweep, parse_plan
from engine.cli.sweep_output import SweepProgress
from engine.experiment.problem import ProblemError
from engine.experiment.sweep import Grid, Plan
from engine.store.store import Store
from engine.sweep.order import SweepEvent, TurnEnded

Capture = pytest.CaptureFixture[str]

# so few steps need no pilot
TINY = ["--preset", "hello-amp", "--device", "cpu", "--steps", "2", "--target", "thread"]
NET = """
import torch
from torch import nn
def model():
    return nn.Linear({width}, 3)
def batch(size):
    return torch.zeros(size, {width}), torch.zeros(size, dtype=torch.int64)
"""
GRID = ["--sweep", "batch_size=10,20", "--sweep", "precision=fp32,bf16"]


def test_a_grid_is_one_object_is_listed_exported_and_deleted_without_its_runs(answer, tmp_path):
    status, found = answer("sweep", *TINY, *GRID, "--name", "Night")
    assert status == 0
    assert (found["name"], found["status"], found["plan"]["repeats"]) == ("Night", "finished", 1)
    assert [axis["values"] for axis in found["grid"]["axes"]] == [[10, 20], ["fp32", "bf16"]]
    assert found["grid"]["compared"] == "precision"
    last = found["cells"][-1]
    assert last["values"] == {"batch_size": 20, "precision": "bf16"} and last["status"] == "done"
    assert len({run for cell in found["cells"] for run in cell["runs"]}) == 4
    assert last["figures"]["final_train_loss"] > 0
    _, listed = answer("results", "--kind", "sweep")
    assert [(sweep["id"], sweep["status"]) for sweep in listed["sweeps"]] == [(found["id"], "finished")]
    status, refused = answer("resume", found["id"][:8])
    assert status == 2 and refused["error"]["message"] == "Night is complete."
    table = tmp_path / "night.csv"
    assert answer("export", found["id"][:8], "--to", str(table))[0] == 0
    assert len(table.read_text(encoding="utf-8").splitlines()) == 5
    for wrong in (["--plot", "loss", "--to", "x.png"], ["--to", "x.webp"]):
        assert answer("export", found["id"], *wrong)[0] == 2
    assert answer("delete", " ")[0] == 2
    twice = [found["id"], found["id"][:8]]
    assert answer("delete", *twice) == (0, {"deleted": [found["id"]]})
    with Store() as store:
        assert store.sweeps.newest() == () and len(store.runs()) == 4


def test_ctrl_c_stops_a_sweep_which_then_goes_on_to_its_end(answer, capsys, monkeypatch):
    show = SweepProgress.show

    def interrupted(progress: SweepProgress, event: SweepEvent) -> None:
        show(progress, event)
        if isinstance(event, TurnEnded):
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as once:
        once.setattr(SweepProgress, "show", interrupted)
        assert main(["compare", *TINY, *GRID]) == 130
    said = capsys.readouterr().out
    with Store() as store:
        (record,) = store.sweeps.newest()
        assert 1 <= len(store.runs()) < 4 and record.ended is None
    assert f"Resume it with `ammeter resume {record.id}`." in said
    with Store() as store:
        store.sweeps.claim(record.id)
        assert main(["show", record.id]) == 0
        store.sweeps.release(record.id)
    said = capsys.readouterr().out
    assert said.endswith("The sweep is running.\n") and "resume" not in said
    status, found = answer("resume", record.id[:6], "--target", "thread")
    assert (status, found["id"], found["status"]) == (0, record.id, "finished")
    assert [(cell["status"], len(cell["runs"])) for cell in found["cells"]] == [("done", 1)] * 4


def test_a_dry_run_says_what_would_be_trained_and_trains_nothing(answer, capsys):
    status, found = answer("compare", *TINY, *GRID, "--repeats", "3", "--dry-run")
    assert (status, found["runs"], found["seconds"]) == (0, 12, None)
    assert [cell["status"] for cell in found["cells"]] == ["waiting"] * 4
    cap = ["--sweep", "device=cpu,cuda:7", "--dry-run"]
    assert main(["compare", *TINY, *cap]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split()[:2] == ["cuda:7", "no:"] and lines[-2] == "2 combinations, 1 run."
    with Store() as store:
        assert store.sweeps.newest() == () and store.runs() == ()


def test_model_files_of_ones_own_are_swept_with_their_code(answer, tmp_path):
    for folder, width in (("narrow", 2), ("wide", 4)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "net.py").write_text(NET.format(width=width), encoding="utf-8")
    paths = [str(tmp_path / folder / "net.py") for folder in ("narrow", "wide")]
    swept = ["--sweep", f"model={','.join(paths)}", "--steps", "1", "--device", "cpu", "--target", "thread"]
    status, found = answer("compare", *swept, "--time-limit", "1h")
    assert status == 0 and [cell["status"] for cell in found["cells"]] == ["done", "done"]
    with Store() as store:
        codes = [run.experiment.own_code for run in reversed(store.runs())]
    assert [code.text.count("Linear(4") for code in codes if code is not None] == [0, 1]


def grid(
    swept: Sequence[str] = (), *, precisions: Sequence[str] = (), on_gpu: bool = False, **options: Any
) -> Grid:
    return grid_from(
        parse({"sweep": None, **options}), SweepOptions(precisions, swept, Plan()), on_gpu=on_gpu
    )


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "grid.toml"
    path.write_text("steps = 5\n[sweep]\nbatch_size = [8, 16]\nseed = [1, 2, 3]\n", encoding="utf-8")
    return str(path)


SIZES, PRECISIONS, BOTH = {"batch_size": (32, 64)}, {"precision": ("fp32", "bf16")}, ["fp32", "bf16"]


@pytest.mark.parametrize(
    ("swept", "options", "axes", "fixed"),
    [
        (["batch_size=32,64", "precision=fp32,bf16"], {}, {**SIZES, **PRECISIONS}, {}),
        # several precisions are the first axis, and one is a setting
        (["batch_size=32,64"], {"precisions": BOTH}, {**PRECISIONS, **SIZES}, {}),
        (["batch_size=32,64"], {"precisions": ["bf16"]}, SIZES, {"precision": "bf16"}),
        # a flag replaces the axis of a file, and a setting ends it
        (["seed=7,8"], {"config": True}, {"batch_size": (8, 16), "seed": (7, 8)}, {"steps": 5}),
        ([], {"config": True, "batch_size": "64"}, {"seed": (1, 2, 3)}, {"batch_size": 64}),
        (["seed=1,2"], {"preset": "fashion"}, {"variant": ("FP32", "BF16 AMP"), "seed": (1, 2)}, {}),
        (["precision=fp32,bf16"], {"preset": "fashion"}, PRECISIONS, {}),
        (
            [],
            {"preset": "batch-sweep", "set_": ["precision=bf16"]},
            {"batch_size": (32, 64, 128)},
            {"precision": "bf16"},
        ),
        ([], {}, PRECISIONS, {}),
    ],
)
def test_flags_files_and_presets_become_axes_in_their_order(
    config: str,
    swept: list[str],
    options: dict[str, Any],
    axes: dict[str, tuple[object, ...]],
    fixed: dict[str, object],
) -> None:
    found = grid(swept, **(options | {"config": config} if "config" in options else options))
    assert [(axis.key, axis.values) for axis in found.axes] == list(axes.items())
    if "precision" in axes:
        assert found.axes[found.compared].key == "precision"
    for cell in found.cells:
        settings = cell.experiment.model_dump()
        assert all(settings[key] == value for key, value in fixed.items())


def test_a_comparison_is_a_sweep_where_settings_are_swept_or_a_plan_asks_for_more(config: str) -> None:
    plain = SweepOptions((), (), Plan(repeats=3))
    assert is_sweep(parse({"sweep": None, "config": config}), plain) and is_sweep(
        parse({"preset": "batch-sweep"}), plain
    )
    assert is_sweep(parse({}), SweepOptions((), ("seed=1,2",), Plan())) and not is_sweep(parse({}), plain)
    assert is_sweep(parse({}), SweepOptions((), (), Plan(precision_percent=2)))


def test_a_file_with_a_sweep_is_refused_where_nothing_is_swept(config: str) -> None:
    with pytest.raises(ProblemError, match=r"grid.toml has a table \[sweep\], which only `ammeter sweep`"):
        parse({"config": config})


@pytest.mark.parametrize(
    ("swept", "options", "words"),
    [
        (["batch_size=8,16"], {"preset": "resnet50-memory"}, "the variants of the preset also set it"),
        (["precision=fp32"], {"precisions": ["fp32", "bf16"]}, "is given by --precision and by --sweep"),
        (["model=nowhere/net.py,small-cnn"], {}, "net.py does not exist"),
    ],
)
def test_a_grid_that_cannot_be_is_refused(swept: list[str], options: dict[str, Any], words: str) -> None:
    with pytest.raises(ProblemError, match=words):
        grid(swept, **options)


def test_a_plan_is_read_from_percents_and_times() -> None:
    assert parse_plan(3, "2%", "1h30m") == Plan(repeats=3, precision_percent=2, time_limit_seconds=5_400)
    assert parse_plan(1, "0.5%", "45s").time_limit_seconds == 45
    assert parse_plan(1, "", "") == Plan()


@pytest.mark.parametrize(
    ("to_within", "limit"),
    [("x", ""), ("0%", ""), ("101", ""), ("", "8"), ("", "0h"), ("", "h"), ("", "9999999999h"), ("", " ")],
)
def test_a_wrong_plan_is_refused(to_within: str, limit: str) -> None:
    with pytest.raises(ProblemError, match=r"--(to-within|time-limit) is '.*', but it must be"):
        parse_plan(1, to_within, limit)
