"""A race replays two runs as they went: one clock, whole blocks, and the comparison's own ratio."""

from __future__ import annotations

import math
from typing import Any

import pytest

from engine.experiment import Measure, Precision
from engine.problem import Kind, Problem
from engine.records.race import LONGEST_SECONDS, MOST_BLOCKS
from engine.records.record import Status

FP32, FP16 = Precision.FP32, Precision.FP16
OUT_OF_MEMORY = Problem(
    kind=Kind.OUT_OF_MEMORY, message="The card's memory is full.", remedy="Take a batch of 32."
)


def test_each_lane_takes_as_long_as_its_run_did_after_warm_up(racers: Any) -> None:
    race = racers.of_two(640, 1_600, steps=100)
    assert (race.samples, race.blocks, race.block_samples) == (6_400, 100, 64)
    assert race.full.seconds_to(6_400) == pytest.approx(10.0)
    assert race.mixed.seconds_to(6_400) == pytest.approx(4.0)
    assert [race.seconds, race.decided, race.lapse] == pytest.approx([10.0, 4.0, 1.0])


def test_samples_come_by_whole_steps_and_are_held_at_the_end(racers: Any) -> None:
    lane = racers.of_two(64, 64, steps=10).full
    assert [lane.samples_at(seconds) for seconds in (0, 0.99, 1.0, 2.5, 99)] == [0, 0, 64, 128, 640]
    assert (lane.seconds_to(0), lane.seconds_to(65), lane.seconds_to(641)) == (0.0, 2.0, None)


def test_the_number_counts_up_to_exactly_the_comparisons_ratio(racers: Any) -> None:
    race = racers.of_two(880, 1_663)
    cell = racers.compared().cells(race.mixed.side.id)["samples_per_second"]
    numbers = [race.at(race.decided * part / 10).number or 0.0 for part in range(11)]
    assert numbers[0] == 1 and numbers == sorted(numbers)
    assert race.at(race.decided).number == race.at(race.seconds).number == cell.ratio == race.ratio


def test_the_state_of_a_race_from_start_to_end(racers: Any) -> None:
    race = racers.of_two(640, 1_600, steps=100)
    start, decided, over = race.at(-1), race.at(race.decided), race.at(math.inf)
    assert (start.full.state, start.mixed.state, start.full.blocks) == ("waiting", "waiting", 0)
    assert (decided.full.state, decided.mixed.state, decided.mixed.blocks) == ("running", "finished", 100)
    assert decided.is_decided and not decided.is_over and decided.full.fraction == pytest.approx(0.4)
    assert over.is_over and over.full.state == "finished" and over.full.fraction == 1.0
    assert race.at(math.nan).seconds == 0.0


@pytest.mark.parametrize("steps", [1, 2, 39, 41, 200, 201, 317, 400, 1_999])
def test_blocks_are_whole_batches_and_both_lanes_fill_them(racers: Any, steps: int) -> None:
    race = racers.of_two(100_000, 250_000, steps=steps)
    assert race.blocks <= MOST_BLOCKS and race.samples == race.blocks * race.block_samples
    assert race.block_samples % 64 == 0 and race.samples <= 64 * steps
    end = race.at(race.seconds)
    assert end.full.blocks == end.mixed.blocks == race.blocks


def test_a_long_training_is_replayed_in_part_at_its_true_pace(racers: Any) -> None:
    race = racers.of_two(6_400, 16_000, steps=5_000)
    assert race.lapse == 1.0 and race.seconds == pytest.approx(LONGEST_SECONDS, rel=0.01)


def test_of_a_longer_run_the_part_is_shown_that_is_like_the_whole(racers: Any) -> None:
    racers.add(FP32, 640, speeds=[100.0] * 30 + [640.0] * 400)
    racers.add(FP16, 1_600, steps=100)
    race = racers.race()
    assert race.samples == 6_400 and race.full.seconds_to(6_400) == pytest.approx(10.0, rel=0.02)
    assert race.is_typical and race.at(race.decided).full.fraction == pytest.approx(0.4, abs=0.02)


def test_a_run_unlike_its_own_speed_is_not_typical(racers: Any) -> None:
    racers.add(FP32, 640, speeds=[100.0] * 100)
    racers.add(FP16, 1_600, steps=100)
    assert not racers.race().is_typical


def test_slow_steps_are_shown_as_a_time_lapse(racers: Any) -> None:
    race = racers.of_two(6.4, 12.8, steps=100)
    assert race.blocks == 40 and [race.seconds, race.lapse] == pytest.approx([400, 20])


