"""The words of a race are plain, and true in each case."""

from __future__ import annotations

from typing import Any

import pytest

from engine.compare.evidence import SPOILING
from engine.experiment.experiment import Precision
from engine.experiment.problem import Kind, Problem
from engine.race import headline, words
from engine.race.headline import short_name
from engine.store.record import Status
from engine.words.names import GLOSSARY

FP32, FP16, BF16 = Precision.FP32, Precision.FP16, Precision.BF16
FAST = {"recipe": "fast"}
OUT_OF_MEMORY = Problem(kind=Kind.OUT_OF_MEMORY, message="Full.", remedy="Take less.")
WHY = "Mixed precision lets the card do most of its sums with half-length numbers: less to move"


def test_the_race_of_the_picture(racers: Any) -> None:
    race = racers.of_two(880, 5_000, mine={"step": FAST})
    assert headline.title(race) == "The same training on the same card, side by side"
    assert headline.lane_name(race, "full") == "Full precision"
    assert words.lane_detail(race, "full") == "32-bit numbers (FP32)"
    assert headline.lane_name(race, "mixed") == "Mixed precision"
    assert words.lane_detail(race, "mixed") == "mostly 16-bit numbers (FP16) with the fast recipe"
    start, end = race.at(0), race.at(race.seconds)
    assert words.counted_text(race, end) == "5.68"
    assert words.caption(race, end) == ("as many images", "in the same 2.6 seconds")
    told = [words.counter_words(race, "full", one) for one in (start, race.at(1.0), end)]
    assert told == ["images", "images so far", "images in 2.6 s"]


def test_a_gain_is_explained(racers: Any) -> None:
    less = [{"peak_allocated_mib": 2_000.0}, {"peak_allocated_mib": 1_100.0}]
    racers.add(FP32, 1_000, figures=less[0])
    racers.add(FP16, 2_500, figures=less[1])
    assert headline.sentence(racers.race()) == f"{WHY}, less to store."


def test_where_the_memory_is_not_known_nothing_is_said_of_it(racers: Any) -> None:
    assert headline.sentence(racers.of_two(1_000, 2_500)) == f"{WHY}."


def test_where_more_memory_was_taken_nobody_says_less_to_store(racers: Any) -> None:
    peaks = ({"peak_resident_mib": 80.0}, {"peak_resident_mib": 86.0})
    racers.add(FP32, 3_970, environment=racers.CPU, figures=peaks[0])
    racers.add(BF16, 6_344, environment=racers.CPU, figures=peaks[1])
    race = racers.race()
    assert headline.sentence(race) == f"{WHY.replace('card', 'processor')}."
    assert headline.title(race) == "The same training on the same processor, side by side"
    assert words.memory_words(race) == ("7 % more", "memory")


def test_a_slower_mixed_precision_is_told_kindly_with_its_reason(racers: Any) -> None:
    race = racers.of_two(1_000, 710, batch_size=63)
    assert headline.sentence(race) == (
        "For this training full precision is the better choice on this card: mixed precision took longer, "
        "likely because the batch of 63 is not a multiple of 8, which Tensor Cores need."
    )


def test_on_a_processor_the_reason_is_the_processors(racers: Any) -> None:
    racers.hardly_faster = "FP16 AMP is slow here, since most CPUs do not compute in FP16"
    told = headline.sentence(racers.of_two(3_970, 557, environment=racers.CPU))
    assert "on this processor: mixed precision took longer, likely because FP16 AMP is slow here" in told


def test_a_slower_mixed_precision_without_a_known_reason(racers: Any) -> None:
    race = racers.of_two(
        1_000, 710, figures={"peak_allocated_mib": 1_000.0}, mine={"figures": {"peak_allocated_mib": 600.0}}
    )
    assert headline.sentence(race) == (
        "For this training full precision is the better choice on this card: mixed precision took longer. "
        "That happens, above all with small models: making the numbers shorter takes time too. It does need "
        "less memory."
    )


