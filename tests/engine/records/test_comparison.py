"""Runs side by side: values, ratios of like against like, and the settings that differ."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.events import Environment
from engine.experiment import Experiment, Precision, Step
from engine.problem import ProblemError
from engine.records.comparison import FIGURES, Cell, Comparison, baseline_for, compare, speed_ratio
from engine.records.record import RunRecord, Status

Record = Callable[..., RunRecord]
FP32, FP16 = Experiment(), Experiment(precision=Precision.FP16)


def cells(comparison: Comparison, name: str) -> tuple[Cell, ...]:
    return next(row.cells for row in comparison.figures if row.figure.name == name)


def test_figures_stand_beside_their_ratio_to_the_baseline(record: Record) -> None:
    base = record(1, FP32, samples_per_second=880.0, step_ms=72.7, seconds=14.5, peak_allocated_mib=10_240)
    other = record(
        2,
        FP16,
        samples_per_second=1_663.2,
        step_ms=38.5,
        seconds=7.7,
        peak_allocated_mib=3_072,
        skipped_steps=3,
    )
    found = compare([base, other], base.id)
    speed = cells(found, "samples_per_second")
    assert speed[0] == Cell(880.0, 1.0, 0.0)
    assert speed[1].ratio == pytest.approx(1.89)
    memory = cells(found, "peak_memory")
    assert (memory[0].value, memory[1].value, memory[1].ratio) == (10.0, 3.0, pytest.approx(0.3))
    skipped = cells(found, "skipped_steps")
    assert skipped == (Cell(None, None, None), Cell(3.0, None, None))


def test_accuracy_is_in_percent_and_has_a_difference_and_no_ratio(record: Record) -> None:
    base = record(1, FP32, final_validation_accuracy=0.843)
    other = record(2, FP16, final_validation_accuracy=0.841)
    cell = cells(compare([base, other], base.id), "accuracy")[1]
    assert cell.value == pytest.approx(84.1)
    assert cell.ratio is None
    assert cell.difference == pytest.approx(-0.2)


def test_allocated_is_never_divided_by_resident(record: Record) -> None:
    card = record(1, FP32, peak_allocated_mib=1_024)
    processor = record(2, FP32, peak_resident_mib=512)
    assert cells(compare([card, processor], card.id), "peak_memory")[1] == Cell(0.5, None, None)


def test_a_run_without_a_summary_has_no_figures(record: Record) -> None:
    base, empty = record(1, FP32, samples_per_second=1.0), record(2, FP16)
    assert all(row.cells[1].ratio is None for row in compare([base, empty], base.id).figures)
    assert speed_ratio(empty, base) is None and speed_ratio(base, empty) is None


def test_the_settings_that_differ_are_named_and_the_others_counted(record: Record) -> None:
    base = record(1, FP32)
    other = record(2, FP16.model_copy(update={"step": Step(clip_norm=1.0)}))
    found = compare([base, other], base.id)
    assert {row.key: row.values for row in found.settings} == {
        "precision": ("fp32", "fp16"),
        "step.clip_norm": (None, 1.0),
    }
    assert found.same_settings > 20


def test_a_baseline_that_is_not_among_the_runs_is_answered(record: Record) -> None:
    with pytest.raises(ProblemError, match="not among the runs"):
        compare([record(1, FP32)], "000000000009")


def test_values_are_shown_with_their_digits() -> None:
    shown = {figure.name: figure.text(1_234.5678) for figure in FIGURES}
    assert shown["samples_per_second"] == "1,235" and shown["peak_memory"] == "1,234.57"
    assert FIGURES[0].text(None) == "–"


def test_the_newest_finished_fp32_run_of_the_same_experiment_is_the_baseline(record: Record) -> None:
    run = record(9, FP16)
    elsewhere = Environment(
        device_name="a processor", device_memory_mib=1, torch="2.11", python="3", os="Linux", ammeter="0.1"
    )
    others = [
        record(1, FP32),
        record(2, FP32),
        record(3, FP32, status=Status.STOPPED),
        record(4, Experiment(batch_size=32)),
        record(5, FP32, environment=elsewhere),
        record(6, Experiment(precision=Precision.TF32)),
    ]
    assert baseline_for(run, [*others, run]) == others[1]
    assert baseline_for(others[0], others) == others[0]
    assert baseline_for(run, [run]) is None
