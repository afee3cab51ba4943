"""A race replays two runs as they went: one clock, whole blocks, and where each lane ends."""

from __future__ import annotations

import math
from typing import Any

import pytest

from engine.curves import Curves
from engine.drawing.shapes import Words
from engine.experiment.experiment import Measure, Precision
from engine.experiment.problem import Kind, Problem
from engine.protocol.pictures import patterns
from engine.race.card import race_card
from engine.race.lanes import LONGEST_SECONDS, MOST_BLOCKS
from engine.race.words import scene_of
from engine.store.record import Status

FP32, FP16 = Precision.FP32, Precision.FP16
OUT_OF_MEMORY = Problem(
    kind=Kind.OUT_OF_MEMORY, message="The card's memory is full.", remedy="Take a batch of 32."
)


def test_each_lane_takes_as_long_as_its_run_did_after_warm_up(racers: Any) -> None:
    race = racers.of_two(640, 1_600, steps=100)
    assert (race.samples, race.blocks, race.block_samples) == (6_400, 100, 64)
    assert race.full.seconds_to(6_400) == pytest.approx(10.0)
    assert race.mixed.seconds_to(6_400) == pytest.approx(4.0)
    # the first one to be through ends it
    assert [race.seconds, race.playback_rate] == pytest.approx([4.0, 1.0])


def test_a_race_of_very_long_runs_is_that_of_all_their_steps(racers: Any) -> None:
    whole = racers.of_two(640, 1_600, steps=400_000)
    for run_id, columns in racers.curves.items():
        curves = Curves()
        curves.extend(columns)
        curves.settle()
        racers.curves[run_id] = curves.bins()
    race = racers.race()
    assert len(race.full.seconds) < len(whole.full.seconds) / 4
    assert (race.samples, race.ratio) == (whole.samples, whole.ratio)
    assert race.seconds == pytest.approx(whole.seconds)
    assert race.full.samples_at(2.0) == pytest.approx(whole.full.samples_at(2.0))


def test_samples_come_evenly_within_a_step_and_are_held_at_the_end(racers: Any) -> None:
    lane = racers.of_two(64, 64, steps=10).full
    assert [lane.samples_at(seconds) for seconds in (0, 0.5, 1.0, 2.5, 99)] == [0, 32, 64, 160, 640]
    assert (lane.seconds_to(0), lane.seconds_to(96), lane.seconds_to(641)) == (0.0, 1.5, None)


def test_the_state_of_a_race_from_start_to_end(racers: Any) -> None:
    race = racers.of_two(640, 1_600, steps=100)
    start, halfway, over = race.at(-1), race.at(2.0), race.at(math.inf)
    assert (start.full.state, start.mixed.state, start.full.blocks) == ("waiting", "waiting", 0)
    assert (halfway.full.state, halfway.full.samples, halfway.mixed.blocks) == ("running", 1_280, 50)
    assert over.is_over and not halfway.is_over and (over.full.state, over.mixed.state) == ("over", "over")
    assert (over.full.blocks, over.mixed.blocks, over.mixed.fraction) == (40, 100, 1.0)
    assert race.at(math.nan).seconds == 0.0 and race.passed(2.0) == pytest.approx(0.5)


@pytest.mark.parametrize("steps", [1, 2, 39, 41, 200, 201, 317, 400, 1_999])
def test_blocks_are_whole_batches_and_the_faster_lane_fills_them(racers: Any, steps: int) -> None:
    race = racers.of_two(100_000, 250_000, steps=steps)
    assert race.blocks <= MOST_BLOCKS and race.samples == race.blocks * race.block_samples
    assert race.block_samples % 64 == 0 and race.samples <= 64 * steps
    end = race.at(race.seconds)
    assert end.mixed.blocks == race.blocks and end.mixed.samples == race.samples


def test_a_long_training_is_replayed_in_part_at_its_true_pace(racers: Any) -> None:
    race = racers.of_two(6_400, 16_000, steps=5_000)
    assert race.playback_rate == 1.0 and race.seconds == pytest.approx(LONGEST_SECONDS, rel=0.01)


def test_slow_steps_are_shown_as_a_time_lapse(racers: Any) -> None:
    race = racers.of_two(6.4, 12.8, steps=100)
    assert race.blocks == 40 and [race.seconds, race.playback_rate] == pytest.approx(
        [200, 200 / LONGEST_SECONDS]
    )