@pytest.mark.parametrize("mixed", [985, 996, 1_000, 1_020])
def test_hardly_a_difference_is_called_none(racers: Any, mixed: float) -> None:
    told = headline.sentence(racers.of_two(1_000, mixed))
    assert told == "Here mixed precision is about as fast as full precision."


def test_an_open_interval_is_called_no_difference(racers: Any) -> None:
    race = racers.repeated([(1_000, 1_040), (1_010, 1_000), (990, 1_050)])
    assert headline.sentence(race) == "Here mixed precision is about as fast as full precision."
    assert words.certainty(race).endswith("That leaves open which of the two is faster.")
    for at in (0.0, race.seconds / 2, race.seconds):
        assert words.counted_text(race, race.at(at)) is None
        strong, rest = words.caption(race, race.at(at))
        assert strong == "No difference shown" and rest.startswith("between 0.9")


@pytest.mark.parametrize(
    ("figures", "title", "why"),
    [
        (
            {"speed_note": "other programs took 69 % of the processor meanwhile"},
            "Other programs disturbed this measurement",
            "Measure again when nothing else runs.",
        ),
        (
            {"speed_note": "the card's clocks were held down by heat", "slowed_by": ("heat",)},
            "The card slowed down during this measurement",
            "Measure again once it has cooled down.",
        ),
    ],
)
@pytest.mark.parametrize("mixed", [660.0, 2_500.0])
def test_a_disturbed_measurement_says_so_first_and_concludes_nothing(
    racers: Any, mixed: float, figures: dict[str, str], title: str, why: str
) -> None:
    race = racers.of_two(1_000, mixed, batch_size=63, mine={"figures": figures})
    assert headline.title(race) == title and headline.sentence(race).endswith(why)
    for at in (0.0, race.seconds / 2, race.seconds):
        assert words.counted_text(race, race.at(at)) is None
        assert words.caption(race, race.at(at))[0] == "Not a clean measurement"
    told = " ".join((headline.sentence(race), words.certainty(race), *words.doubt_words(race)))
    assert not any(word in told for word in ("choice", "because", "lets the card", "confidence"))
    assert words.certainty(race).endswith("×, with the machine disturbed.")
    assert words.caution(race) == "Not a clean measurement" and words.sure_words(race) == words.certainty(
        race
    )


def test_a_number_that_something_speaks_against_has_a_mark(racers: Any) -> None:
    race = racers.of_two(1_000, 2_500, mine={"optimizer": {"learning_rate": 0.5}})
    assert words.caution(race) == "With caution" and race.claim == 2.5
    assert words.sure_words(race).startswith("With caution: measured once each.")


def test_a_clean_number_has_no_mark(racers: Any) -> None:
    assert words.caution(racers.of_two(1_000, 2_500)) == ""


def test_repeats_that_differ_wildly_are_not_called_alike(racers: Any) -> None:
    race = racers.repeated([(1_000, 2_200), (1_010, 700)])
    assert headline.sentence(race) == (
        "Here the measurements vary too much to say which of the two is faster."
    )
    assert words.certainty(race).startswith("Measured twice each: between ")


def test_a_little_gain_over_tf32_has_its_reason(racers: Any) -> None:
    racers.add(Precision.TF32, 1_000)
    racers.add(FP16, 1_070)
    assert headline.sentence(racers.race()) == (
        "Mixed precision is only a little faster here, likely because TF32 computes on Tensor Cores too."
    )


def test_a_recipe_has_its_part_named(racers: Any) -> None:
    race = racers.of_two(880, 5_000, mine={"step": FAST})
    assert headline.sentence(race) == (
        f"{WHY}. The fast recipe has a part in this too; how large a part was not measured."
    )
    racers.add(FP16, 1_663)
    assert headline.sentence(racers.race(side_id=race.mixed.run.id)) == (
        f"{WHY}. By itself mixed precision makes it 1.89 times as fast; the fast recipe does the rest."
    )


