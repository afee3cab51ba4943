"""A race replays two runs as they went: which two, on one clock, to the comparison's own ratio."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from engine.curves import Curves
from engine.experiment.experiment import Measure, Precision
from engine.experiment.problem import Kind, Problem
from engine.race.race import BLOCKS, LONGEST_SECONDS
from engine.race.words import card_of, frame_of
from engine.store.record import Status
from engine.words.names import GLOSSARY
from tests.engine.race.test_golden import TILES

FP32, FP16 = Precision.FP32, Precision.FP16
OUT_OF_MEMORY = Problem(
    kind=Kind.OUT_OF_MEMORY, message="The card's memory is full.", remedy="Take a batch of 32."
)


def noisy(speed: float, spread: float, seed: int) -> list[float]:
    """Speeds of 500 steps that differ by a log-normal spread; their median is `speed`."""
    speeds = speed * np.random.default_rng(seed).lognormal(0.0, spread, 500)
    return list(speeds * speed / np.median(speeds))


def test_each_lane_takes_as_long_as_its_run_did_and_the_first_one_through_ends_it(racers: Any) -> None:
    race = racers.of_two(640, 1_600, steps=100)
    assert [race.seconds, race.playback_rate] == pytest.approx([4.0, 1.0])
    assert [float(lane.seconds[-1]) for lane in race.lanes] == pytest.approx([10.0, 4.0])
    start, halfway, end = race.at(-1), race.at(2.0), race.at(math.inf)
    assert (start.samples, start.blocks, start.number) == ((0, 0), (0, 0), None)
    assert (halfway.samples, halfway.blocks, halfway.is_over) == ((1_280, 3_200), (40, 100), False)
    assert (end.samples, end.blocks, end.is_over) == ((2_560, 6_400), (80, BLOCKS), True)
    assert race.at(math.nan).seconds == 0.0 and race.passed(2.0) == pytest.approx(0.5)


@pytest.mark.parametrize(("full", "mixed"), [(880, 5_000), (1_000, 1_002), (1_000, 660), (640, 64_000)])
@pytest.mark.parametrize("spread", [0.0, 0.2])
def test_the_number_is_that_of_the_counts_and_ends_at_the_comparisons_ratio(
    racers: Any, full: float, mixed: float, spread: float
) -> None:
    racers.add(FP32, full, speeds=noisy(full, spread, 1))
    racers.add(FP16, mixed, speeds=noisy(mixed, spread, 2))
    race = racers.race()
    for part in range(1, 101):
        moment = race.at(race.seconds * part / 100)
        if moment.number is None:
            assert part < 20, "the number comes soon"
        elif not moment.is_over:
            counted = moment.samples[1] / moment.samples[0]
            assert moment.number == pytest.approx(counted, abs=2 * counted / min(moment.samples))
    assert race.at(race.seconds).number == race.ratio == race.verdict.speedup == pytest.approx(mixed / full)


def test_only_the_first_moments_have_no_number(racers: Any) -> None:
    race = racers.of_two(640, 1_600)
    texts = [frame_of(race, at).number for at in (0, 0.79, 0.81, race.seconds)]
    assert texts == ["", "", "2.50", "2.50"]


def test_a_race_of_very_long_runs_is_that_of_all_their_steps(racers: Any) -> None:
    whole = racers.of_two(640, 1_600, steps=400_000)
    for run_id, columns in racers.curves.items():
        curves = Curves()
        curves.extend(columns)
        curves.merge_all()
        racers.curves[run_id] = curves.bins()
    race = racers.race()
    assert len(race.lanes[0].seconds) < len(whole.lanes[0].seconds) / 4
    assert race.ratio == whole.ratio and race.seconds == pytest.approx(whole.seconds)
    assert race.at(2.0).samples == whole.at(2.0).samples


def test_samples_come_evenly_and_speeds_that_are_none_take_the_median(racers: Any) -> None:
    lane = racers.of_two(64, 64, steps=10).lanes[0]
    assert [lane.samples_at(seconds) for seconds in (0, 0.5, 1.0, 2.5, 99)] == [0, 32, 64, 160, 640]
    racers.runs.clear()
    racers.add(FP32, 640, speeds=[640, math.nan, 640, 0, -3, math.inf, 640, 1e-320])
    racers.add(FP16, 1_280, steps=8)
    assert racers.race().lanes[0].seconds.tolist() == pytest.approx([0.1 * step for step in range(9)])


@pytest.mark.parametrize(
    ("full", "mixed", "steps", "seconds", "shown"),
    [
        pytest.param(640, 1_600, 5_000, 200, LONGEST_SECONDS, id="a time lapse"),
        pytest.param(6.4, 12.8, 3, 15, 15, id="few slow steps are not hurried"),
        pytest.param(128_000, 256_000, 50, 0.0125, 4.0, id="over in an instant, slowed down"),
    ],
)
def test_what_is_hard_to_watch_is_shown_at_another_pace(
    racers: Any, full: float, mixed: float, steps: int, seconds: float, shown: float
) -> None:
    race = racers.of_two(full, mixed, steps=steps)
    assert race.seconds == pytest.approx(seconds)
    assert race.seconds / race.playback_rate == pytest.approx(shown)


def test_gathered_gradients_count_as_one_step_and_a_run_may_have_no_warm_up(racers: Any) -> None:
    race = racers.of_two(128, 256, steps=10, step={"gradient_accumulation": 2})
    assert race.lanes[0].samples[1] == 128 and race.seconds == pytest.approx(5.0)
    racers.runs.clear()
    race = racers.of_two(64, 128, steps=5, measure=Measure(warmup_steps=0))
    assert race.seconds == pytest.approx(2.5) and race.at(2.5).samples == (160, 320)


@pytest.mark.parametrize(
    ("status", "problem", "words"),
    [
        (Status.STOPPED, None, "was stopped"),
        (Status.INTERRUPTED, None, "was interrupted"),
        (Status.FAILED, None, "failed"),
        (Status.FAILED, OUT_OF_MEMORY, "ran out of memory"),
        (Status.FAILED, OUT_OF_MEMORY.model_copy(update={"kind": Kind.WORKER_DIED}), "crashed"),
    ],
)
def test_a_run_that_ends_early_ends_the_race_and_it_is_said_why(
    racers: Any, status: Status, problem: Problem | None, words: str
) -> None:
    racers.add(FP32, 1_000)
    racers.add(FP16, 2_500, steps=30, status=status, problem=problem)
    race = racers.race()
    assert race.seconds == pytest.approx(30 * 64 / 2_500)
    assert (race.stopped(0), race.stopped(1)) == ("", words)
    assert frame_of(race, race.seconds).words[1] == f"images, then it {words}"


@pytest.mark.parametrize(
    ("model", "dataset", "unit"),
    [
        ("small-cnn", "fashion", "images"),
        ("causal-lm-tiny", "synthetic-tokens", "sequences"),
        ("linear", "synthetic-regression", "samples"),
    ],
)
def test_what_a_sample_is_called(racers: Any, model: str, dataset: str, unit: str) -> None:
    assert racers.of_two(100, 250, model=model, dataset=dataset).unit == unit


def test_memory_is_that_of_the_comparison_or_none(racers: Any) -> None:
    peaks = [{"figures": {"peak_allocated_mib": mib}} for mib in (10_240.0, 3_072.0)]
    race = racers.of_two(1_000, 2_500, **peaks[0], mine=peaks[1])
    assert race.peaks_mib == pytest.approx((10_240, 3_072)) and race.memory_ratio == pytest.approx(0.3)
    racers.runs.clear()
    racers.add(FP32, 1_000, environment=racers.CPU, figures={"peak_resident_mib": 100.0})
    gpu = racers.add(FP16, 2_500, figures={"peak_allocated_mib": 90.0})
    unknown = racers.add(Precision.BF16, 2_500, environment=racers.CPU)
    wrong = racers.add(
        FP16, 2_500, environment=racers.CPU, figures={"peak_resident_mib": math.nan}, batch_size=32
    )
    known = {run.id: racers.race(side_id=run.id) for run in (gpu, unknown, wrong)}
    assert [race.peaks_mib for race in known.values()] == [(None, None), (100.0, None), (100.0, None)]
    assert card_of(known[gpu.id], TILES).absent == "not comparable"
    assert known[wrong.id].memory_ratio is None


@pytest.mark.parametrize("speed", [1e308, 1e-300, 5e-324, math.nan, math.inf, -5.0])
def test_figures_beyond_belief_still_make_a_race(racers: Any, speed: float) -> None:
    race = racers.of_two(1_000, 2_500, mine={"steps": 400, "figures": {"samples_per_second": speed}})
    frame = frame_of(race, race.seconds)
    assert math.isfinite(race.seconds) and card_of(race, TILES).drawing(frame).shapes
    assert 0 < speed < math.inf or race.ratio is None


def test_how_busy_tensor_cores_were_is_shown_where_both_lanes_know_it(racers: Any) -> None:
    busy = {"tensor_activity_percent": (10.0, 40.0, 14.0, 44.0)}
    race = racers.repeated([(100.0, 200.0), (100.0, 200.0)], **busy)
    assert race.tensor_percent == (12.0, 42.0)
    racers.runs.clear()
    assert racers.of_two(100, 200, mine={"figures": {"tensor_activity_percent": 40.0}}).tensor_percent is None


def test_of_repeats_the_most_typical_whole_pair_is_shown(racers: Any) -> None:
    for seed, (full, mixed) in enumerate([(900, 3_000), (1_000, 2_500), (1_010, 1_000)]):
        racers.add(FP32, full, seed=seed, comparison="c")
        racers.add(FP16, mixed, seed=seed, comparison="c")
    race = racers.race()
    assert [lane.run.experiment.seed for lane in race.lanes] == [1, 1]
    assert race.pictured[:2] == tuple(lane.run.id for lane in race.lanes) and len(race.pictured) == 6
    racers.runs.clear()
    racers.add(FP32, None, steps=30, status=Status.FAILED, problem=OUT_OF_MEMORY)
    whole = racers.add(FP32, 1_000, seed=1)
    racers.add(FP16, 2_500)
    assert racers.race().lanes[0].run is whole


def test_the_best_side_under_autocast_with_a_curve_races_unless_another_is_chosen(racers: Any) -> None:
    def mixed(**how: Any) -> Any:
        return racers.race(**how).lanes[1].run

    racers.add(FP32, 1_000)
    tf32 = racers.add(Precision.TF32, 2_700)
    bf16 = racers.add(Precision.BF16, 2_400)
    fp16 = racers.add(FP16, 2_500)
    assert mixed() is fp16 and mixed(side_id=tf32.id) is tf32
    del racers.curves[fp16.id]
    assert mixed() is bf16


def test_every_term_of_the_card_is_explained_in_a_plain_line() -> None:
    assert {"FP32", "TF32", "FP16", "BF16", "AMP", "batch", "fast optimizations"} <= GLOSSARY.keys()
    assert all(text.endswith(".") and "\n" not in text and len(text) < 110 for text in GLOSSARY.values())
