"""The number of a race is the ratio of its counts at every moment, and so comes to the comparison's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engine.drawing.looks import precision_look
from engine.experiment.experiment import Precision
from engine.race import headline, words
from engine.race.lanes import LONGEST_SECONDS
from engine.race.memory import Gauge, GaugePair, Rect
from engine.race.parts import laid_out
from engine.race.race import Race
from engine.words.numbers import times

FP32, FP16 = Precision.FP32, Precision.FP16


def noisy(speed: float, steps: int, spread: float, seed: int) -> list[float]:
    """Speeds of steps that differ by a log-normal spread, with some hold-ups; their median is `speed`."""
    random = np.random.default_rng(seed)
    speeds = speed * random.lognormal(0.0, spread, steps)
    speeds[random.random(steps) < 0.02] /= 4.0
    return list(speeds * speed / np.median(speeds))


def assert_true_at_every_moment(race: Race) -> None:
    """Asserts that whoever divides the counts that are shown gets the number that is shown."""
    for part in range(1, 101):
        moment = race.at(race.seconds * part / 100)
        ahead, behind = moment.mixed.samples, moment.full.samples
        if race.ahead == "full":
            ahead, behind = behind, ahead
        if moment.number is None:
            assert part < 20, "the number comes soon"
        elif moment.is_over:
            assert abs(moment.number / (ahead / behind) - 1) <= 0.01 + 0.5 / behind
        else:
            assert moment.number == pytest.approx(ahead / behind, rel=1e-12)


@pytest.mark.parametrize(
    ("full", "mixed"), [(880, 5_000), (880, 1_663), (1_000, 1_002), (1_000, 660), (2_880, 345), (640, 64_000)]
)
@pytest.mark.parametrize("spread", [0.0, 0.02, 0.2])
def test_it_is_that_of_the_counts_and_ends_at_the_comparisons_ratio(
    racers: Any, full: float, mixed: float, spread: float
) -> None:
    racers.add(FP32, full, speeds=noisy(full, 500, spread, 1) if spread else [full] * 500)
    racers.add(FP16, mixed, speeds=noisy(mixed, 500, spread, 2) if spread else [mixed] * 500)
    race = racers.race()
    assert_true_at_every_moment(race)
    ratio = racers.compared().cells(race.mixed.side.id)["samples_per_second"].ratio
    assert race.matches_ratio and race.final_number == max(ratio, 1 / ratio)
    # the counters alone, rounded as it is, give it too
    end = race.at(race.seconds)
    by = end.mixed.samples / end.full.samples
    assert max(by, 1 / by) == pytest.approx(race.final_number, rel=0.006)


def test_repeats_end_at_the_ratio_of_all_of_them(racers: Any) -> None:
    speeds = [(1_000, 2_520), (1_010, 2_490), (990, 2_500)]
    race = racers.repeated(speeds)
    assert race.matches_ratio and race.final_number == race.ratio
    assert_true_at_every_moment(race)


def test_only_the_first_moments_have_none(racers: Any) -> None:
    race = racers.of_two(640, 1_600)
    assert race.seconds == pytest.approx(8.0)
    assert race.at(0).number is None and race.at(0.79).number is None
    assert race.at(0.81).number == pytest.approx(2.5, rel=0.01)
    assert [words.counted_text(race, race.at(at)) for at in (0.7, 0.9)] == ["", "2.50"]
    assert words.caption(race, race.at(0.7)) == ("Just started", "")
    racers.runs.clear()
    race = racers.of_two(64, 128, steps=1)
    assert race.at(race.seconds / 2).number == race.final_number == 2.0


@pytest.mark.parametrize(("full", "mixed", "by"), [(100, 100_000, 1_000), (100_000, 200, 500)])
def test_extreme_ratios_are_reached_too(racers: Any, full: float, mixed: float, by: float) -> None:
    race = racers.of_two(full, mixed, steps=400)
    assert race.final_number == pytest.approx(by) and race.blocks >= 40


def test_the_part_goes_at_the_usual_pace_and_runs_without_one_are_replayed_whole(racers: Any) -> None:
    racers.add(FP32, 640, speeds=[100.0] * 30 + [640.0] * 400)
    racers.add(FP16, 1_600, speeds=[300.0] * 50 + [1_600.0] * 400)
    race = racers.race()
    assert race.mixed.seconds_to(race.samples) == pytest.approx(race.samples / 1_600)
    assert race.matches_ratio and race.playback_rate == 1.0 and words.doubt_words(race) == ()
    assert_true_at_every_moment(race)
    racers.runs.clear()
    racers.add(FP32, 1_000, speeds=[1_000.0] * 2_000)
    # half of it is held up, which the median of its blocks passes over
    racers.add(FP16, 2_500, speeds=([2_500.0] * 2 + [250.0] * 8) * 200)
    race = racers.race()
    assert not race.matches_ratio and race.samples == 200 * 10 * 64
    assert race.seconds / race.playback_rate == pytest.approx(LONGEST_SECONDS)
    # the comparison holds 2.5 and not the 0.3 of the counts: no number is shown
    assert race.ratio == 2.5 and race.claim is None and race.final_number is None
    for part in range(11):
        moment = race.at(race.seconds * part / 10)
        assert moment.number is None and words.counted_text(race, moment) is None
        assert words.caption(race, moment) == ("No fair comparison", "because the speed was not steady")
    assert "vary too much" in headline.sentence(race)
    (doubt,) = words.doubt_words(race)
    assert doubt.startswith("The speed was not steady. These two runs give 3.28 times as long, the")
    assert doubt.endswith("the comparison 2.50 times as fast.")


@pytest.mark.parametrize("full", [1_000, 997.3, 404.04])
@pytest.mark.parametrize("ratio", [0.4, 0.63, 0.996, 1.004, 1.174, 2.48, 12.345, 120.4])
def test_the_number_is_one_that_the_comparison_holds(racers: Any, full: float, ratio: float) -> None:
    for precision, speed in ((FP32, full), (FP16, full * ratio)):
        figures = {"step_ms": 64_000 / speed}
        racers.add(precision, speed, figures=figures)
    comparison, race = racers.compared(), racers.race()
    held = {times(cell.ratio) for cell in comparison.cells(race.mixed.side.id).values() if cell.ratio}
    assert words.counted_text(race, race.at(race.seconds)) in held


def test_the_sign_stands_still_and_figures_begin_at_their_outline() -> None:
    counted = [laid_out(text, "4.7") for text in ("1.0", "1.1", "2.9", "3.8", "4.7")]
    assert len({number.sign for number in counted}) == 1
    assert all(number.digits[0][1] >= -0.1 and number.width > number.sign for number in counted)
    digits = dict(laid_out("5.7", "5.7").digits)
    # the outline of the first is at the left edge, so that its origin is left of it
    assert -0.1 < digits["5"] < 0 < digits["."] < digits["7"]


def plan(
    full: float | None, mixed: float | None, fill: float = 1.0, size: tuple[float, float] = (216.0, 500.0)
) -> GaugePair:
    gauges = (
        Gauge(("Full",), precision_look(Precision.FP32), full),
        Gauge(("Mixed",), precision_look(Precision.FP16), mixed),
    )
    scale = min(size[0] / 216, size[1] / 500)
    return GaugePair(gauges, Rect(0.0, 0.0, *size), scale, fill)


def contains(outer: Rect, inner: Rect) -> bool:
    return outer.left < inner.left < inner.right < outer.right and (
        outer.top <= inner.top and inner.bottom <= outer.bottom
    )


def test_levels_stand_on_one_scale_and_rise_together() -> None:
    shown = plan(10_240, 5_120)
    gauge = shown.rects[0]
    assert gauge.bottom - shown.level(0) == pytest.approx(0.894 * gauge.height, abs=1)
    assert gauge.bottom - shown.level(1) == pytest.approx(0.447 * gauge.height, abs=1)
    assert plan(10_240, 5_120, 0.0).level(0) == plan(10_240, 5_120, 0.0).rects[0].bottom
    half = plan(10_240, 5_120, 0.5)
    assert half.level(0) == pytest.approx(plan(10_240, 5_120).level(1), abs=1)
    assert half.level(1) == pytest.approx(plan(10_240, 2_560).level(1), abs=1)
    assert plan(10.24 * 1024, 3.16 * 1024).saved_text == "7.0 GiB"
    assert plan(None, 3.0).saved_text == ""


def test_what_is_spared_is_hatched_and_told_at_the_end_where_there_is_room() -> None:
    assert plan(10_240, 3_200).note_rect() is not None
    assert plan(10_240, 3_200, 0.9).note_rect() is None
    assert replace(plan(10_240, 3_200), is_final=False).note_rect() is None
    assert plan(10_240, 10_000).note_rect() is None
    assert plan(10_240, 3_200, size=(110, 140)).note_rect() is None
    assert (plan(10_240, 3_200).lower, plan(3_200, 10_240).lower) == (1, 0)
    spared = plan(3_200, 10_240).saved_rect()
    assert spared is not None
    assert spared.left == plan(3_200, 10_240).rects[0].left


@pytest.mark.parametrize("size", [(110, 140), (140, 300), (216, 500), (600, 1_400), (400, 200)])
@pytest.mark.parametrize("fill", [0.0, 0.5, 1.0])
def test_amounts_stay_inside_their_gauges(size: tuple[int, int], fill: float) -> None:
    shown = plan(10_240, 3_200, fill, size)
    for which in (0, 1):
        assert contains(shown.rects[which], shown.label_rect(which))
        assert shown.name_rect(which).bottom <= size[1]