def test_few_slow_steps_are_all_shown(racers: Any) -> None:
    race = racers.of_two(6.4, 12.8, steps=3)
    assert race.blocks == 3 and [race.seconds, race.lapse] == pytest.approx([30, 1.5])


def test_what_is_over_in_an_instant_is_slowed_down(racers: Any) -> None:
    race = racers.of_two(128_000, 256_000, steps=50)
    assert race.seconds == pytest.approx(0.025) and race.seconds / race.lapse == pytest.approx(4.0)


def test_one_batch_each_makes_a_race(racers: Any) -> None:
    race = racers.of_two(64, 128, steps=1)
    assert (race.blocks, race.decided, race.seconds, race.ratio) == (1, 0.5, 1.0, 2.0)


@pytest.mark.parametrize(("full", "mixed", "ratio"), [(100, 100_000, 1_000), (100_000, 200, 0.002)])
def test_extreme_ratios_are_reached_too(racers: Any, full: float, mixed: float, ratio: float) -> None:
    race = racers.of_two(full, mixed, steps=400)
    halfway = race.at(race.decided / 2).number
    assert halfway is not None and min(1, ratio) < halfway < max(1, ratio)
    assert race.at(race.decided).number == race.ratio == pytest.approx(ratio)
    assert race.blocks >= 40


def test_a_slower_mixed_lane_finishes_last(racers: Any) -> None:
    race = racers.of_two(1_000, 710)
    assert race.ratio == pytest.approx(0.71) and race.at(race.decided).full.state == "finished"
    assert race.at(race.decided).mixed.state == "running" and race.at(race.decided).number == race.ratio


def test_runs_of_different_length_race_over_what_both_trained(racers: Any) -> None:
    racers.add(FP32, 640, steps=50)
    racers.add(FP16, 1_600, steps=500)
    assert racers.race().samples == 50 * 64


def test_batches_of_different_size_share_the_larger_ones_blocks(racers: Any) -> None:
    racers.add(FP32, 1_000, batch_size=64)
    racers.add(FP32, 1_900, batch_size=128)
    race = racers.race()
    assert race.block_samples == 128 and race.at(race.seconds).full.blocks == race.blocks == 100


def test_a_batch_that_the_other_never_reached_is_no_block(racers: Any) -> None:
    racers.add(FP32, 64, batch_size=64, steps=1)
    racers.add(FP16, 4_096, batch_size=4_096, steps=3)
    assert (racers.race().samples, racers.race().blocks) == (64, 1)


def test_gathered_gradients_count_as_one_step(racers: Any) -> None:
    race = racers.of_two(128, 256, steps=10, step={"gradient_accumulation": 2})
    assert race.block_samples == 128 and race.seconds == pytest.approx(10.0)


def test_a_run_that_failed_half_way_stops_where_it_did(racers: Any) -> None:
    racers.add(FP32, 1_000, steps=20, status=Status.FAILED, problem=OUT_OF_MEMORY)
    racers.add(FP16, 2_500)
    race = racers.race()
    assert race.full.stopped == "ran out of memory" and race.mixed.stopped == ""
    assert race.samples == 200 * 64 and race.seconds == pytest.approx(5.12)
    end = race.at(race.seconds)
    assert (end.full.state, end.full.blocks, end.mixed.state) == ("stopped", 20, "finished")
    # only as long as both trained can one have trained so many times as much
    assert race.decided == pytest.approx(1.28)


@pytest.mark.parametrize(
    ("status", "problem", "words"),
    [
        (Status.STOPPED, None, "was stopped"),
        (Status.INTERRUPTED, None, "was interrupted"),
        (Status.FAILED, None, "failed"),
        (Status.FAILED, OUT_OF_MEMORY.model_copy(update={"kind": Kind.WORKER_DIED}), "crashed"),
        (Status.FAILED, OUT_OF_MEMORY.model_copy(update={"kind": Kind.STORE}), "failed"),
    ],
)
def test_why_a_lane_ends_early(racers: Any, status: Status, problem: Problem | None, words: str) -> None:
    racers.add(FP32, 1_000)
    racers.add(FP16, 2_500, steps=30, status=status, problem=problem)
    assert racers.race().mixed.stopped == words


def test_a_run_stopped_after_the_stretch_finishes_it(racers: Any) -> None:
    racers.add(FP32, 1_000)
    racers.add(FP16, 2_500, steps=300, status=Status.STOPPED)
    race = racers.race()
    assert race.mixed.stopped == "" and race.at(race.seconds).mixed.state == "finished"


