"""The words of a race are plain, and true in each case; they claim no more than was measured."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from engine.compare.evidence import DISQUALIFYING
from engine.experiment.experiment import Precision
from engine.experiment.problem import Kind, Problem
from engine.race import headline, words
from engine.race.headline import short_name
from engine.race.words import certainty, doubt_words, memory_words
from engine.store.record import Status
from engine.words.names import GLOSSARY

FP32, FP16, BF16 = Precision.FP32, Precision.FP16, Precision.BF16
FAST = {"step": {"recipe": "fast"}}
RATE = {"optimizer": {"learning_rate": 0.5}}
OUT_OF_MEMORY = Problem(kind=Kind.OUT_OF_MEMORY, message="Full.", remedy="Take less.")
FAILED = {"status": Status.FAILED, "problem": OUT_OF_MEMORY}
WHY = "With mixed precision, the GPU does most of its arithmetic with 16-bit numbers: less data to move"
SAME = "The same training on the same GPU, side by side"
EVEN = "Mixed precision is about as fast as full precision here."
VARIED = "The measurements vary too much to show which of the two is faster."
BETTER = "For this training, full precision is the better choice on this GPU. Mixed precision took longer"
UNLIKE = "The two trainings differ, so precision is not the only cause."
SETTINGS = "Other settings differ too, so precision may not be the only cause."
PART = "Part of this comes from fast optimizations, but how much was not measured."


def peak(mib: float | None) -> dict[str, Any]:
    return {"figures": {"peak_allocated_mib": mib}}


def test_the_race_of_the_picture(racers: Any) -> None:
    race = racers.of_two(880, 5_000, mine=FAST)
    assert headline.title(race) == SAME
    names = [(headline.lane_name(race, lane), words.lane_detail(race, lane)) for lane in ("full", "mixed")]
    assert names == [
        ("Full precision", "32-bit numbers (FP32)"),
        ("Mixed precision", "mostly 16-bit numbers (FP16) with fast optimizations"),
    ]
    start, end = race.at(0), race.at(race.seconds)
    assert words.counted_text(race, end) == "5.68"
    assert words.caption(race, end) == ("as many images", "in the same 2.6 seconds")
    told = [words.counter_words(race, "full", moment) for moment in (start, race.at(1.0), end)]
    assert told == ["images", "images so far", "images in 2.6 s"]
    assert headline.sentence(race) == f"{WHY}. {PART}"
    racers.add(FP16, 1_663)
    assert headline.sentence(racers.race(side_id=race.mixed.run.id)) == (
        f"{WHY}. By itself, mixed precision makes it 1.89 times as fast. The rest comes from fast "
        "optimizations."
    )


@pytest.mark.parametrize(
    ("full", "mixed", "settings", "mine", "told"),
    [
        (1_000, 2_500, peak(2_000.0), peak(1_100.0), f"{WHY} and to store."),
        (1_000, 2_500, {}, {}, f"{WHY}."),
        *((1_000, speed, {}, {}, EVEN) for speed in (985, 996, 1_000, 1_020)),
        (
            *(1_000, 710, {"batch_size": 63}, {}),
            f"{BETTER}, likely because the batch size of 63 is not a multiple of 8, "
            "which is slower on Tensor Cores.",
        ),
        (
            *(1_000, 710, peak(1_000.0), peak(600.0)),
            f"{BETTER}. This happens above all with small models, because converting the numbers takes time "
            "too. It does use less memory.",
        ),
    ],
)
def test_the_result_is_told_with_its_reason(
    racers: Any, full: float, mixed: float, settings: dict[str, Any], mine: dict[str, Any], told: str
) -> None:
    assert headline.sentence(racers.of_two(full, mixed, **settings, mine=mine)) == told


def test_on_a_processor_the_words_are_the_processors(racers: Any) -> None:
    for precision, speed, mib in ((FP32, 3_970, 80.0), (BF16, 6_344, 86.0)):
        racers.add(precision, speed, environment=racers.CPU, figures={"peak_resident_mib": mib})
    race = racers.race()
    assert headline.sentence(race) == f"{WHY.replace('GPU', 'CPU')}.", "more memory is not less"
    assert headline.title(race) == SAME.replace("GPU", "CPU")
    assert memory_words(race) == ("7% more", "memory")
    racers.runs.clear()
    racers.hardly_faster = "FP16 AMP is slow here, because most CPUs do not compute in FP16"
    told = headline.sentence(racers.of_two(3_970, 557, environment=racers.CPU))
    assert "on this CPU. Mixed precision took longer, likely because FP16 AMP is slow here" in told


def test_an_open_interval_is_called_no_difference(racers: Any) -> None:
    race = racers.repeated([(1_000, 1_040), (1_010, 1_000), (990, 1_050)])
    assert headline.sentence(race) == EVEN
    assert certainty(race).endswith("It does not show which of the two is faster.")
    for at in (0.0, race.seconds / 2, race.seconds):
        assert words.counted_text(race, race.at(at)) is None
        strong, rest = words.caption(race, race.at(at))
        assert strong == "No significant difference" and rest.startswith("95% interval 0.9")


@pytest.mark.parametrize(
    ("figures", "title", "why"),
    [
        (
            {"speed_note": "other programs used 69% of the CPU"},
            "Other programs disturbed this measurement",
            "Measure again when nothing else is running.",
        ),
        (
            {"speed_note": "the card's clocks were held down by heat", "slowed_by": ("heat",)},
            "The GPU slowed down during this measurement",
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
        assert words.caption(race, race.at(at))[0] == "Not reliable"
    told = " ".join((headline.sentence(race), certainty(race), *doubt_words(race)))
    assert not any(word in told for word in ("choice", "because", "16-bit", "interval"))
    assert certainty(race).endswith("× is not reliable: the machine was disturbed.")
    assert words.caution(race) == "Not reliable" and words.sure_words(race) == certainty(race)


def test_only_a_number_that_something_speaks_against_has_a_mark(racers: Any) -> None:
    assert words.caution(racers.of_two(1_000, 2_500)) == ""
    racers.runs.clear()
    race = racers.of_two(1_000, 2_500, mine=RATE)
    assert words.caution(race) == "Caution" and race.claim == 2.5
    assert words.sure_words(race).startswith("Caution: measured once each.")


def test_repeats_that_differ_wildly_are_not_called_alike_and_a_little_gain_has_its_reason(
    racers: Any,
) -> None:
    race = racers.repeated([(1_000, 2_200), (1_010, 700)])
    assert headline.sentence(race) == VARIED
    assert certainty(race).startswith("Measured twice each. The 95% interval is ")
    racers.runs.clear()
    racers.add(Precision.TF32, 1_000)
    racers.add(FP16, 1_070)
    assert headline.sentence(racers.race()) == (
        "Mixed precision is only a little faster here, likely because TF32 uses Tensor Cores too."
    )


@pytest.mark.parametrize(
    ("full", "mixed", "fast", "told"),
    [
        (
            *(880, 700, 5_000),
            "This gain comes from fast optimizations. Mixed precision by itself made the training slower "
            "(1.26 times as long).",
        ),
        (
            *(1_000, 1_800, 800),
            "With fast optimizations, mixed precision took longer than full precision here. By itself, mixed "
            "precision makes it 1.80 times as fast. Part of that is lost to fast optimizations.",
        ),
        (1_000, 800, 900, " takes 1.25 times as long. Part of that is recovered by fast optimizations."),
        (1_000, 800, 600, " takes 1.25 times as long. The rest comes from fast optimizations."),
    ],
)
def test_the_recipes_part_is_not_told_as_the_precisions(
    racers: Any, full: float, mixed: float, fast: float, told: str
) -> None:
    racers.add(FP32, full)
    racers.add(FP16, mixed)
    run = racers.add(FP16, fast, **FAST)
    assert headline.sentence(racers.race(side_id=run.id)).endswith(told)


def test_two_of_one_kind_go_by_their_titles_and_mixed_precision_may_be_the_baseline(racers: Any) -> None:
    racers.add(FP32, 1_000)
    racers.add(FP32, 1_900, batch_size=128)
    race = racers.race()
    assert headline.title(race) == "The same training with 64 and with 128 images at once, side by side"
    names = [(headline.lane_name(race, lane), short_name(race, lane)) for lane in ("full", "mixed")]
    assert names == [("FP32, batch 64", ("batch 64",)), ("FP32, batch 128", ("batch 128",))]
    assert words.lane_detail(race, "full") == ""
    assert headline.sentence(race) == "“FP32, batch 128” was 1.90 times as fast as “FP32, batch 64”."
    racers.runs.clear()
    racers.add(FP32, 1_000)
    race = racers.race(baseline=racers.add(FP16, 2_500))
    assert headline.lane_name(race, "full") == "Mixed precision"
    assert headline.sentence(race) == "Full precision took 2.50 times as long as mixed precision."


@pytest.mark.parametrize(
    ("mine", "title", "end"),
    [
        ({"dataset": "cifar10"}, "Two different trainings, side by side", UNLIKE),
        (RATE, SAME.replace("The", "Nearly the"), SETTINGS),
        (
            {**RATE, "batch_size": 128},
            "Nearly the same training with 64 and with 128 images at once, side by side",
            SETTINGS,
        ),
        ({"batch_size": 128}, "The same training with 64 and with 128 images at once, side by side", ""),
        ({"epochs": 3}, SAME, ""),
    ],
)
def test_what_else_differs_is_told(racers: Any, mine: dict[str, Any], title: str, end: str) -> None:
    race = racers.of_two(1_000, 2_000, mine=mine)
    assert headline.title(race) == title and headline.sentence(race).endswith(end)
    if mine == {"batch_size": 128}:
        assert words.lane_detail(race, "mixed") == "mostly 16-bit numbers (FP16), 128 images at once"
        assert "Part of this comes from the other batch size" in headline.sentence(race)


def test_two_cards_and_a_card_beside_a_processor(racers: Any) -> None:
    racers.add(FP32, 1_000)
    racers.add(FP16, 2_000, environment=racers.GPU.model_copy(update={"device_name": "another GPU"}))
    slow = racers.add(BF16, 100, environment=racers.CPU)
    race = racers.race()
    assert headline.title(race) == "The same training on two GPUs, side by side"
    assert headline.sentence(race).endswith("so precision is not the only cause.")
    assert headline.title(racers.race(side_id=slow.id)) == "The same training on two machines, side by side"
    other = racers.add(BF16, 90, environment=racers.CPU, **RATE)
    title = headline.title(racers.race(side_id=other.id))
    assert title.startswith("Nearly the same training on two machines")


def test_a_lane_that_was_cut_short_says_so_everywhere(racers: Any) -> None:
    race = racers.of_two(1_000, 2_500, mine={"steps": 50, **FAILED})
    assert words.lane_detail(race, "mixed") == "mostly 16-bit numbers (FP16), ran out of memory after 1.3 s"
    assert words.counter_words(race, "mixed", race.at(race.seconds)) == "images, then it ran out of memory"
    assert words.caption(race, race.at(race.seconds))[1] == "in the same 1.3 seconds"
    assert headline.sentence(race).endswith("Mixed precision ran out of memory on the way.")
    assert doubt_words(race) == ("A run in mixed precision did not finish.",)


TEXT = {"model": "causal-lm", "dataset": "python-source", "sequence_length": 128}
NO_RATIO: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "failed": ({}, {"speeds": [2_500] * 50, **FAILED}, "mixed precision ran out of memory on the way"),
    "short": ({}, {"steps": 20}, "mixed precision trained too briefly for a reliable speed"),
    "texts": (TEXT, {"sequence_length": 256}, "the two train on texts of different lengths"),
    "kinds": (
        {},
        {"model": "causal-lm-tiny", "dataset": "synthetic-tokens"},
        "the two train on different kinds of data",
    ),
}


@pytest.mark.parametrize("case", NO_RATIO)
def test_without_a_ratio_the_reason_is_in_its_place(racers: Any, case: str) -> None:
    settings, mine, why = NO_RATIO[case]
    race = racers.of_two(1_000, None if case in ("failed", "short") else 2_000, **settings, mine=mine)
    assert words.counted_text(race, race.at(0)) is None
    assert words.caption(race, race.at(0)) == ("No fair comparison", f"because {why}")
    assert certainty(race) == f"There is no ratio. {why[0].upper()}{why[1:]}."
    rest = "so there is no speed-up to report. The replay shows both runs."
    assert headline.sentence(race) == f"{why[0].upper()}{why[1:]}, {rest}"
    if case == "short":
        assert doubt_words(race) == ("A run in mixed precision was too short for a reliable speed.",)
    if case == "kinds":
        assert words.counter_words(race, "full", race.at(0)) == "samples"


@pytest.mark.parametrize(
    ("full", "mixed", "steps", "told"),
    [
        (640, 1_600, 100, ""),
        (6.4, 12.8, 100, "Time lapse: 3.3 minutes shown in 12.0 seconds."),
        (6.4, 12.8, 3, ""),
        (128_000, 256_000, 50, "Slow motion: 0.013 seconds shown in 4.0 seconds."),
    ],
)
def test_the_pace_of_the_replay(racers: Any, full: float, mixed: float, steps: int, told: str) -> None:
    assert words.playback_rate_words(racers.of_two(full, mixed, steps=steps)) == told


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


def test_memory_of_a_card_and_of_a_processor_is_not_compared(racers: Any) -> None:
    racers.add(FP32, 100, environment=racers.CPU, figures={"peak_resident_mib": 100.0})
    racers.add(FP16, 2_000, **peak(100.0))
    assert memory_words(racers.race()) == ("No comparison", "between GPU and CPU memory")


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


def test_how_sure_the_ratio_is(racers: Any) -> None:
    race = racers.of_two(880, 5_000)
    assert certainty(race) == "Measured once each. Repeats would show how certain the ratio is."
    racers.add(FP16, 5_010, seed=1)
    assert certainty(racers.race()) == "Measured 1 and 2 times, too few for a 95% interval."
    racers.runs.clear()
    race = racers.repeated([(880, 5_000), (884, 4_980), (878, 5_020), (881, 5_000), (882, 4_950)])
    assert certainty(race).startswith("Measured 5 times each. The 95% interval is 5.6")


def test_repeats_that_were_not_made_in_turns_are_no_certainty(racers: Any) -> None:
    racers.repeated([(880, 5_000), (884, 4_980), (878, 5_020)])
    full_first = sorted(racers.runs, key=lambda run: run.experiment.precision is not FP32)
    racers.runs = [
        replace(run, started=run.started + timedelta(minutes=place)) for place, run in enumerate(full_first)
    ]
    race = racers.race()
    assert (
        certainty(race)
        == "Measured 3 times each, but the runs did not alternate, so there is no 95% interval."
    )
    told = "The runs of the two did not alternate, so drift of the machine could look like a difference."
    assert doubt_words(race) == (told,)


def test_doubts_in_plain_words_are_told_once(racers: Any) -> None:
    suffered = {
        "speed_note": "the card's clocks were held down by heat",
        "slowed_by": ("heat",),
        "first_nan_step": 3,
        "other_programs_mib": 4_000.0,
    }
    assert doubt_words(racers.of_two(1_000, 2_000, mine={"figures": suffered, **RATE})) == (
        "A run in mixed precision went wrong. Its loss became NaN or Inf.",
        "The GPU ran below its full speed for a while.",
        "A run in mixed precision had to share the machine with other programs.",
        "The two differ in learning rate: 0.5 vs. 0.001.",
    )
    racers.runs.clear()
    race = racers.of_two(1_000, 2_000, mine={"speeds": [2_000.0] * 120 + [1_500.0] * 80})
    assert "A run in mixed precision became faster or slower while it ran." in doubt_words(race)


def test_every_term_is_a_plain_line_and_whatever_spoils_a_measurement_has_words() -> None:
    assert {"FP32", "TF32", "FP16", "BF16", "AMP", "batch", "fast optimizations"} <= GLOSSARY.keys()
    for meaning in GLOSSARY.values():
        assert meaning.endswith(".") and "\n" not in meaning and len(meaning) < 110
    assert headline.DISTURBED.keys() == DISQUALIFYING
