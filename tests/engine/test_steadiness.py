"""How steady a run was: blocks that hang together say less than as many that do not."""

from __future__ import annotations

import numpy as np
import pytest

from engine.statistics import drift, drifts, steadiness


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
        any(change is not None for side in comparison for change in drifts(list(side)))
        for comparison in speeds
    ]
    assert sum(flagged) <= most


def test_a_change_that_hardly_matters_is_no_drift_and_a_hold_up_in_the_middle_is_none_either() -> None:
    generator = np.random.default_rng(9)
    along = np.linspace(0, 1, 100)
    assert drift(noisy(generator, 1 - 0.04 * along)) is None
    assert drift(noisy(generator, np.where(abs(along - 0.5) < 0.1, 0.5, 1.0))) is None


def test_too_few_blocks_show_no_drift() -> None:
    assert drift(np.empty(0)) is None
    assert drift(np.linspace(1.0, 0.5, 9)) is None
