"""What a run computed in is a row, and a caution where it contradicts the precision's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from engine.compare.comparison import Comparison, compare
from engine.compare.details import details_of
from engine.compare.evidence import Evidence
from engine.experiment.experiment import Experiment, Precision, experiment_from
from engine.store.record import RunRecord

Record = Callable[..., RunRecord]
OF_WORK = "of the FLOPs of matmuls and convolutions ran in"
ATTENTION = {"flash": [{"kernel": "flash", "dtype": "bfloat16", "calls": 12}]}
ATTENTION["math"] = [{**ATTENTION["flash"][0], "kernel": "math", "dtype": "float32"}]


def compared(*runs: RunRecord) -> Comparison:
    return compare([Evidence(run, np.ones(9), ()) for run in runs])


def doubts(*runs: RunRecord) -> list[str]:
    return [doubt.sentence for doubt in compared(*runs).reports[-1].doubts]


@pytest.mark.parametrize(
    ("precision", "figures", "sentence"),
    [
        ("bf16", {"formats": {"bfloat16": 0.97, "float32": 0.03}}, ""),
        ("bf16", {"formats": {"float32": 1.0}}, f"BF16 AMP: 0% {OF_WORK} bfloat16."),
        (
            "bf16",
            {"formats": {"float32": 1.0}, "formats_reason": "line 12 of net.py turns autocast off"},
            f"BF16 AMP: 0% {OF_WORK} bfloat16, because line 12 of net.py turns autocast off.",
        ),
        ("fp16", {"formats": {"bfloat16": 1.0}}, f"FP16 AMP: 0% {OF_WORK} float16."),
        ("fp16-unscaled", {"formats": {"float16": 0.6, "float32": 0.4}}, ""),
        ("bf16-pure", {"formats": {"bfloat16": 1.0}}, ""),
        ("fp8", {"formats": {"float8": 0.3, "bfloat16": 0.7}}, ""),
        ("fp8", {"formats": {"float32": 0.8, "float8": 0.2}}, f"FP8: 20% {OF_WORK} float8 or bfloat16."),
        ("tf32", {"formats": {"float32": 0.5, "float64": 0.5}}, ""),
        ("fp32", {"formats": {"float32": 0.95, "bfloat16": 0.05}}, ""),
        ("fp32", {"formats": {"bfloat16": 1.0}}, f"FP32: 100% {OF_WORK} bfloat16."),
        ("fp32", {}, ""),
    ],
)
def test_formats_that_contradict_the_precision_are_a_caution(
    record: Record, precision: str, figures: dict[str, Any], sentence: str
) -> None:
    run = record(1, Experiment(precision=Precision(precision)), samples_per_second=9.0, **figures)
    assert doubts(run) == ([sentence] if sentence else [])
    details = dict(pair for _, rows in details_of(run) for pair in rows)
    assert details.get("Caution", "") == sentence.partition(": ")[2]


def test_formats_are_a_row_where_they_differ_and_else_in_the_line(record: Record) -> None:
    runs = [
        record(number, Experiment(precision=precision), formats={dtype: 0.998, "float64": 0.002})
        for number, (precision, dtype) in enumerate(
            [(Precision.FP32, "float32"), (Precision.BF16, "bfloat16")], 1
        )
    ]
    (row,) = compared(*runs).observed
    assert (row.metric.title, [cell.text for cell in row.cells]) == (
        "Matmuls and convolutions",
        ["100% in float32", "100% in bfloat16"],
    )
    assert compared(runs[0]).same == "matmul FLOPs 100% in float32"


@pytest.mark.parametrize(
    ("other", "kernel", "told"),
    [
        ({"step": {"attention": "flash"}}, "flash", ["Attention kernels: flash for {0}, math for {1}."]),
        ({}, "math", []),
        # a precision chooses its kernel, which a row of the table shows
        ({"precision": "bf16"}, "flash", []),
    ],
)
def test_other_attention_kernels_are_told_for_one_precision(
    record: Record, other: dict[str, Any], kernel: str, told: list[str]
) -> None:
    base = experiment_from({"step": {"attention": "math"}})
    experiment = experiment_from({"step": {"attention": "math"}} | other)
    formats = {"bfloat16" if experiment.precision is Precision.BF16 else "float32": 1.0}
    figures: dict[str, Any] = {"samples_per_second": 9.0, "recipe": "plain"}
    runs = [
        record(1, base, attention=ATTENTION["math"], formats={"float32": 1.0}, **figures),
        record(2, experiment, attention=ATTENTION[kernel], formats=formats, **figures),
    ]
    sides = [side.title for side in compared(*runs).sides]
    found = [sentence for sentence in doubts(*runs) if "kernels" in sentence]
    assert found == [sentence.format(*reversed(sides)) for sentence in told]
