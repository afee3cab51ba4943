"""The speed of a run, on known numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.training.measuring.speed import speed_of


def test_equal_steps_have_their_own_speed() -> None:
    speed = speed_of([64] * 100, [0.02] * 100, block_steps=10, warmup_steps=10)
    assert speed.samples_per_second == pytest.approx(3_200)
    assert speed.interval == pytest.approx((3_200, 3_200))
    assert speed.step_ms == pytest.approx(20) and speed.note is None


def test_the_warm_up_is_left_out() -> None:
    speed = speed_of([64] * 60, [9.0] * 10 + [0.02] * 50, block_steps=10, warmup_steps=10)
    assert speed.samples_per_second == pytest.approx(3_200)


def test_one_slow_block_does_not_move_the_median() -> None:
    seconds = [0.02] * 50
    seconds[7] = 5.0
    assert speed_of([64] * 50, seconds, 10, 0).samples_per_second == pytest.approx(3_200)


def test_a_smaller_batch_counts_with_its_own_samples() -> None:
    samples = ([64] * 9 + [16]) * 5
    assert speed_of(samples, [0.01] * 50, 10, 0).samples_per_second == pytest.approx((64 * 9 + 16) / 0.1)


@pytest.mark.parametrize(
    ("steps", "words"), [(1, "it had 1 step,"), (29, "it had 29 steps,"), (59, "it had 59 steps,")]
)
def test_a_short_run_says_why_it_has_no_speed(steps: int, words: str) -> None:
    speed = speed_of([64] * steps, [0.02] * steps, block_steps=10, warmup_steps=10)
    assert speed.samples_per_second is speed.interval is speed.step_ms is None
    assert speed.note is not None and words in speed.note
    assert speed.note.endswith("a speed needs 60, 10 to warm up and 5 blocks of 10.")


def test_a_run_that_was_slow_for_a_while_is_less_steady_than_one_that_was_slow_now_and_then() -> None:
    slow = np.random.default_rng(0).random(400) < 0.5
    now_and_then = speed_of([64] * 400, np.where(slow, 0.022, 0.02).tolist(), 4, 0).interval
    for_a_while = speed_of([64] * 400, np.where(np.sort(slow), 0.022, 0.02).tolist(), 4, 0).interval
    assert now_and_then is not None and for_a_while is not None
    assert for_a_while[1] - for_a_while[0] > 2 * (now_and_then[1] - now_and_then[0])


@given(st.lists(st.floats(1e-5, 10), min_size=15, max_size=60), st.integers(1, 3))
def test_the_interval_holds_the_median_of_the_blocks(seconds: list[float], block_steps: int) -> None:
    speed = speed_of([8] * len(seconds), seconds, block_steps, 0)
    assert speed.samples_per_second is not None and speed.interval is not None
    low, high = speed.interval
    assert 8 / max(seconds) * 0.999 <= low <= speed.samples_per_second <= high <= 8 / min(seconds) * 1.001
