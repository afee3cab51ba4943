"""Speed-ups have an interval only where there are repeats, and verdicts claim no more than was measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from engine.events import Environment, Summary
from engine.experiment import Experiment, Measure, Precision
from engine.records.record import RunRecord, Status
from engine.records.variants import block_speeds, speedup_interval, variants

Record = Callable[..., RunRecord]
FP32, BF16 = Experiment(), Experiment(precision=Precision.BF16)


def sides(record: Record, repeats: int = 1, **bf16: Any) -> list[RunRecord]:
    """`repeats` runs of FP32 and of BF16 AMP; the keywords change the summary of the latter."""
    base = {"samples_per_second": 1_000.0, "peak_resident_mib": 100.0, "final_validation_accuracy": 0.843}
    other = {"samples_per_second": 1_420.0, "peak_resident_mib": 91.0, "final_validation_accuracy": 0.841}
    runs = [record(2 * one, FP32, label="FP32", **base) for one in range(repeats)]
    return runs + [record(2 * one + 1, BF16, label="BF16 AMP", **{**other, **bf16}) for one in range(repeats)]


def steady(runs: list[RunRecord]) -> dict[str, dict[str, Any]]:
    """Samples of 110 steps at each run's own speed, with a little noise."""
    generator = np.random.default_rng(0)
    return {
        run.id: {
            "samples_per_second": (run.summary or Summary()).samples_per_second
            * generator.normal(1, 0.01, 110)
        }
        for run in runs
    }


def test_with_one_repeat_there_is_a_speedup_and_no_interval(record: Record) -> None:
    runs = sides(record)
    base, other = variants(runs, steady(runs), "FP32")
    assert (base.label, base.speedup, base.speedup_ci, base.clean) == ("FP32", 1.0, None, True)
    assert base.verdict == (
        "FP32 is the baseline: it trained 1,000 samples a second and reached an accuracy of 84.3 %."
    )
    assert other.ids == (runs[1].id,)
    assert other.speedup == pytest.approx(1.42) and other.speedup_ci is None
    assert other.memory_ratio == pytest.approx(0.91)
    assert other.accuracy_delta == pytest.approx(-0.002)
    assert other.clean
    assert other.verdict == (
        "BF16 AMP trained 1.42 times as fast as FP32 (one repeat, so no interval) in 91 % of the memory; "
        "accuracy 84.1 % against 84.3 %, no spread known."
    )


def test_with_repeats_there_is_an_interval_around_the_speedup(record: Record) -> None:
    runs = sides(record, repeats=3)
    base, other = variants(runs, steady(runs), "FP32")
    assert base.speedup_ci is None
    assert other.speedup_ci is not None and other.speedup is not None
    low, high = other.speedup_ci
    assert 1.40 < low <= other.speedup <= high < 1.44
    assert f"95 % interval {low:.2f} to {high:.2f} over 3 repeats" in other.verdict
    assert "no difference" not in other.verdict and "no spread known" not in other.verdict


def test_an_interval_around_one_is_said_to_show_no_difference(record: Record) -> None:
    runs = sides(record, repeats=2, samples_per_second=1_000.0)
    assert "so no difference is shown" in variants(runs, steady(runs), "FP32")[1].verdict


def test_a_slower_side_is_called_so_many_times_as_fast(record: Record) -> None:
    runs = sides(record, samples_per_second=710.0, final_validation_accuracy=None, peak_resident_mib=None)
    other = variants(runs, {}, "FP32")[1]
    assert other.verdict == "BF16 AMP trained 0.71 times as fast as FP32 (one repeat, so no interval)."
    assert other.memory_ratio is None and other.accuracy_delta is None


def test_memory_of_different_quantities_has_no_ratio(record: Record) -> None:
    runs = sides(record, peak_resident_mib=None, peak_allocated_mib=50.0)
    assert variants(runs, {}, "FP32")[1].memory_ratio is None


def test_a_side_without_a_speed_says_why(record: Record) -> None:
    runs = sides(record, samples_per_second=None, speed_note="It was too short.")
    other = variants(runs, {}, "FP32")[1]
    assert (other.speedup, other.clean) == (None, False)
    assert other.verdict == (
        "BF16 AMP and FP32 cannot be compared in speed, since Run 1 (BF16 AMP) has no speed: "
        "It was too short."
    )


def test_a_side_that_did_not_finish_is_not_clean(record: Record) -> None:
    runs = [record(0, FP32, label="FP32", samples_per_second=1.0)]
    runs.append(record(1, BF16, label="BF16 AMP", status=Status.STOPPED, samples_per_second=2.0))
    other = variants(runs, {}, "FP32")[1]
    assert not other.clean
    assert other.verdict.endswith("; with caution, since Run 1 (BF16 AMP) was stopped before its end.")


@pytest.mark.parametrize(("change", "words"), [("device_name", "devices"), ("torch", "versions of torch")])
def test_sides_measured_differently_are_not_clean(record: Record, change: str, words: str) -> None:
    runs = sides(record)
    environment: Environment | None = runs[1].environment
    assert environment is not None
    elsewhere = record(
        3,
        BF16,
        label="BF16 AMP",
        samples_per_second=1.0,
        environment=environment.model_copy(update={change: "another"}),
    )
    other = variants([runs[0], elsewhere], {}, "FP32")[1]
    assert not other.clean and f"different {words}" in other.verdict


def test_blocks_are_whole_and_begin_after_the_warm_up(record: Record) -> None:
    experiment = Experiment(measure=Measure(warmup_steps=2, block_steps=3))
    speeds = np.array([1.0, 1.0, 2.0, 4.0, 4.0, 9.0, 9.0, 9.0, 5.0])
    found = block_speeds(record(1, experiment), {"samples_per_second": speeds})
    np.testing.assert_allclose(found, [3.0, 9.0])
    assert len(block_speeds(record(1, experiment), {})) == 0
    broken = np.array([1.0, 1.0, np.nan, 4.0, 4.0, 0.0, 9.0, 9.0])
    assert len(block_speeds(record(1, experiment), {"samples_per_second": broken})) == 0


def test_the_interval_spans_the_repeats_and_not_only_the_blocks() -> None:
    generator = np.random.default_rng(1)
    base = [speed * generator.normal(1, 0.001, 50) for speed in (100.0, 100.0, 100.0)]
    agreeing = [speed * generator.normal(1, 0.001, 50) for speed in (150.0, 150.0, 150.0)]
    scattered = [speed * generator.normal(1, 0.001, 50) for speed in (120.0, 150.0, 180.0)]
    narrow, wide = speedup_interval(agreeing, base), speedup_interval(scattered, base)
    assert narrow is not None and wide is not None
    assert narrow[1] - narrow[0] < 0.01 < 0.3 < wide[1] - wide[0]
    assert speedup_interval(agreeing[:1], base) is None
    assert speedup_interval([*agreeing[:1], np.empty(0)], base) is None