@pytest.mark.parametrize(
    ("full", "mixed", "fast", "told"),
    [
        (
            880,
            700,
            5_000,
            "This gain comes from the fast recipe: mixed precision by itself made the training slower (1.26 "
            "times as long).",
        ),
        (
            1_000,
            1_800,
            800,
            "Together with the fast recipe mixed precision took longer than full precision here. By itself "
            "mixed precision makes it 1.80 times as fast; the fast recipe takes back some of it.",
        ),
        (1_000, 800, 900, " takes 1.25 times as long; the fast recipe makes up for some of it."),
        (1_000, 800, 600, " takes 1.25 times as long; the fast recipe does the rest."),
    ],
)
def test_the_recipes_part_is_not_told_as_the_precisions(
    racers: Any, full: float, mixed: float, fast: float, told: str
) -> None:
    racers.add(FP32, full)
    racers.add(FP16, mixed)
    run = racers.add(FP16, fast, step=FAST)
    assert headline.sentence(racers.race(side_id=run.id)).endswith(told)


def test_both_in_full_precision_go_by_their_titles(racers: Any) -> None:
    racers.add(FP32, 1_000)
    racers.add(FP32, 1_900, batch_size=128)
    race = racers.race()
    assert headline.title(race) == "The same training with 64 and with 128 images at once, side by side"
    assert [headline.lane_name(race, which) for which in ("full", "mixed")] == [
        "FP32, batch 64",
        "FP32, batch 128",
    ]
    assert [short_name(race, which) for which in ("full", "mixed")] == [("batch 64",), ("batch 128",)]
    assert words.lane_detail(race, "full") == ""
    assert headline.sentence(race) == (
        "“FP32, batch 128” is measured against “FP32, batch 64”: it was 1.90 times as fast."
    )


def test_other_batches_are_told_beside_the_precision(racers: Any) -> None:
    race = racers.of_two(1_000, 1_900, mine={"batch_size": 128})
    assert words.lane_detail(race, "mixed") == "mostly 16-bit numbers (FP16), 128 images at once"
    assert "The other batch size has a part in this too" in headline.sentence(race)


def test_mixed_precision_as_the_baseline(racers: Any) -> None:
    racers.add(FP32, 1_000)
    race = racers.race(baseline=racers.add(FP16, 2_500))
    assert headline.lane_name(race, "full") == "Mixed precision"
    assert headline.sentence(race) == (
        "Full precision is measured against mixed precision: it took 2.50 times as long."
    )


@pytest.mark.parametrize(
    ("mine", "title", "caution"),
    [
        (
            {"dataset": "cifar10"},
            "Two different trainings, side by side",
            "They are two different trainings, so the precision is not the only cause.",
        ),
        (
            {"optimizer": {"learning_rate": 0.5}},
            "Nearly the same training on the same card, side by side",
            "They differ in other settings too, so the precision may not be the only cause.",
        ),
        (
            {"optimizer": {"learning_rate": 0.5}, "batch_size": 128},
            "Nearly the same training with 64 and with 128 images at once, side by side",
            "They differ in other settings too, so the precision may not be the only cause.",
        ),
    ],
)
def test_what_else_differs_is_told(racers: Any, mine: dict[str, Any], title: str, caution: str) -> None:
    race = racers.of_two(1_000, 2_000, mine=mine)
    assert headline.title(race) == title and headline.sentence(race).endswith(caution)


def test_runs_of_other_length_are_still_the_same_training(racers: Any) -> None:
    race = racers.of_two(1_000, 2_000, mine={"epochs": 3})
    assert headline.title(race) == "The same training on the same card, side by side"


def test_texts_of_other_lengths_have_no_ratio(racers: Any) -> None:
    text = {"model": "causal-lm", "dataset": "python-source", "sequence_length": 128}
    race = racers.of_two(1_000, 2_000, **text, mine={"sequence_length": 256})
    assert headline.sentence(race).startswith("The two learn from texts of different lengths, so there is no")


