"""The words of a race are plain, and true in each case; they claim no more than was measured."""

from __future__ import annotations

from typing import Any

import pytest

from engine.compare.evidence import DISQUALIFYING
from engine.experiment.experiment import Precision
from engine.race import headline
from engine.race.words import memory_words
from engine.words.names import GLOSSARY

FP32, FP16, BF16 = Precision.FP32, Precision.FP16, Precision.BF16


def peak(mib: float | None) -> dict[str, Any]:
    return {"figures": {"peak_allocated_mib": mib}}


@pytest.mark.parametrize(
    ("mib", "told"),
    [
        (50.0, ("Less than a tenth", "of the memory")),
        (320.0, ("Less than a third", "of the memory")),
        (340.0, ("Less than half", "of the memory")),
        (600.0, ("Less than two thirds", "of the memory")),
        (910.0, ("91%", "of the memory")),
        (990.0, ("About the same", "amount of memory")),
        (1_080.0, ("8% more", "memory")),
        (2_400.0, ("2.40 times", "the memory")),
        (None, ("No measurement", "of memory")),
    ],
)
def test_memory_in_words(racers: Any, mib: float | None, told: tuple[str, str]) -> None:
    assert memory_words(racers.of_two(1_000, 2_000, **peak(1_000.0), mine=peak(mib))) == told


@pytest.mark.parametrize("speed", [985, 996, 1_000, 1_020])
def test_a_difference_of_two_percent_is_called_none(racers: Any, speed: float) -> None:
    told = "Mixed precision is about as fast as full precision here."
    assert headline.sentence(racers.of_two(1_000, speed)) == told


@pytest.mark.parametrize(
    ("accuracies", "told"),
    [
        ([0.880, 0.879, 0.884, 0.882], ", same accuracy"),
        ([0.880, 0.874, 0.881, 0.874], ", about the same accuracy"),
        ([0.880, 0.800, 0.881, 0.801], ", lower accuracy"),
        ([0.800, 0.880, 0.801, 0.881], ", higher accuracy"),
        ([0.880, 0.879], ", about the same accuracy"),
        ([0.880, 0.881, 0.879, 0.100], ", accuracy within the variation between runs"),
        ([0.880, 0.800], ""),
    ],
)
def test_accuracy_is_claimed_only_as_it_was_measured(racers: Any, accuracies: list[float], told: str) -> None:
    pairs = [(1_000.0, 2_000.0), (1_010.0, 2_010.0)][: len(accuracies) // 2]
    memory = [1_000.0, 490.0] * len(pairs)
    race = racers.repeated(pairs, final_validation_accuracy=accuracies, peak_allocated_mib=memory)
    assert memory_words(race)[1] == f"of the memory{told}"


@pytest.mark.parametrize("mine", [{"steps": 500}, {"steps": 5_000, "first_nan_step": 9}])
def test_nothing_is_said_of_an_accuracy_that_is_not_the_precisions_doing(
    racers: Any, mine: dict[str, int]
) -> None:
    figures = {"final_validation_accuracy": 0.9, "peak_allocated_mib": 100.0, "steps": 5_000}
    race = racers.of_two(1_000, 2_000, figures=figures, mine={"figures": figures | mine})
    assert memory_words(race) == ("About the same", "amount of memory")


def test_every_term_is_a_plain_line_and_whatever_spoils_a_measurement_has_words() -> None:
    assert {"FP32", "TF32", "FP16", "BF16", "AMP", "batch", "fast optimizations"} <= GLOSSARY.keys()
    for meaning in GLOSSARY.values():
        assert meaning.endswith(".") and "\n" not in meaning and len(meaning) < 110
    assert headline.DISTURBED.keys() == DISQUALIFYING
