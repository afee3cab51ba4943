"""How long a step exchanges gradients: of a few sampled steps, those that are like the others."""

from __future__ import annotations

from engine.training.ranks.sharing import SAMPLED_FIRST, usual_times


def test_a_step_that_was_late_once_does_not_count() -> None:
    like_most = [(2.0, 0.5)] * SAMPLED_FIRST
    # the last of the first ten steps, and the first, in which ranks wait for one that began later
    assert usual_times([*like_most[:-1], (500.0, 500.0)], 10.0) == (2.0, 0.5)
    assert usual_times([(900.0, 900.0), *like_most], 10.0) == (2.0, 0.5)


def test_what_was_slower_in_the_first_steps_is_that_of_the_later_ones() -> None:
    assert usual_times([(9.0, 9.0)] * 5 + [(2.0, 1.0)] * 5, 10.0) == (2.0, 1.0)


def test_an_exchange_takes_no_longer_than_its_step() -> None:
    assert usual_times([(30.0, 20.0)], 10.0) == (10.0, 10.0)
    assert usual_times([], 10.0) is None
