"""Which two of the compared runs race, and what is said where none can."""

from __future__ import annotations

import math
from typing import Any

import pytest

from engine.experiment.experiment import Precision
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.store.record import Status

FP32, FP16 = Precision.FP32, Precision.FP16
OUT_OF_MEMORY = Problem(
    kind=Kind.OUT_OF_MEMORY, message="The card's memory is full.", remedy="Take a batch of 32."
)


def refusal(racers: Any, **how: Any) -> Problem:
    with pytest.raises(ProblemError) as raised:
        racers.race(**how)
    return raised.value.problem


def test_a_run_that_failed_at_once_is_refused_with_its_own_remedy(racers: Any) -> None:
    racers.add(FP32, None, steps=0, status=Status.FAILED, problem=OUT_OF_MEMORY)
    racers.add(FP16, 2_500)
    problem = refusal(racers)
    assert problem.message == (
        "“Run 1” (FP32) ran out of memory before its first counted step, so there is nothing to replay."
    )
    assert problem.remedy == OUT_OF_MEMORY.remedy


@pytest.mark.parametrize(
    ("status", "words", "remedy"),
    [
        (Status.QUEUED, "has not been trained yet", "Let it train first."),
        (Status.RUNNING, "is still warming up", "Wait until its warm-up is over."),
        (Status.FINISHED, "ended before any of its steps was counted", "Train it for at least 60 steps."),
        (Status.INTERRUPTED, "was interrupted before its first counted step", "Train it again to the end."),
    ],
)
def test_a_run_with_nothing_to_replay_says_what_to_do(
    racers: Any, status: Status, words: str, remedy: str
) -> None:
    racers.add(FP32, 1_000)
    run = racers.add(FP16, None, steps=0, status=status)
    del racers.curves[run.id]
    problem = refusal(racers)
    assert words in problem.message and problem.remedy == remedy


def test_a_run_whose_every_speed_is_nan_has_nothing_to_replay(racers: Any) -> None:
    racers.add(FP32, None, speeds=[math.nan] * 9)
    racers.add(FP16, 1_280)
    assert "“Run 1” (FP32) ended before any of its steps was counted" in refusal(racers).message


def test_of_repeats_the_most_typical_pair_is_shown(racers: Any) -> None:
    for seed, (full, mixed) in enumerate([(900, 3_000), (1_000, 2_500), (1_010, 1_000)]):
        racers.add(FP32, full, seed=seed, comparison="c")
        racers.add(FP16, mixed, seed=seed, comparison="c")
    race = racers.race()
    assert race.repeats == (3, 3) and race.ratio_interval is not None
    assert (race.full.run.experiment.seed, race.mixed.run.experiment.seed) == (1, 1)
    assert race.pictured[:2] == (race.full.run.id, race.mixed.run.id) and len(race.pictured) == 6


def test_a_repeat_that_failed_gives_way_to_whole_ones(racers: Any) -> None:
    racers.add(FP32, None, steps=30, status=Status.FAILED, problem=OUT_OF_MEMORY)
    whole = racers.add(FP32, 1_000, seed=1)
    racers.add(FP16, 2_500)
    race = racers.race()
    assert race.full.run is whole and race.full.stopped == ""


def test_of_three_sides_the_first_under_autocast_races_unless_another_is_chosen(racers: Any) -> None:
    racers.add(FP32, 1_000)
    tf32 = racers.add(Precision.TF32, 1_400)
    fp16 = racers.add(FP16, 2_500)
    racers.add(Precision.BF16, 2_400)
    assert racers.race().mixed.run is fp16
    assert racers.race(side_id=tf32.id).ratio == pytest.approx(1.4)


def test_a_side_without_a_curve_gives_way_to_one_that_has(racers: Any) -> None:
    racers.add(FP32, 1_000)
    del racers.curves[racers.add(FP16, 2_500).id]
    bf16 = racers.add(Precision.BF16, 2_400)
    assert racers.race().mixed.run is bf16


def test_mixed_precision_may_be_the_baseline(racers: Any) -> None:
    full = racers.add(FP32, 1_000)
    mixed = racers.add(FP16, 2_500)
    race = racers.race(baseline=mixed)
    assert (race.full.run, race.mixed.run, race.ratio) == (mixed, full, pytest.approx(0.4))


def test_one_side_alone_has_nothing_to_race_against(racers: Any) -> None:
    racers.add(FP32, 1_000)
    assert "only one side" in refusal(racers).message


def test_a_side_that_is_the_baseline_or_not_there_is_refused(racers: Any) -> None:
    base = racers.add(FP32, 1_000)
    racers.add(FP16, 2_500)
    problem = refusal(racers, side_id=base.id)
    assert "race against itself" in problem.message and problem.remedy == "Choose one of: FP16 AMP."
    assert "is not among those" in refusal(racers, side_id="beef").message
