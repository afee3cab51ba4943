"""The line through noisy values: a straight one stays, gaps stay, and it never leaves its data."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.drawing.curve_chart import extended, local_line


def test_a_straight_line_stays_as_it_is_also_at_its_ends() -> None:
    line = np.linspace(7, -3, 200)
    np.testing.assert_allclose(local_line(line, 15), line, atol=1e-9)


def test_it_is_the_line_numpy_fits_to_each_window() -> None:
    noisy = np.random.default_rng(0).normal(size=60)
    smoothed = local_line(noisy, 15)
    for row in range(60):
        window = np.arange(max(0, row - 7), min(60, row + 8))
        fit = np.polyfit(window - row, noisy[window], 1)
        assert smoothed[row] == pytest.approx(fit[1], abs=1e-9)


def test_gaps_stay_gaps_and_do_not_spoil_their_neighbours() -> None:
    line = np.linspace(0, 10, 101)
    line[[0, 40, 41, 100]] = np.nan
    line[60] = np.inf
    smoothed = local_line(line, 15)
    whole = np.isfinite(line)
    np.testing.assert_allclose(smoothed[whole], line[whole], atol=1e-9)
    assert not np.isfinite(smoothed[~whole]).any()


_NAN = float("nan")


# a line cut off by gaps overshoots its window to 1 / 7, and further off there is a 1
@example([{"1": 1.0, "0": 0.0, "m": -1.0}.get(sign, _NAN) for sign in "1.00...0..0..0..0.0....m0.0...."], 31)
@given(st.lists(st.floats(-1e6, 1e6) | st.just(_NAN), max_size=120), st.integers(0, 120))
def test_extending_gives_what_smoothing_all_at_once_gives(values: list[float], cut: int) -> None:
    whole = np.array(values, dtype=np.float64)
    before = local_line(whole[:cut], 15)
    np.testing.assert_allclose(
        extended(before, whole, 15), local_line(whole, 15), rtol=1e-6, atol=1e-4, equal_nan=True
    )


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=60), st.sampled_from([9, 15]))
def test_a_smoothed_curve_never_leaves_its_data(values: list[float], window: int) -> None:
    smooth = local_line(np.array(values), window)
    room = 1e-6 * (1 + max(abs(value) for value in values))
    assert smooth.min() >= min(values) - room and smooth.max() <= max(values) + room


def test_a_loss_that_falls_steeply_to_zero_is_not_drawn_below_it() -> None:
    falling = np.array([7.0, 4.0, 1.0, 0.1, 0.02, 0.01, *[0.0] * 9])
    assert local_line(falling, 15).min() >= 0.0
