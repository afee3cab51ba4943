"""Sweeps on the command line: what is printed, refused, stopped, gone on with, listed and deleted."""

from __future__ import annotations

import signal

import pytest

from engine.cli import main
from engine.cli.sweep_output import SweepProgress, not_reached
from engine.experiment.repeats import Plan
from engine.store.store import Store
from engine.sweep.order import SweepEvent, TurnEnded
from tests.sweeps import small_results

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
    assert list(found) == [
        "id", "name", "status", "created", "ammeter", "device_name", "plan", "spent_seconds", "grid", "cells",
    ]  # fmt: skip
    assert (found["name"], found["status"], found["plan"]["repeats"]) == ("Night", "finished", 1)
    assert [axis["values"] for axis in found["grid"]["axes"]] == [[10, 20], ["fp32", "bf16"]]
    assert found["grid"]["compared"] == "precision"
    last = found["cells"][-1]
    assert list(last) == [
        "index", "name", "values", "status", "reason", "runs", "figures", "figures_ci", "ratio", "ratio_ci",
        "clean", "ratio_clean",
    ]  # fmt: skip
    assert last["values"] == {"batch_size": 20, "precision": "bf16"} and last["status"] == "done"
    assert len({run for cell in found["cells"] for run in cell["runs"]}) == 4
    assert last["figures"]["final_train_loss"] > 0
    _, listed = answer("sweeps")
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
    assert f"`ammeter resume {record.id}` goes on with it." in said
    status, found = answer("resume", record.id[:6], "--target", "thread")
    assert (status, found["id"], found["status"]) == (0, record.id, "finished")
    assert [(cell["status"], len(cell["runs"])) for cell in found["cells"]] == [("done", 1)] * 4


def test_cells_that_are_less_certain_than_was_wanted_are_named() -> None:
    assert not [
        *not_reached(Plan(), small_results()),
        *not_reached(Plan(precision_percent=4), small_results()),
    ]
    (sentence,) = not_reached(Plan(precision_percent=2), small_results())
    assert sentence.startswith("Not known to within 2 %: BF16 AMP, batch size 32, learning rate 0.001; BF16")
    assert sentence.count(";") == 4


def test_the_mark_of_a_disturbed_cell_is_explained_below_the_table(capsys, tmp_path, monkeypatch):
    heat = ("throttled", "was disturbed: the card's clocks were held down by heat")
    monkeypatch.setattr("engine.compare.evidence.about_machine", lambda summary: [heat])
    # enough steps for a speed
    assert main(["compare", *TINY, *GRID, "--set", "measure.block_steps=1", "--steps", "15"]) == 0
    lines = capsys.readouterr().out.splitlines()
    mark = "* measured while the machine was disturbed: nothing follows from it."
    assert lines.count(mark) == 1 and sum("*" in line for line in lines) == 1 + 4
    assert not any("fastest cell" in line or "gains most" in line for line in lines)
    with Store() as store:
        (record,) = store.sweeps.newest()
    main(["export", record.id, "--to", str(tmp_path / "x.md")])
    assert f"\\{mark}" in (tmp_path / "x.md").read_text(encoding="utf-8")


def test_a_dry_run_says_what_would_be_trained_and_trains_nothing(answer, capsys):
    status, found = answer("compare", *TINY, *GRID, "--repeats", "3", "--dry-run")
    assert (status, found["runs"], found["seconds"]) == (0, 12, None)
    assert [cell["status"] for cell in found["cells"]] == ["waiting"] * 4
    cap = ["--sweep", "device=cpu,cuda:7", "--dry-run"]
    assert main(["compare", *TINY, *cap]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split()[:2] == ["cuda:7", "no:"] and lines[-2] == "2 cells, 1 run."
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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--sweep", "batch_size="], "Batch size is swept, but has no values."),
        (["--sweep", "batch_size=8,8"], "Batch size has the value 8 twice."),
        (["--sweep", "batch_size=8,x"], "The cell batch size x cannot be trained: Batch size is 'x'"),
        (["--sweep", "bach=8"], "There is no setting named 'bach'."),
        (["--sweep", "seed=1,2", "--to-within", "0"], "--to-within is '0'"),
        (["--sweep", "seed=1,2", "--time-limit", "soon"], "--time-limit is 'soon'"),
        (["--sweep", "seed=1,2", "--published"], "A sweep is not compared with published figures."),
    ],
)
def test_a_wrong_sweep_is_refused_before_anything_runs(answer, arguments, words):
    status, found = answer("compare", *TINY, *arguments)
    assert status == 2 and words in found["error"]["message"]
    with Store() as store:
        assert store.sweeps.newest() == () and store.runs() == ()
