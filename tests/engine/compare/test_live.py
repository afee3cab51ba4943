"""The live race: what is counted, and the ratio so far with its interval and forecast, if there is one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.compare.live import TrainedSamples, clock_of, progress_of, standing_of, why_no_ratio
from engine.experiment.experiment import Experiment
from engine.protocol.events import Summary


def progress(
    speed: float,
    steps: int,
    *,
    total: int = 1_000,
    batch: int = 64,
    noise: float = 0.0,
    is_over: bool = False,
    **more: Any,
) -> TrainedSamples:
    """A run at a steady speed after ten slow steps of warm-up."""
    speeds = np.full(steps, speed) * np.random.default_rng(0).normal(1.0, noise, steps)
    speeds[:10] = speed / 20
    experiment = Experiment(batch_size=batch, steps=total)
    rows = {"row_steps": np.ones(steps), "warmup_rows": 10, "total_steps": total, **more}
    found = progress_of(experiment, speeds, is_over=is_over, **rows)
    assert found is not None
    return found


def test_counting_begins_after_the_warm_up_and_goes_on_at_the_pace_of_the_run() -> None:
    run = progress(640.0, 110)
    assert (run.first_step, run.now, run.pace) == (10, pytest.approx(10.0), pytest.approx(640.0))
    assert run.samples_at(0.0) == 0.0 and run.samples_at(5.05) == pytest.approx(3_232.0)
    assert run.step_at(5.05) == 60 and run.end == pytest.approx(99.0)
    assert run.samples_at(20.0) == pytest.approx(12_800.0) and run.samples_at(1e6) == 990 * 64
    over = progress(640.0, 110, total=110, is_over=True)
    assert over.end == over.now and over.samples_at(1e6) == 6_400.0


def test_before_a_step_is_measured_there_is_nothing_and_a_step_without_a_speed_takes_the_median() -> None:
    experiment, ones = Experiment(), np.ones(12)
    for speeds in (np.empty(0), np.full(12, np.nan), np.zeros(12)):
        assert progress_of(experiment, speeds, ones[: len(speeds)], 2, 100) is None
    speeds = np.array([100.0] * 11 + [np.nan])
    known = progress_of(experiment, speeds, ones, 2, 100)
    assert known is not None and known.now == pytest.approx(10 * experiment.step_samples / 100.0)


def test_steps_that_still_compile_after_the_warm_up_belong_to_it() -> None:
    speeds = np.array([5.0] * 10 + [1.0, 2.0] + [640.0] * 50)
    run = progress_of(Experiment(batch_size=64), speeds, np.ones(62), 10, 200)
    assert run is not None and (run.first_step, run.now) == (12, pytest.approx(5.0))


def test_merged_rows_and_single_steps_give_the_same_progress_in_no_more_than_256_blocks() -> None:
    single = progress(640.0, 100_010, total=100_010)
    merged = progress_of(
        Experiment(batch_size=64), np.full(1_001, 640.0), np.array([10.0] + [100.0] * 1_000), 1, 100_010
    )
    assert merged is not None
    for run in (single, merged):
        assert run.now == pytest.approx(10_000.0) and run.samples_at(77.7) == pytest.approx(77.7 * 640)
        assert 128 <= len(run.speeds) <= 256 and run.pace == pytest.approx(640.0)


def test_the_ratio_grows_into_that_of_the_throughputs_and_its_forecast_ends_there() -> None:
    base, side = progress(688.0, 1_000, is_over=True, noise=0.02), progress(1_280.0, 613, noise=0.02)
    standing = standing_of(side, base, side)
    assert standing is not None
    now = standing.now
    assert now.seconds == side.now and now.ratio == pytest.approx(1_280 / 688, rel=0.01)
    assert 1.82 < now.low < now.ratio < now.high < 1.90
    assert standing.points[0].high - standing.points[0].low > now.high - now.low, "it narrows"
    assert standing.seconds == pytest.approx(side.end) and standing.forecast[0] == (now.seconds, now.ratio)
    assert standing.forecast[-1][1] == pytest.approx(side.pace / base.pace, rel=0.01)
    again = standing_of(progress(1_280.0, 633, noise=0.02), base, progress(1_280.0, 633, noise=0.02))
    assert again is not None and again.points[0].seconds == standing.points[0].seconds


def test_points_that_are_known_are_not_computed_again() -> None:
    base, side = progress(688.0, 1_000, is_over=True), progress(1_280.0, 200)
    first = standing_of(side, base, side)
    assert first is not None
    marked = {point.seconds: point._replace(ratio=7.0) for point in first.points[:-1]}
    again = standing_of(side, base, side, marked)
    assert again is not None and {point.ratio for point in again.points[:-1]} == {7.0}
    assert again.now.ratio == first.now.ratio and len(first.points) <= 41


def test_sides_of_different_batch_sizes_count_samples() -> None:
    base, side = progress(600.0, 500, is_over=True, total=500), progress(1_200.0, 100, batch=256)
    standing = standing_of(side, base, side)
    assert standing is not None and standing.now.ratio == pytest.approx(2.0, rel=0.02)


def test_the_clock_stops_where_the_shorter_run_ended_and_so_does_the_ratio() -> None:
    base, side = progress(640.0, 110, total=110, is_over=True), progress(320.0, 100)
    assert (base.now, side.now) == (pytest.approx(10.0), pytest.approx(18.0))
    standing = standing_of(side, base, side)
    assert standing is not None and clock_of(side, base) == base.now
    assert standing.now[:2] == (base.now, pytest.approx(0.5)) and not standing.forecast


def test_the_baseline_may_be_the_one_that_trains() -> None:
    base, side = progress(640.0, 100), progress(1_280.0, 500, total=500, is_over=True)
    standing = standing_of(side, base, base)
    assert standing is not None and standing.now.ratio == pytest.approx(2.0, rel=0.02)


def test_two_blocks_of_both_come_first() -> None:
    base = progress(640.0, 1_000, is_over=True)
    assert standing_of(progress(1_280.0, 29), base, progress(1_280.0, 29)) is None
    side = progress(1_280.0, 40)
    assert standing_of(side, base, side) is None, "the baseline is at its first block"
    side = progress(1_280.0, 50)
    assert standing_of(side, base, side) is not None


FP32 = Experiment()


@pytest.mark.parametrize(
    ("status", "summary", "other", "reason"),
    [
        ("finished", Summary(samples_per_second=1.0), FP32, ""),
        ("finished", None, Experiment(batch_size=256), ""),
        ("failed", None, FP32, "FP32 failed."),
        (
            "finished",
            Summary(samples_per_second=1.0, speed_note="other programs used 69% of the CPU"),
            FP32,
            "FP32 was disturbed: other programs used 69% of the CPU.",
        ),
        ("finished", None, Experiment(model="mlp"), "The sides have different models."),
        ("finished", None, Experiment(sequence_length=64), "The sides have different sequence lengths."),
    ],
)
def test_what_cannot_be_compared_says_why(
    status: str, summary: Summary | None, other: Experiment, reason: str
) -> None:
    assert why_no_ratio("FP32", status, summary, FP32, other) == reason