def test_of_two_runs_cut_short_the_longer_one_finishes(racers: Any) -> None:
    racers.add(FP32, 1_000, steps=20, status=Status.STOPPED)
    racers.add(FP16, 2_500, steps=30, status=Status.STOPPED)
    race = racers.race()
    assert (race.full.stopped, race.mixed.stopped, race.samples) == ("was stopped", "", 30 * 64)


def test_speeds_that_are_none_take_the_lanes_median(racers: Any) -> None:
    speeds = [640, math.nan, 640, 0, -3, math.inf, 640, 1e-320]
    racers.add(FP32, 640, speeds=speeds)
    racers.add(FP16, 1_280, steps=8)
    race = racers.race()
    assert race.full.seconds.tolist() == pytest.approx([0.1 * step for step in range(1, 9)])


def test_a_run_without_warm_up_is_replayed_from_its_first_step(racers: Any) -> None:
    race = racers.of_two(64, 128, steps=5, measure=Measure(warmup_steps=0))
    assert len(race.full.seconds) == 5 and race.seconds == pytest.approx(5.0)


def test_a_resumed_run_is_replayed_as_one(racers: Any) -> None:
    speeds = [640.0] * 50 + [64.0] + [640.0] * 49
    racers.add(FP32, 640, speeds=speeds)
    racers.add(FP16, 1_280, steps=100)
    race = racers.race()
    assert race.seconds == pytest.approx(10.9) and race.ratio == 2.0


def test_pictures_against_texts_have_a_replay_but_no_ratio(racers: Any) -> None:
    racers.add(FP32, 1_000)
    racers.add(FP16, 100, model="causal-lm-tiny", dataset="synthetic-tokens")
    race = racers.race()
    assert race.ratio is None and race.at(race.seconds).number is None and race.unit == "samples"


@pytest.mark.parametrize(
    ("model", "dataset", "unit"),
    [
        ("small-cnn", "fashion", "images"),
        ("small-cnn", "synthetic", "images"),
        ("causal-lm-tiny", "synthetic-tokens", "sequences"),
        ("linear", "synthetic-regression", "samples"),
    ],
)
def test_what_a_sample_is_called(racers: Any, model: str, dataset: str, unit: str) -> None:
    assert racers.of_two(100, 250, model=model, dataset=dataset).unit == unit


def test_memory_is_that_of_the_comparison(racers: Any) -> None:
    racers.add(FP32, 1_000, figures={"peak_allocated_mib": 10_240.0})
    racers.add(FP16, 2_500, figures={"peak_allocated_mib": 3_072.0})
    race = racers.race()
    assert race.peaks_mib == pytest.approx((10_240, 3_072))
    assert race.memory_ratio == pytest.approx(0.3)


def test_unlike_unknown_or_impossible_memory_is_none(racers: Any) -> None:
    racers.add(FP32, 1_000, environment=racers.CPU, figures={"peak_resident_mib": 100.0})
    gpu = racers.add(FP16, 2_500, figures={"peak_allocated_mib": 90.0})
    unknown = racers.add(Precision.BF16, 2_500, environment=racers.CPU)
    wrong = racers.add(
        FP16, 2_500, environment=racers.CPU, figures={"peak_resident_mib": math.nan}, batch_size=32
    )
    assert racers.race(side_id=gpu.id).peaks_mib == (None, None)
    assert racers.race(side_id=unknown.id).peaks_mib == (100.0, None)
    assert racers.race(side_id=wrong.id).peaks_mib == (100.0, None)
    assert racers.race(side_id=wrong.id).memory_ratio is None


@pytest.mark.parametrize("speed", [1e308, 1e-300, 5e-324])
def test_figures_beyond_belief_still_make_a_race(racers: Any, speed: float) -> None:
    racers.add(FP32, 1_000)
    racers.add(FP16, 2_500, steps=400, figures={"samples_per_second": speed})
    race = racers.race()
    assert race.blocks > 0 and math.isfinite(race.seconds) and race.at(race.seconds).is_over


@pytest.mark.parametrize("speed", [math.nan, math.inf, -5.0])
def test_a_ratio_that_cannot_be_is_none(racers: Any, speed: float) -> None:
    racers.add(FP32, 1_000)
    racers.add(FP16, 2_500, figures={"samples_per_second": speed})
    assert racers.race().ratio is None


def test_doubts_and_the_device_are_the_comparisons(racers: Any) -> None:
    racers.add(FP32, 1_000, environment=racers.CPU)
    racers.add(FP16, 2_500)
    race = racers.race()
    assert race.device == "a processor and a GPU" and not race.is_cpu
    assert race.doubts == racers.compared().report(race.mixed.side.id).doubts != ()
