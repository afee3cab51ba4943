"""The observer's files are read as they grow, and nothing in them is trusted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.experiment.catalog import Precision
from engine.worker.script.reading import Begin, Reader, Steps

BEGIN: dict[str, Any] = {"kind": "begin", "pid": 7, "python": "3.12.1", "torch": "2.10.0", "device": "cpu"}
STEPS: dict[str, Any] = {
    "kind": "steps",
    "step": [1, 2],
    "seconds": [0.1, 0.2],
    "loss": [1.0, "NaN"],
    "learning_rate": [0.1, 0.1],
}


def write(folder: Path, name: str, *lines: object) -> None:
    with (folder / f"{name}.jsonl").open("a") as file:
        file.writelines(line if isinstance(line, str) else f"{json.dumps(line)}\n" for line in lines)


def test_lines_come_once_they_are_whole_and_steps_after_the_start(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    assert list(reader.read()) == []
    write(tmp_path, "7", STEPS)
    assert list(reader.read()) == []
    text = json.dumps(BEGIN)
    write(tmp_path, "7", text[:20])
    assert list(reader.read()) == []
    write(tmp_path, "7", f"{text[20:]}\n")
    begin, steps = reader.read()
    assert isinstance(begin, Begin) and isinstance(steps, Steps)
    assert steps.loss[1] != steps.loss[1] and reader.main == "7"
    write(tmp_path, "7", {**STEPS, "step": [3, 4]})
    assert [line.step for line in reader.read() if isinstance(line, Steps)] == [(3, 4)]


def test_the_first_process_of_rank_0_is_the_run(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    write(tmp_path, "1", {**BEGIN, "rank": 1, "world_size": 2}, STEPS)
    assert list(reader.read()) == [] and reader.main is None
    write(tmp_path, "2", {**BEGIN, "world_size": 2, "batch_size": 4}, STEPS)
    write(tmp_path, "3", BEGIN, STEPS)
    begin, _ = reader.read()
    assert isinstance(begin, Begin) and reader.main == "2"
    assert begin.observed.processes == 2 and begin.observed.batch_size == 4
    assert len(reader.processes) == 3


@pytest.mark.parametrize(
    "line",
    [
        "not JSON\n",
        "[]\n",
        '{"kind": "finished"}\n',
        {**STEPS, "loss": [1.0]},
        {**STEPS, "seconds": [-1.0, 0.0]},
        {**STEPS, "seconds": ["NaN", 0.0]},
        {**STEPS, "step": []},
        {**BEGIN, "extra": 1},
        {**BEGIN, "world_size": 0},
        {**BEGIN, "layers": {"float32": 2.0}},
    ],
)
def test_any_other_line_is_passed_over_and_told(tmp_path: Path, line: object) -> None:
    reader = Reader(tmp_path)
    write(tmp_path, "9", line, BEGIN)
    assert [type(each) for each in reader.read()] == [Begin]
    assert reader.problems == ["Process 9 wrote a line that is not the observer's."]


def test_an_error_of_the_observer_is_told(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    trouble = {"kind": "problem", "message": "no\x1b[31m such\nthing"}
    write(tmp_path, "9", trouble)
    assert list(reader.read()) == []
    (problem,) = reader.problems
    assert problem.startswith("The observer failed in process 9: no") and "\x1b" not in problem


@pytest.mark.parametrize(
    ("device", "setting"), [("cpu", "cpu"), ("cuda:1", "cuda:1"), ("hpu:0", "auto"), ("cuda:9999", "auto")]
)
def test_another_kind_of_device_is_no_setting(device: str, setting: str) -> None:
    assert Begin.model_validate({**BEGIN, "device": device}).setting == setting


@pytest.mark.parametrize(
    ("seen", "precision"),
    [
        ({}, Precision.FP32),
        ({"autocast": "bfloat16", "layers": {"bfloat16": 0.9, "float32": 0.1}}, Precision.BF16),
        ({"autocast": "bfloat16", "layers": {"float32": 1.0}}, Precision.FP32),
        ({"autocast": "bfloat16", "is_compiled": True}, Precision.BF16),
        ({"autocast": "float16", "layers": {"float16": 1.0}, "has_scaler": True}, Precision.FP16),
        ({"autocast": "float16", "layers": {"float16": 1.0}}, Precision.FP16_UNSCALED),
        ({"parameters": {"bfloat16": 90, "float32": 10}}, Precision.BF16_PURE),
        ({"device": "cuda:0", "tf32_matmuls": True, "tf32_convolutions": True}, Precision.TF32),
        ({"device": "cuda:0", "tf32_matmuls": False, "tf32_convolutions": True}, Precision.DEFAULT),
        ({"device": "cuda:0", "tf32_matmuls": False, "tf32_convolutions": False}, Precision.FP32),
        ({"device": "cpu", "tf32_matmuls": True}, Precision.FP32),
    ],
)
def test_the_precision_is_that_in_which_its_layers_ran(seen: dict[str, Any], precision: Precision) -> None:
    assert Begin.model_validate({**BEGIN, **seen}).precision is precision
