"""Intervals hold the true value as often as they say, and only a run that drifts is said to."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.statistics import (
    Interval,
    drift,
    outlying_side,
    paired_ratio_interval,
    ratio_interval,
    shared_drifts,
    steadiness,
    student_t,
    value_interval,
)

Floats = NDArray[np.float64]
BLOCK_STEPS, STEPS = 20, 200


def block_speeds(
    generator: np.random.Generator, levels: Floats, noise: float = 0.05, correlation: float = 0.7
) -> Floats:
    """Speeds of blocks of steps whose times follow an AR(1) series, around the level of each repeat."""
    deviation = generator.standard_normal((*levels.shape, STEPS))
    for step in range(1, STEPS):
        fresh = np.sqrt(1 - correlation**2) * deviation[..., step]
        deviation[..., step] = correlation * deviation[..., step - 1] + fresh
    seconds = (1 + noise * deviation) / levels[..., np.newaxis]
    return np.asarray(BLOCK_STEPS / seconds.reshape(*levels.shape, -1, BLOCK_STEPS).sum(axis=-1))


@pytest.mark.parametrize(("repeats", "shared"), [(3, 0.0), (3, 0.8), (5, 0.0), (10, 0.0)])
def test_the_interval_of_a_ratio_covers_the_truth_in_95_of_100_comparisons(
    repeats: int, shared: float
) -> None:
    generator = np.random.default_rng(4)
    own = generator.standard_normal((2, 1_000, repeats)) * np.sqrt(1 - shared)
    common = generator.standard_normal((1, 1_000, repeats)) * np.sqrt(shared)
    levels = np.exp(0.02 * (own + common)) * np.array([1.89, 1.0]).reshape(2, 1, 1)
    mine, theirs = np.median(block_speeds(generator, levels), axis=-1)
    assert 0.93 <= coverage(paired_ratio_interval, mine, theirs) <= 0.97


def coverage(interval_of: Callable[[Floats, Floats], Interval | None], mine: Floats, theirs: Floats) -> float:
    found = [interval_of(one, other) for one, other in zip(mine, theirs, strict=True)]
    return float(np.mean([interval is not None and interval[0] <= 1.89 <= interval[1] for interval in found]))


def test_repeats_that_are_not_in_pairs_cover_the_truth_too() -> None:
    generator = np.random.default_rng(5)
    mine = 1.89 * np.exp(0.02 * generator.standard_normal((2_000, 3)))
    theirs = np.exp(0.01 * generator.standard_normal((2_000, 5)))
    assert 0.93 <= coverage(ratio_interval, mine, theirs) <= 0.97


def slow_tail(generator: np.random.Generator, repeats: int) -> Floats:
    return np.asarray(np.exp(0.02 * (1 - generator.exponential(1, (1_000, repeats)))))


@pytest.mark.parametrize("repeats", [8, 10, 20])
def test_slow_repeats_on_both_sides_make_no_interval_of_pairs_wider_than_students(repeats: int) -> None:
    generator = np.random.default_rng(6)
    mine, theirs = 1.89 * slow_tail(generator, repeats), slow_tail(generator, repeats)
    assert 0.93 <= coverage(paired_ratio_interval, mine, theirs) <= 0.97
    differences = np.log(mine / theirs)
    errors = differences.std(axis=1, ddof=1) / np.sqrt(repeats)
    found = [paired_ratio_interval(one, other) for one, other in zip(mine, theirs, strict=True)]
    widths = [np.log(interval[1] / interval[0]) for interval in found if interval is not None]
    assert widths == pytest.approx(2 * student_t(repeats - 1) * errors)


@pytest.mark.parametrize("is_paired", [True, False])
@pytest.mark.parametrize("slow", [0, 1])
def test_slow_repeats_on_one_side_are_seen_or_the_truth_is_covered(slow: int, is_paired: bool) -> None:
    generator = np.random.default_rng(7)
    sides = [slow_tail(generator, 10), np.exp(0.004 * generator.standard_normal((1_000, 10)))]
    mine, theirs = sides if slow == 0 else reversed(sides)
    seen = [outlying_side(*pair, is_paired=is_paired) for pair in zip(mine, theirs, strict=True)]
    assert seen.count(1 - slow) == 0 and seen.count(slow) >= 850
    interval_of = paired_ratio_interval if is_paired else ratio_interval
    found = [interval_of(*pair) for pair in zip(mine, theirs, strict=True)]
    missed = [interval is not None and not interval[0] <= 1.0 <= interval[1] for interval in found]
    assert sum(miss for miss, which in zip(missed, seen, strict=True) if which is None) <= 50


@pytest.mark.parametrize("repeats", [3, 5, 10])
def test_quiet_repeats_seldom_count_as_slow_and_ten_show_three_percent(repeats: int) -> None:
    generator = np.random.default_rng(8)
    mine, theirs = np.exp(0.01 * generator.standard_normal((2, 1_000, repeats))) * [[[1.03]], [[1.0]]]
    pairs = list(zip(mine, theirs, strict=True))
    seen = [outlying_side(*pair, is_paired=True) is None and paired_ratio_interval(*pair) for pair in pairs]
    assert sum(interval is not False for interval in seen) >= 900
    if repeats == 10:
        assert sum(bool(interval) and interval[0] > 1.0 for interval in seen) >= 900


def test_too_few_or_too_quiet_repeats_have_no_outliers() -> None:
    still = [1.0] * 5
    assert outlying_side([1.0, 1.0, 1.0, 0.5], still[:4], is_paired=True) is None
    assert outlying_side([1.0, 1.0, 1.0, 0.999, 1.0], still, is_paired=True) is None
    assert outlying_side([1.0, 1.0, 1.0, 0.8, 1.0], still, is_paired=False) == 0
    assert outlying_side([1.0, 1.0, 1.0, 0.0, 1.0], still, is_paired=False) is None
    steady = [1.0, 1.001, 0.999, 1.0, 1.002, 0.998]
    assert outlying_side(steady, [1.0, 1.001, 0.999, 1.0, 1.2, 1.0], is_paired=True) == 1


def test_a_drift_that_both_runs_of_a_pair_share_cancels() -> None:
    drift = np.array([1.0, 0.9, 0.8, 0.7])
    paired, unpaired = paired_ratio_interval(2 * drift, drift), ratio_interval(2 * drift, drift)
    assert paired == pytest.approx((2.0, 2.0))
    assert unpaired is not None and unpaired[0] < 1.6 and unpaired[1] > 2.5


@pytest.mark.parametrize("broken", [0.0, -1.0, float("nan"), float("inf")])
def test_what_is_no_speed_has_no_interval(broken: float) -> None:
    assert paired_ratio_interval([2.0, broken], [1.0, 1.0]) is None
    assert ratio_interval([2.0, 2.0], [1.0, broken]) is None
    assert value_interval([1.0, broken], is_mean=False) is None


def test_odd_repeats_have_their_interval_or_none() -> None:
    assert paired_ratio_interval([2.0], [1.0]) is None and ratio_interval([2.0], [1.0, 1.1]) is None
    assert value_interval([2.0], is_mean=True) is None and value_interval([2.0], is_mean=False) is None
    # a mean may be negative, but not infinite
    assert value_interval([-1.0, 1.0, 0.0], is_mean=True) == pytest.approx((-2.484, 2.484), abs=1e-3)
    assert value_interval([0.0, float("inf")], is_mean=True) is None
    # repeats that agree entirely leave no width, and wild ones do not overflow
    assert ratio_interval([3.0, 3.0], [2.0, 2.0]) == pytest.approx((1.5, 1.5))
    interval = paired_ratio_interval([1e-300, 1e300], [1.0, 1.0])
    assert interval is not None and interval[0] == 0.0 and np.isfinite(interval[1])


def test_students_t_agrees_with_tables() -> None:
    known = {1: 12.706, 2: 4.303, 9: 2.262, 20: 2.086, 30: 2.042, 60: 2.000, 120: 1.980}
    assert {degrees: student_t(degrees) for degrees in known} == pytest.approx(known, rel=2e-3)
    assert student_t(2.5) == pytest.approx(3.57, abs=0.1)
    assert student_t(1) > student_t(1.5) > student_t(2)


def test_a_run_is_less_steady_than_its_blocks_say_where_they_hang_together() -> None:
    generator = np.random.default_rng(6)
    independent = generator.normal(100, 1, 400)
    walking = 100 + np.convolve(generator.normal(0, 1, 419), np.ones(20) / np.sqrt(20), mode="valid")
    narrow, wide = steadiness(independent), steadiness(walking)
    assert narrow is not None and narrow[0] < 100 < narrow[1] and narrow[1] - narrow[0] < 0.5
    assert wide is not None and wide[1] - wide[0] > 2 * (narrow[1] - narrow[0])


def test_steadiness_needs_two_blocks_and_stays_within_them() -> None:
    assert steadiness(np.empty(0)) is None and steadiness(np.array([1.0])) is None
    assert steadiness(np.array([3.0, 1.0, 2.0])) == (1.0, 3.0)
    assert steadiness(np.full(50, 7.0)) == (7.0, 7.0)


def noisy(generator: np.random.Generator, course: np.ndarray) -> np.ndarray:
    return 1_000 * course * np.exp(generator.normal(0, 0.02, len(course)))


@pytest.mark.parametrize("blocks", [12, 40, 400])
def test_a_run_that_slides_or_steps_down_drifts(blocks: int) -> None:
    generator = np.random.default_rng(7)
    along = np.linspace(0, 1, blocks)
    slide = drift(noisy(generator, 1 - 0.3 * along))
    step = drift(noisy(generator, np.where(along < 0.4, 1.0, 0.7)))
    rise = drift(noisy(generator, 1 + 0.3 * along))
    assert slide == pytest.approx(-0.21, abs=0.04) and step == pytest.approx(-0.3, abs=0.04)
    assert rise == pytest.approx(0.19, abs=0.05)


def test_a_steady_run_does_not_drift_however_its_blocks_vary() -> None:
    generator = np.random.default_rng(8)
    flagged = [drift(noisy(generator, np.ones(blocks))) for blocks in (10, 15, 40) for _ in range(300)]
    assert sum(change is not None for change in flagged) <= 9
    hanging = []
    for _ in range(300):
        deviation = generator.standard_normal(60)
        for block in range(1, 60):
            deviation[block] = 0.5 * deviation[block - 1] + np.sqrt(0.75) * deviation[block]
        hanging.append(drift(100 * np.exp(0.05 * deviation)))
    assert sum(change is not None for change in hanging) <= 12


@pytest.mark.slow
@pytest.mark.parametrize(("repeats", "most"), [(1, 12), (2, 3), (10, 0)])
def test_steps_with_a_heavy_tail_are_no_drift_however_many_repeats(repeats: int, most: int) -> None:
    """Lognormal steps that hang together (AR(1), 0.95), in blocks of 20; 300 comparisons of two sides."""
    generator = np.random.default_rng(10)
    deviation = generator.standard_normal((300, 2 * repeats, 15 * 20))
    for step in range(1, deviation.shape[-1]):
        fresh = np.sqrt(1 - 0.95**2) * deviation[..., step]
        deviation[..., step] = 0.95 * deviation[..., step - 1] + fresh
    speeds = 1 / np.exp(0.5 * deviation).reshape(300, 2, repeats, 15, 20).mean(axis=-1)
    flagged = [
        any(change is not None for side in comparison for change in shared_drifts(list(side)))
        for comparison in speeds
    ]
    assert sum(flagged) <= most


def test_a_change_that_hardly_matters_is_no_drift_and_a_hold_up_in_the_middle_is_none_either() -> None:
    generator = np.random.default_rng(9)
    along = np.linspace(0, 1, 100)
    assert drift(noisy(generator, 1 - 0.04 * along)) is None
    assert drift(noisy(generator, np.where(abs(along - 0.5) < 0.1, 0.5, 1.0))) is None
    # too few blocks show none
    assert drift(np.empty(0)) is None and drift(np.linspace(1.0, 0.5, 9)) is None