def test_two_cards_and_a_card_beside_a_processor(racers: Any) -> None:
    racers.add(FP32, 1_000)
    racers.add(FP16, 2_000, environment=racers.GPU.model_copy(update={"device_name": "another GPU"}))
    slow = racers.add(BF16, 100, environment=racers.CPU)
    race = racers.race()
    assert headline.title(race) == "The same training on two cards, side by side"
    assert headline.sentence(race).endswith("so the precision is not the only cause.")
    assert headline.title(racers.race(side_id=slow.id)) == "The same training on two machines, side by side"
    other = racers.add(BF16, 90, environment=racers.CPU, optimizer={"learning_rate": 0.5})
    assert headline.title(racers.race(side_id=other.id)).startswith(
        "Nearly the same training on two machines"
    )


def test_a_lane_that_was_cut_short_says_so_everywhere(racers: Any) -> None:
    race = racers.of_two(1_000, 2_500, mine={"steps": 50, "status": Status.FAILED, "problem": OUT_OF_MEMORY})
    assert words.lane_detail(race, "mixed") == "mostly 16-bit numbers (FP16), ran out of memory after 1.3 s"
    assert words.counter_words(race, "mixed", race.at(race.seconds)) == "images, then it ran out of memory"
    assert words.caption(race, race.at(race.seconds))[1] == "in the same 1.3 seconds"
    assert headline.sentence(race).endswith("Mixed precision ran out of memory on the way.")
    assert words.doubt_words(race) == ("A run in mixed precision did not get to its end.",)


def test_without_a_ratio_the_reason_is_in_its_place(racers: Any) -> None:
    race = racers.of_two(
        1_000, None, mine={"speeds": [2_500] * 50, "status": Status.FAILED, "problem": OUT_OF_MEMORY}
    )
    why = "mixed precision ran out of memory on the way"
    assert words.counted_text(race, race.at(0)) is None
    assert words.caption(race, race.at(0)) == ("No fair figure", f"since {why}")
    assert words.certainty(race) == f"There is no ratio: {why}."
    assert headline.sentence(race) == (
        "Mixed precision ran out of memory on the way, so there is no figure for how much faster. The replay "
        "shows how both went."
    )


def test_unlike_things_have_no_ratio_and_say_why(racers: Any) -> None:
    race = racers.of_two(1_000, 100, mine={"model": "causal-lm-tiny", "dataset": "synthetic-tokens"})
    assert words.certainty(race) == "There is no ratio: the two learn from different kinds of things."
    assert words.counter_words(race, "full", race.at(0)) == "samples"


def test_a_run_too_short_to_measure_says_so(racers: Any) -> None:
    race = racers.of_two(1_000, None, mine={"steps": 20})
    assert words.caption(race, race.at(0))[1] == (
        "since mixed precision trained too briefly for a reliable speed"
    )
    assert words.doubt_words(race) == ("A run in mixed precision was too short for a reliable speed.",)


@pytest.mark.parametrize(
    ("full", "mixed", "steps", "told"),
    [
        (640, 1_600, 100, ""),
        (6.4, 12.8, 100, "Shown faster than it ran: 3.3 minutes pass in 12.0 seconds."),
        (6.4, 12.8, 3, ""),
        (128_000, 256_000, 50, "Shown in slow motion: 0.013 seconds take 4.0 seconds here."),
    ],
)
def test_the_pace_of_the_replay(racers: Any, full: float, mixed: float, steps: int, told: str) -> None:
    assert words.playback_rate_words(racers.of_two(full, mixed, steps=steps)) == told


def test_every_term_is_a_plain_line() -> None:
    assert {"FP32", "TF32", "FP16", "BF16", "AMP", "batch", "fast recipe"} <= GLOSSARY.keys()
    for meaning in GLOSSARY.values():
        assert meaning.endswith(".") and "\n" not in meaning and len(meaning) < 110


def test_whatever_spoils_a_measurement_has_words() -> None:
    assert headline.DISTURBED.keys() == SPOILING
