"""The verb `numerics`: what it finds, what it prints and saves, and what it refuses."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from engine.cli import main
from engine.store.store import Store

Capture = pytest.CaptureFixture[str]

TINY = ["--model", "small-cnn", "--dataset", "synthetic", "--image-size", "8", "--device", "cpu"]
TINY += ["--batch-size", "8", "--steps", "4", "--set", "num_classes=4", "--set", "samples=64"]
DIVERGES = ["--precision", "fp16-unscaled", "--optimizer", "sgd", "--lr", "1000"]
HERE = ["--target", "thread"]
SCRIPTED = """
import warnings

import torch
from torch import nn

def model():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nn.Sequential(nn.Flatten(), torch.jit.script(nn.Linear(64, 4)))

def batch(size):
    return torch.zeros(size, 64), torch.zeros(size, dtype=torch.long)
"""


def answer(capsys: Capture, *arguments: str, verb: str = "numerics") -> tuple[int, dict[str, Any]]:
    status = main([verb, *arguments, "--json"])
    return status, json.loads(capsys.readouterr().out)


def test_the_usual_parts_are_one_object_saved_and_exported(capsys: Capture, tmp_path: Path) -> None:
    to = tmp_path / "x.csv"
    status, found = answer(capsys, *TINY, "--precision", "bf16", "--to", str(to), *HERE)
    assert status == 0
    assert {"bfloat16"} in [set(row["outputs"]) for row in found["map"]]
    assert {row["quantity"] for row in found["range"]} == {"activation", "gradient", "weight"}
    assert found["first_nonfinite"] is None and found["ladder"] is None and found["fp32_modules"] is None
    assert found["about"]["nan"]["steps"] == 1 and isinstance(found["advice"], list)
    with Store() as store:
        (entry,) = store.studies.newest("numerics")
        parts = store.studies.find(entry.id).answer.parts
    assert (entry.id, parts) == (found["id"], ("map", "range", "nan"))
    with to.open(encoding="utf-8", newline="") as file:
        assert {row["part"] for row in csv.DictReader(file)} >= {"Ranges", "Precision map"}


def test_a_run_without_a_checkpoint_is_looked_through_from_its_start(capsys: Capture) -> None:
    status, run = answer(capsys, *TINY, *DIVERGES, *HERE, verb="run")
    assert status == 0 and run["summary"]["first_nan_step"]
    status, found = answer(capsys, "--run", run["id"], "--nan", *HERE)
    assert status == 1
    assert found["first_nonfinite"]["step"] <= run["summary"]["first_nan_step"]
    assert {"module", "operation", "direction"} <= set(found["first_nonfinite"])
    with Store() as store:
        assert store.studies.find(found["id"]).answer.run_id == run["id"]


def test_tables_are_printed_for_people(capsys: Capture) -> None:
    assert main(["numerics", *TINY, "--map", "--range", *HERE]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [title for title in ("Precision map", "Ranges", "Advice") if title in lines] == [
        *("Precision map", "Ranges", "Advice")
    ]
    assert len(lines) <= 40 and "First NaN or Inf" not in lines


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--run", "beef"], "There is no run whose id starts with 'beef'"),
        (["--run", "beef", "--model", "small-cnn"], "--run takes no others"),
        (["--precision", "fp17"], "Precision is 'fp17'"),
        (["--to", "x.docx"], "is no format of"),
        ([*TINY, "--set", "step.fp32_modules=nope", "--map", *HERE], "'nope'"),
    ],
)
def test_a_wrong_request_leaves_nothing_behind(capsys: Capture, arguments: list[str], said: str) -> None:
    status, found = answer(capsys, *arguments)
    assert status == 2 and said in found["error"]["message"]
    with Store() as store:
        assert store.studies.newest() == ()


def test_a_model_that_refuses_hooks_is_refused_by_name(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(SCRIPTED)
    status, found = answer(capsys, "--model", str(tmp_path / "net.py"), "--device", "cpu", *HERE)
    assert status == 2 and "1 is scripted, and hides its operations" in found["error"]["message"]