def test_few_slow_steps_are_all_shown_and_a_little_longer_is_not_hurried(racers: Any) -> None:
    race = racers.of_two(6.4, 12.8, steps=3)
    assert race.blocks == 3 and [race.seconds, race.playback_rate] == pytest.approx([15, 1])


def test_what_is_over_in_an_instant_is_slowed_down(racers: Any) -> None:
    race = racers.of_two(128_000, 256_000, steps=50)
    assert race.seconds == pytest.approx(0.0125) and race.seconds / race.playback_rate == pytest.approx(4.0)


def test_one_batch_each_makes_a_race(racers: Any) -> None:
    race = racers.of_two(64, 128, steps=1)
    assert (race.blocks, race.seconds, race.ratio) == (1, 0.5, 2.0)


def test_of_a_slower_mixed_lane_full_precision_is_ahead(racers: Any) -> None:
    race = racers.of_two(1_000, 710)
    assert race.ratio == pytest.approx(0.71) and race.ahead == "full"
    assert race.at(race.seconds).full.blocks == race.blocks > race.at(race.seconds).mixed.blocks


def test_runs_of_different_length_race_over_what_both_trained(racers: Any) -> None:
    racers.add(FP32, 640, steps=50)
    racers.add(FP16, 1_600, steps=500)
    assert racers.race().samples == 50 * 64


def test_batches_of_different_size_share_the_larger_ones_blocks(racers: Any) -> None:
    racers.add(FP32, 1_000, batch_size=64)
    racers.add(FP32, 1_900, batch_size=128)
    race = racers.race()
    assert race.block_samples == 128 and race.at(race.seconds).mixed.blocks == race.blocks == 100


def test_a_batch_that_the_other_never_reached_is_no_block(racers: Any) -> None:
    racers.add(FP32, 64, batch_size=64, steps=1)
    racers.add(FP16, 4_096, batch_size=4_096, steps=3)
    assert (racers.race().samples, racers.race().blocks) == (64, 1)


def test_gathered_gradients_count_as_one_step(racers: Any) -> None:
    race = racers.of_two(128, 256, steps=10, step={"gradient_accumulation": 2})
    assert race.block_samples == 128 and race.full.seconds_to(1_280) == pytest.approx(10.0)


def test_a_run_that_failed_half_way_stops_where_it_did(racers: Any) -> None:
    racers.add(FP32, 1_000, steps=20, status=Status.FAILED, problem=OUT_OF_MEMORY)
    racers.add(FP16, 2_500)
    race = racers.race()
    assert race.full.stopped == "ran out of memory" and race.mixed.stopped == ""
    # only as long as both trained can one have trained so many times as much
    assert race.samples == 200 * 64 and race.seconds == pytest.approx(1.28)
    end = race.at(race.seconds)
    assert (end.full.state, end.full.blocks, end.mixed.state, end.mixed.blocks) == ("stopped", 20, "over", 50)


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
    assert race.mixed.stopped == "" and race.at(race.seconds).mixed.state == "over"


def test_of_two_runs_cut_short_the_longer_one_counts(racers: Any) -> None:
    racers.add(FP32, 1_000, steps=10, status=Status.STOPPED)
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
    assert race.samples == 5 * 64 and race.seconds == pytest.approx(2.5)


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


def test_how_busy_tensor_cores_were_is_told_where_both_lanes_know_it(racers: Any) -> None:
    busy = {"tensor_activity_percent": (10.0, 40.0, 14.0, 44.0), "peak_allocated_mib": (9.0,) * 4}
    assert racers.repeated([(100.0, 200.0), (100.0, 200.0)], **busy).tensor_percent == (12.0, 42.0)
    card = race_card(scene_of(racers.race(), patterns(racers.race().blocks)))
    words = [shape.text for shape in card.drawing(card.scene.at(0)).shapes if isinstance(shape, Words)]
    assert "Tensor Cores busy" in words and "12\u00a0%" in words and "42\u00a0%" in words


def test_a_lane_without_that_figure_leaves_the_picture_as_it_was(racers: Any) -> None:
    race = racers.of_two(100.0, 200.0, mine={"figures": {"tensor_activity_percent": 40.0}})
    assert race.tensor_percent is None
