"""How steady a run was: blocks that hang together say less than as many that do not."""

from __future__ import annotations

import numpy as np

from engine.steadiness import steadiness


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
