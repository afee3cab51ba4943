"""Sides against a baseline: values over repeats, ratios of like against like, intervals, and settings."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from engine.compare.comparison import Comparison, compare
from engine.compare.evidence import Evidence
from engine.compare.metrics import LOSS, MetricCell, shown_metrics
from engine.experiment.experiment import Experiment, Precision, Step
from engine.experiment.problem import ProblemError
from engine.protocol.events import Epoch
from engine.store.record import RunRecord, Status

Record = Callable[..., RunRecord]
FP32, FP16 = Experiment(), Experiment(precision=Precision.FP16)
NONE = np.empty(0)


def compared(runs: Sequence[RunRecord], baseline: str | None = None) -> Comparison:
    return compare([Evidence(run, NONE, ()) for run in runs], baseline)


def repeats(
    record: Record, experiment: Experiment, first: int, name: str, values: list[Any]
) -> list[RunRecord]:
    """Runs of one comparison, seeds from 0, whose summaries have `values` for the figure `name`."""
    return [
        record(
            first + 2 * seed, experiment.model_copy(update={"seed": seed}), comparison="c", **{name: value}
        )
        for seed, value in enumerate(values)
    ]


def both(record: Record, name: str, base: list[Any], other: list[Any]) -> tuple[MetricCell, MetricCell]:
    """The cells of FP32 and of FP16 AMP for a figure of the summary."""
    found = compared([*repeats(record, FP32, 0, name, base), *repeats(record, FP16, 1, name, other)])
    shown = "accuracy" if name == "final_validation_accuracy" else name
    cells = [found.cells(side.id)[shown] for side in found.sides]
    return cells[0], cells[1]


def test_figures_stand_beside_their_ratio_to_the_baseline(record: Record) -> None:
    base = record(1, FP32, samples_per_second=880.0, step_ms=72.7, peak_allocated_mib=10_240)
    other = record(
        2, FP16, samples_per_second=1_663.2, step_ms=38.5, peak_allocated_mib=3_072, skipped_steps=3
    )
    found = compared([base, other])
    base_cells, cells = (found.cells(side.id) for side in found.sides)
    assert base_cells["samples_per_second"] == MetricCell(880.0, (880.0,), ratio=1.0, difference=0.0)
    speed = cells["samples_per_second"]
    assert speed.ratio == pytest.approx(1.89) and speed.difference == pytest.approx(783.2)
    assert speed.ratio_interval is None and speed.within_spread is None
    assert cells["peak_memory"].value == 3.0 and cells["peak_memory"].ratio == pytest.approx(0.3)
    assert base_cells["skipped_steps"].value is None
    assert cells["skipped_steps"] == MetricCell(3.0, (3.0,))


def test_values_over_repeats_are_the_means_that_suit_them(record: Record) -> None:
    base, other = both(record, "samples_per_second", [1.0, 2.0, 4.0], [4.0, 4.0, 9.0])
    assert base.value == pytest.approx(2.0) and other.value is not None
    assert other.ratio == pytest.approx(other.value / 2.0)
    accuracy = both(record, "final_validation_accuracy", [0.8, 0.8, 0.86], [0.81, 0.81, 0.81])
    assert accuracy[0].value == pytest.approx(82.0)
    assert accuracy[1].difference == pytest.approx(-1.0) and accuracy[1].ratio is None
    base, other = both(record, "final_train_loss", [0.5, 0.6], [0.5, math.nan])
    assert other.value is not None and math.isnan(other.value)
    assert other.interval is None and base.value == pytest.approx(0.55)


def test_repeats_of_both_sides_give_the_ratio_an_interval_in_pairs_if_they_can(record: Record) -> None:
    base, other = both(record, "samples_per_second", [1_000.0, 1_010.0, 990.0], [1_890.0, 1_910.0, 1_880.0])
    assert other.ratio_interval is not None and other.ratio is not None
    low, high = other.ratio_interval
    assert 1.85 < low < other.ratio < high < 1.93
    assert base.ratio_interval is None
    assert base.interval is not None and base.interval_kind == "repeats"
    assert both(record, "samples_per_second", [1_000.0, 1_010.0], [1_890.0])[1].ratio_interval is None
    drift = [1_000.0, 900.0, 800.0]
    other = both(record, "samples_per_second", drift, [2 * speed for speed in drift])[1]
    assert other.ratio_interval == pytest.approx((2.0, 2.0))
    base = [1_000.0, 1_300.0, 700.0, 900.0, 1_100.0]
    gains = [1.90, 1.94, 1.84, 1.91, 1.87]
    other = both(record, "samples_per_second", base, [a * b for a, b in zip(base, gains, strict=True)])[1]
    assert other.ratio_interval is not None and other.ratio is not None
    assert other.ratio_interval[0] < other.ratio < other.ratio_interval[1]
    assert other.ratio == pytest.approx(math.exp(np.mean(np.log(gains))))
    other = both(record, "samples_per_second", [1_000.0, 1_010.0, 1_500.0], [1_900.0, 1_950.0, None])[1]
    assert other.ratio == pytest.approx(math.sqrt(1_900 * 1_950) / math.cbrt(1_000 * 1_010 * 1_500))
    assert other.ratio_interval is not None
    assert math.sqrt(math.prod(other.ratio_interval)) == pytest.approx(other.ratio)


def test_the_only_run_of_a_side_shows_how_steady_it_was(record: Record) -> None:
    run = record(1, FP32, samples_per_second=1_000.0, step_ms=64.0)
    blocks = np.random.default_rng(0).normal(1_000, 10, 50)
    found = compare([Evidence(run, blocks, ())])
    cell = found.cells(run.id)["samples_per_second"]
    assert cell.interval_kind == "within run" and cell.interval is not None
    assert 990 < cell.interval[0] < 1_000 < cell.interval[1] < 1_010
    step = found.cells(run.id)["step_ms"].interval
    assert step is not None and step[0] == pytest.approx(64_000 / cell.interval[1])
    run = record(1, FP32, samples_per_second=1_000.0, samples_per_second_ci=(990.0, 1_020.0))
    for blocks in (NONE, np.full(50, 1_000.0)):
        cell = compare([Evidence(run, blocks, ())]).cells(run.id)["samples_per_second"]
        assert (cell.interval, cell.interval_kind) == ((990.0, 1_020.0), "within run")


@pytest.mark.parametrize(
    ("base", "other", "within"),
    [
        ([0.880, 0.884], [0.882, 0.881], True),
        ([0.880, 0.884], [0.860, 0.861], False),
        ([0.88], [0.86, 0.87], None),
        ([0.88], [0.86], None),
        ([0.880, math.nan], [0.86, 0.87], None),
    ],
)
def test_a_difference_is_held_against_how_far_repeats_differ(
    record: Record, base: list[float], other: list[float], within: bool | None
) -> None:
    assert both(record, "final_validation_accuracy", base, other)[1].within_spread is within


def test_what_was_not_measured_alike_or_at_all_has_no_ratio(record: Record) -> None:
    card = record(1, FP32, peak_allocated_mib=1_024)
    processor = record(2, FP16, peak_resident_mib=512)
    found = compared([card, processor])
    assert found.cells(processor.id)["peak_memory"] == MetricCell(0.5, (0.5,))
    assert found.report(processor.id).verdict.memory_ratio is None
    found = compared([record(1, FP32), record(2, FP16)])
    values = {row.metric.name: [cell.value for cell in row.cells] for row in found.metrics}
    assert values["samples_per_second"] == [None, None]
    assert not found.has_no_doubts


def test_the_time_to_an_accuracy_is_that_of_the_first_epoch_that_has_it(record: Record) -> None:
    def epochs(*accuracies: float) -> tuple[Epoch, ...]:
        return tuple(
            Epoch(epoch=n, step=50 * n, seconds=2.0 * n, train_loss=1.0, validation_accuracy=accuracy)
            for n, accuracy in enumerate(accuracies, 1)
        )

    base, other = record(1, FP32), record(2, FP16)
    evidence = [Evidence(base, NONE, epochs(0.7, 0.8, 0.79, 0.9)), Evidence(other, NONE, epochs(0.81))]
    found = compare(evidence, target_accuracy=0.8)
    rows = {row.metric.name: row for row in found.metrics}
    seconds, samples = rows["seconds_to_accuracy"], rows["samples_to_accuracy"]
    assert seconds.metric.title == "Time to 80% accuracy"
    assert [cell.value for cell in seconds.cells] == [4.0, 2.0] and seconds.cells[1].ratio == 0.5
    assert [cell.value for cell in samples.cells] == [6_400.0, 3_200.0]
    never = compare(evidence, target_accuracy=0.95).metrics[-1]
    assert [never.metric.text(cell.value) for cell in never.cells] == ["not reached", "not reached"]


def test_an_accuracy_is_reached_by_a_side_only_if_every_repeat_reached_it(record: Record) -> None:
    reached = (Epoch(epoch=1, step=1, seconds=1.0, train_loss=1.0, validation_accuracy=0.9),)
    first, second = record(1, FP32), record(2, FP32.model_copy(update={"seed": 1}))
    found = compare([Evidence(first, NONE, reached), Evidence(second, NONE, ())], target_accuracy=0.8)
    assert found.cells(first.id)["seconds_to_accuracy"].value is None


def test_the_settings_that_differ_are_named_and_the_others_counted(record: Record) -> None:
    base = repeats(record, FP32, 0, "steps", [1, 1])
    clipped = FP16.model_copy(update={"step": Step(clip_norm=1.0)})
    found = compared([*base, record(9, clipped)])
    assert {row.key: row.values for row in found.settings} == {
        "precision": ("fp32", "fp16"),
        "step.clip_norm": (None, 1.0),
        "seed": ([0, 1], 0),
    }
    assert len(found.all_settings) > 20 + 3


def test_the_baseline_is_the_first_plain_fp32_side_unless_another_is_chosen(record: Record) -> None:
    fast = record(1, FP32.model_copy(update={"step": Step(recipe="fast")}))
    half, plain, again = record(2, FP16), record(3, FP32), record(4, FP32.model_copy(update={"seed": 1}))
    runs = [half, fast, plain, again]
    assert compared(runs).baseline.id == plain.id
    assert compared(runs, again.id).baseline.id == plain.id
    assert compared(runs, half.id).baseline.id == half.id
    assert compared([half, fast]).baseline.id == fast.id
    assert compared([half]).baseline.id == half.id
    with pytest.raises(ProblemError, match="not among the runs"):
        compared(runs, "000000000009")
    with pytest.raises(ProblemError, match="No runs to compare"):
        compared([])


def test_sides_one_after_the_other_have_no_interval_of_what_takes_time(record: Record) -> None:
    def cells(order: str) -> dict[str, MetricCell]:
        seeds = {"A": iter(range(3)), "B": iter(range(3))}
        runs = [
            record(
                number,
                (FP32 if side == "A" else FP16).model_copy(update={"seed": next(seeds[side])}),
                minutes=number,
                samples_per_second=(100.0 if side == "A" else 190.0) + number,
                peak_allocated_mib=(2_000.0 if side == "A" else 1_000.0) + number,
            )
            for number, side in enumerate(order)
        ]
        found = compared(runs, runs[order.index("A")].id)
        return found.cells(next(side.id for side in found.sides if side is not found.baseline))

    interleaved, in_blocks = cells("ABBAAB"), cells("AAABBB")
    assert interleaved["samples_per_second"].ratio_interval is not None
    assert in_blocks["samples_per_second"].ratio_interval is None
    assert in_blocks["samples_per_second"].ratio == pytest.approx(194 / 101, rel=1e-3)
    assert in_blocks["peak_memory"].ratio_interval is not None


@pytest.mark.parametrize(
    ("change", "mine", "unlike"),
    [
        ({}, {}, set()),
        ({"batch_size": 128}, {}, {"step_ms", "seconds"}),
        ({}, {"steps": 50}, {"seconds"}),
        ({"label_smoothing": 0.1}, {}, {"final_train_loss"}),
        ({"dataset": "cifar10"}, {}, {"accuracy", "final_train_loss"}),
        (
            {"model": "causal-lm-tiny", "dataset": "synthetic-tokens"},
            {},
            {"samples_per_second", "step_ms", "seconds", "accuracy", "final_train_loss"},
        ),
    ],
)
def test_like_is_set_against_like(
    record: Record, change: dict[str, Any], mine: dict[str, Any], unlike: set[str]
) -> None:
    told = {
        "steps": 100,
        "samples_per_second": 1_000.0,
        "step_ms": 64.0,
        "seconds": 6.4,
        "final_train_loss": 1.0,
        "final_validation_accuracy": 0.5,
    }
    other = record(2, Experiment.model_validate({**FP16.model_dump(), **change}), **{**told, **mine})
    cells = compared([record(1, FP32, **told), other]).cells(other.id)
    known = {name for name, cell in cells.items() if cell.value is not None}
    assert {name for name in known if cells[name].difference is None} == unlike
    assert all(cells[name].ratio is None for name in unlike)


@pytest.mark.parametrize(
    ("value", "base", "text"),
    [
        (1.4686, 1.4684, "+0.001"),
        (1.4684, 1.4686, "−0.001"),
        (1.4684, 1.4681, "0.000"),
        (1.5, 1.25, "+0.250"),
        (math.nan, 1.0, "NaN"),
        (math.inf, 1.0, "+∞"),
    ],
)
def test_a_difference_is_that_of_the_values_shown(value: float, base: float, text: str) -> None:
    assert LOSS.difference_text(value, value - base) == text


def test_units_suit_the_runs(record: Record) -> None:
    small, large = record(1, FP32, peak_resident_mib=512.0), record(2, FP32, peak_resident_mib=2_048.0)
    memory = {figure.name: figure for figure in shown_metrics([small])}["peak_memory"]
    assert (memory.value(small), memory.unit) == (512.0, "MiB")
    memory = {figure.name: figure for figure in shown_metrics([small, large])}["peak_memory"]
    assert (memory.value(small), memory.unit) == (0.5, "GiB")
    text = Experiment(model="causal-lm-tiny", dataset="synthetic-tokens")
    units = [shown_metrics([record(1, FP32), record(2, other)])[0].unit for other in (FP32, text)]
    assert units == ["img/s", "samples/s"]


def test_no_time_and_no_memory_of_an_emulated_fp8_is_compared_with_another(record: Record) -> None:
    bf16, fp8 = (Experiment(precision=name, device="cpu") for name in (Precision.BF16, Precision.FP8))
    summary = {"seconds": 10.0, "peak_resident_mib": 1_024, "final_train_loss": 2.0, "step_ms": 5.0}
    found = compared([record(1, bf16, **summary), record(2, fp8, **{**summary, "seconds": 20.0})])
    cells = found.cells(found.sides[1].id)
    assert cells["seconds"].value == 20.0 and cells["seconds"].ratio is None
    assert cells["peak_memory"].ratio is cells["step_ms"].ratio is None
    assert cells[LOSS.name].difference == pytest.approx(0.0)
    on_card = fp8.model_copy(update={"device": "cuda:0"})
    found = compared([record(1, bf16, **summary), record(2, on_card, **summary)])
    assert found.cells(found.sides[1].id)["seconds"].ratio == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("faster", "best"),
    [
        ({}, "fp16"),
        ({"samples_per_second": None}, "bf16"),
        ({"other_programs_mib": 2_048.0}, "bf16"),
        ({"first_nan_step": 7, "final_train_loss": math.nan}, "bf16"),
        ({"label_smoothing": 0.1}, "bf16"),
    ],
    ids=["sound", "no speed", "disturbed", "diverged", "other settings"],
)
def test_the_best_side_is_the_fastest_that_is_sound(
    record: Record, faster: dict[str, Any], best: str
) -> None:
    figures = {name: value for name, value in faster.items() if name not in Experiment.model_fields}
    settings = {name: value for name, value in faster.items() if name not in figures}
    # neither the first nor the last is the fastest
    runs = [
        record(1, FP32, samples_per_second=800.0),
        record(2, Experiment(precision=Precision.TF32), samples_per_second=1_000.0),
        record(3, FP16.model_copy(update=settings), **{"samples_per_second": 2_000.0, **figures}),
        record(4, Experiment(precision=Precision.BF16), samples_per_second=1_500.0),
        record(5, Experiment(precision=Precision.DEFAULT), samples_per_second=900.0),
    ]
    assert compared(runs).ranked[0].side.precision == best


def test_a_side_that_is_known_to_learn_worse_is_not_the_best(record: Record) -> None:
    def sides(*accuracies: list[float]) -> list[RunRecord]:
        experiments = (FP32, FP16, Experiment(precision=Precision.BF16))
        made = zip(experiments, (1, 101, 201), accuracies, (1.0, 3.0, 2.0), strict=True)
        return [
            dataclasses.replace(run, summary=run.summary.model_copy(update={"samples_per_second": speed}))
            for experiment, first, values, speed in made
            for run in repeats(record, experiment, first, "final_validation_accuracy", values)
            if run.summary is not None
        ]

    alike = [0.60, 0.61, 0.62]
    assert compared(sides(alike, alike, alike)).ranked[0].side.precision == "fp16"
    assert compared(sides(alike, [0.40, 0.41, 0.42], alike)).ranked[0].side.precision == "bf16"
    assert compared(sides(alike, [0.70, 0.71, 0.72], alike)).ranked[0].side.precision == "fp16"


def test_what_a_stopped_run_learned_is_not_compared_with_a_longer_training(record: Record) -> None:
    learned = {"final_train_loss": 0.5, "final_validation_accuracy": 0.6, "skipped_steps": 2}
    speeds = {"samples_per_second": 800.0}
    whole = record(1, FP32, steps=15, **learned, **speeds)
    for steps, status, is_compared in (
        (2, Status.STOPPED, False),
        (2, Status.FAILED, False),
        (15, Status.FINISHED, True),
    ):
        cut = record(2, FP16, steps=steps, status=status, **learned, **speeds)
        cells = compared([whole, cut]).cells(cut.id)
        for name in ("accuracy", "final_train_loss", "skipped_steps"):
            assert (cells[name].difference is not None) == is_compared, (name, status)
        assert cells["samples_per_second"].ratio == 1.0, "its speed is what it is"
    alike = [
        record(number, one, steps=2, status=Status.STOPPED, **learned)
        for number, one in ((1, FP32), (2, FP16))
    ]
    assert compared(alike).cells(alike[1].id)["accuracy"].difference == 0.0
