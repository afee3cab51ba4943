"""What a race's figures are worth, in words: memory, accuracy, certainty and doubts."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from engine.experiment.experiment import Precision
from engine.race.words import certainty, doubt_words, memory_words

FP32, FP16 = Precision.FP32, Precision.FP16


@pytest.mark.parametrize(
    ("peak", "told"),
    [
        (50.0, ("Less than a tenth", "of the memory")),
        (320.0, ("Less than a third", "of the memory")),
        (340.0, ("Less than half", "of the memory")),
        (600.0, ("Less than two thirds", "of the memory")),
        (910.0, ("91 %", "of the memory")),
        (990.0, ("About the same", "amount of memory")),
        (1_080.0, ("8 % more", "memory")),
        (2_400.0, ("2.40 times", "the memory")),
        (None, ("No measurement", "of the memory")),
    ],
)
def test_memory_in_words(racers: Any, peak: float | None, told: tuple[str, str]) -> None:
    figures = {"peak_allocated_mib": 1_000.0}
    mine = {"figures": {"peak_allocated_mib": peak}}
    assert memory_words(racers.of_two(1_000, 2_000, figures=figures, mine=mine)) == told


def test_memory_of_a_card_and_of_a_processor_is_not_compared(racers: Any) -> None:
    racers.add(FP32, 100, environment=racers.CPU, figures={"peak_resident_mib": 100.0})
    racers.add(FP16, 2_000, figures={"peak_allocated_mib": 100.0})
    assert memory_words(racers.race()) == ("No comparison", "between a card's memory and a processor's")


@pytest.mark.parametrize(
    ("accuracies", "told"),
    [
        ([0.880, 0.879, 0.884, 0.882], "about half the memory, same accuracy"),
        ([0.880, 0.874, 0.881, 0.874], "about half the memory, about the same accuracy"),
        ([0.880, 0.800, 0.881, 0.801], "about half the memory, lower accuracy"),
        ([0.800, 0.880, 0.801, 0.881], "about half the memory, higher accuracy"),
        ([0.880, 0.879], "about half the memory, about the same accuracy"),
        ([0.880, 0.881, 0.879, 0.100], "about half the memory, accuracy no further apart than repeats are"),
        ([0.880, 0.800], "about half the memory"),
    ],
)
def test_accuracy_is_claimed_only_as_it_was_measured(racers: Any, accuracies: list[float], told: str) -> None:
    pairs = [(1_000.0, 2_000.0), (1_010.0, 2_010.0)][: len(accuracies) // 2]
    memory = [1_000.0, 490.0] * len(pairs)
    race = racers.repeated(pairs, final_validation_accuracy=accuracies, peak_allocated_mib=memory)
    assert memory_words(race)[1] == told.replace("about half the memory", "of the memory")


@pytest.mark.parametrize("mine", [{"steps": 500}, {"steps": 5_000, "first_nan_step": 9}])
def test_nothing_is_said_of_an_accuracy_that_is_not_the_precisions_doing(
    racers: Any, mine: dict[str, int]
) -> None:
    figures = {"final_validation_accuracy": 0.9, "peak_allocated_mib": 100.0, "steps": 5_000}
    racers.add(FP32, 1_000, figures=figures)
    racers.add(FP16, 2_000, figures=figures | mine)
    assert memory_words(racers.race()) == ("About the same", "amount of memory")


def test_how_sure_the_ratio_is(racers: Any) -> None:
    race = racers.repeated([(880, 5_000), (884, 4_980), (878, 5_020), (881, 5_000), (882, 4_950)])
    assert certainty(race).startswith("Measured 5 times each: between 5.6")
    assert certainty(race).endswith("with 95 % confidence.")


def test_one_measurement_each_is_no_certainty(racers: Any) -> None:
    race = racers.of_two(880, 5_000)
    assert certainty(race) == "Measured once each. Repeats would show how sure the figure is."
    racers.add(FP16, 5_010, seed=1)
    assert certainty(racers.race()) == "Measured 1 and 2 times, too few to say how sure it is."


def test_repeats_that_were_not_made_in_turns_are_no_certainty(racers: Any) -> None:
    racers.repeated([(880, 5_000), (884, 4_980), (878, 5_020)])
    full_first = sorted(racers.runs, key=lambda run: run.experiment.precision is not FP32)
    racers.runs = [
        replace(run, started=run.started + timedelta(minutes=place)) for place, run in enumerate(full_first)
    ]
    race = racers.race()
    assert certainty(race) == "Measured 3 times each, but not in turns, so nobody can say how sure it is."
    assert doubt_words(race) == (
        "The two were not trained in turns, so a change in the machine may look like a difference.",
    )


def test_a_run_that_slowed_down_is_told_plainly(racers: Any) -> None:
    race = racers.of_two(1_000, 2_000, mine={"speeds": [2_000.0] * 120 + [1_500.0] * 80})
    assert "A run in mixed precision was not equally fast from beginning to end." in doubt_words(race)


def test_doubts_in_plain_words_are_told_once(racers: Any) -> None:
    suffered = {
        "speed_note": "the card's clocks were held down by heat",
        "slowed_by": ("heat",),
        "first_nan_step": 3,
        "other_programs_mib": 4_000.0,
    }
    race = racers.of_two(1_000, 2_000, mine={"figures": suffered, "optimizer": {"learning_rate": 0.5}})
    assert doubt_words(race) == (
        "A run in mixed precision went wrong: its loss stopped being a number.",
        "The card ran below its full speed for a while.",
        "A run in mixed precision had to share the machine with other programs.",
        "The two differ in learning rate: 0.5 against 0.001.",
    )
