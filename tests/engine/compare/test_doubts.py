"""A comparison is clean, or it says in a sentence why not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from engine.compare.comparison import compare
from engine.compare.evidence import Doubt, Evidence, block_speeds, evidence_of, was_slowed_down
from engine.compare.metrics import SPEED as SPEED_FIGURE
from engine.compare.metrics import UNCHANGED, metric_row
from engine.compare.metrics import shown_metrics as table
from engine.compare.ranking import quiet_clauses
from engine.compare.sides import Side
from engine.curves import Curves
from engine.experiment.experiment import Experiment, Measure, Optimizer, Precision, Scaler, Step
from engine.experiment.problem import Kind, Problem
from engine.protocol.events import Epoch, Finished, Samples, Started, Summary
from engine.statistics import drift
from engine.store.record import RunRecord, Status
from engine.store.store import Store
from tests.engine.conftest import ENVIRONMENT

Record = Callable[..., RunRecord]
FP32, FP16 = Experiment(), Experiment(precision=Precision.FP16)
SPEED = {"samples_per_second": 100.0, "recipe": "plain"}
HOT = {"speed_note": "the card's clocks were held down by heat", "slowed_by": ("heat",)}


def doubts(base: RunRecord, *others: RunRecord, blocks: int = 9) -> list[Doubt]:
    evidence = [Evidence(run, np.ones(blocks), ()) for run in (base, *others)]
    found = compare(evidence, base.id)
    assert found.has_no_doubts == (not any(report.doubts for report in found.reports))
    return list(found.reports[-1].doubts)


def only(found: list[Doubt]) -> tuple[str, str]:
    assert len(found) == 1, found
    return found[0].kind, found[0].sentence


def test_what_is_compared_and_what_does_not_matter_is_no_doubt(record: Record) -> None:
    assert doubts(record(1, FP32, **SPEED), record(2, FP16, **SPEED)) == []
    assert doubts(record(1, FP32, **SPEED), record(2, FP16, **SPEED, other_programs_mib=300.0)) == []
    other = FP16.model_copy(
        update={
            "step": Step(recipe="fast", autocast_tf32=True),
            "batch_size": 128,
            "scaler": Scaler(init_scale=1.0),
            "on_nan": "stop",
        }
    )
    assert doubts(record(1, FP32, **SPEED), record(2, other, **{**SPEED, "recipe": "fast"})) == []


def test_repeats_on_two_nodes_have_no_ratio_and_are_told(record: Record) -> None:
    nodes = [ENVIRONMENT.model_copy(update={"node": node}) for node in ("n1", "n2")]
    base, other = (
        record(number, experiment, environment=node, comparison="c", **SPEED)
        for number, (experiment, node) in enumerate(zip((FP32, FP16), nodes, strict=True), 1)
    )
    found, sentence = only(doubts(base, other))
    assert found == "node" and "was trained on n2" in sentence and "on n1" in sentence
    cell = metric_row(SPEED_FIGURE, [Side((other,), "B")], Side((base,), "A"), {}).cells[0]
    assert cell.ratio is None and cell.value == 100.0


@pytest.mark.parametrize(
    ("figures", "kind", "disqualifies", "words"),
    [
        ({"other_programs_mib": 2_048.0}, "other-program", True, "other programs used 2.0 GiB"),
        ({"speed_note": "other programs used 40% of the CPU"}, "other-program", True, "used 40%"),
        (HOT, "throttled", True, "held down by heat"),
        ({"spilled_mib": 3_072.0}, "spilled", True, "the driver moved 3.0 GiB to system memory"),
        ({"first_nan_step": 1_200}, "nan", False, "a NaN or infinite loss since step 1,200"),
        ({"final_train_loss": float("inf")}, "nan", False, "a NaN or infinite loss"),
        ({"unchanged_weights_fraction": 0.9}, "lost-updates", False, "left 90% of its weights unchanged"),
    ],
)
def test_a_run_that_suffered_is_doubted_or_disqualified(
    record: Record, figures: dict[str, Any], kind: str, disqualifies: bool, words: str
) -> None:
    run = record(2, FP16, **{**SPEED, **figures})
    (doubt,) = doubts(record(1, FP32, **SPEED), run)
    assert doubt.kind == kind and words in doubt.sentence and doubt.sentence.startswith("FP16 AMP")
    assert doubt.disqualifies is was_slowed_down(run.summary) is disqualifies


@pytest.mark.parametrize(
    ("repeats", "disturbed", "kind"),
    [(8, {2, 5}, "excluded"), (6, {2, 5}, "other-program"), (12, set(range(7)), "other-program")],
)
def test_the_times_of_a_few_disturbed_repeats_are_excluded(
    record: Record, repeats: int, disturbed: set[int], kind: str
) -> None:
    busy = {"speed_note": "other programs used 40% of the CPU"}
    runs = []
    for repeat in range(repeats):
        for place, precision in enumerate((FP32, FP16)):
            # the baseline of a disturbed repeat was slow, and its partner was not
            note = busy if repeat in disturbed and not place else {}
            figures = {"samples_per_second": (1.0 if note else 100.0, 200.0)[place], "final_train_loss": 1.0}
            seeded = precision.model_copy(update={"seed": repeat})
            runs.append(record(len(runs) + 1, seeded, comparison="c", **figures, **note))
    comparison = compare([Evidence(run, np.ones(9), ()) for run in runs])
    base, other = (comparison.cells(side.id) for side in comparison.sides)
    report = comparison.reports[1]
    assert {doubt.kind for doubt in report.doubts} >= {kind}
    is_excluded = kind == "excluded"
    assert bool(report.disqualifiers) is not is_excluded
    assert len(other[SPEED_FIGURE.name].known) == (repeats - len(disturbed) if is_excluded else repeats)
    assert len(base["final_train_loss"].known) == repeats
    if is_excluded:
        assert other[SPEED_FIGURE.name].ratio == pytest.approx(2)
        assert f"{repeats - len(disturbed)} runs each" in " ".join(quiet_clauses(comparison, report))
        (doubt,) = report.doubts
        assert doubt.sentence == (
            "FP32, repeat 3 was disturbed: other programs used 40% of the CPU. The times of this repeat are "
            "excluded. The same applies to 1 more of its runs."
        )


def test_a_disturbed_repeat_with_a_run_without_throughput_is_excluded_too(record: Record) -> None:
    busy = {"speed_note": "other programs used 40% of the CPU"}
    runs = []
    for repeat in range(7):
        for place, precision in enumerate((FP32, FP16)):
            figures = {"samples_per_second": 100.0, **(busy if repeat == 2 and place else {})}
            if repeat == 2 and not place:
                figures = {"samples_per_second": None}
            seeded = precision.model_copy(update={"seed": repeat})
            runs.append(record(len(runs) + 1, seeded, comparison="c", **figures))
    report = compare([Evidence(run, np.ones(9), ()) for run in runs]).reports[1]
    assert not report.disqualifiers and "excluded" in {doubt.kind for doubt in report.doubts}


def test_the_parts_of_a_gain_exclude_the_same_repeats(record: Record) -> None:
    fast = FP16.model_copy(update={"step": Step(recipe="fast")})
    busy = {"speed_note": "other programs used 40% of the CPU"}
    runs = []
    for repeat in range(6):
        for experiment, speed in ((FP32, 100.0), (FP16, 200.0), (fast, 300.0)):
            seeded = experiment.model_copy(update={"seed": repeat})
            is_slow = repeat == 3 and experiment is not fast
            figures = {"samples_per_second": speed / 2 if is_slow else speed, "environment": ENVIRONMENT}
            figures |= busy if is_slow else {}
            recipe = experiment.step.recipe
            runs.append(record(len(runs) + 1, seeded, comparison="c", recipe=recipe, **figures))
    comparison = compare([Evidence(run, np.ones(9), ()) for run in runs])
    (report,) = (report for report in comparison.reports if report.side.is_named_fast)
    assert report.verdict.speedup == pytest.approx(3)
    assert report.split is not None
    factors = {factor.name: factor.ratio for factor in report.split.factors}
    assert factors == {"precision": pytest.approx(2), "recipe": pytest.approx(1.5)}


def test_what_the_sides_have_not_in_common_is_told(record: Record) -> None:
    base = record(1, FP32, **SPEED, first_nan_step=3)
    assert only(doubts(base, record(2, FP16, **SPEED)))[0] == "nan"
    other = FP16.model_copy(update={"optimizer": Optimizer(learning_rate=0.1)})
    found = doubts(record(1, FP32, **SPEED), record(2, other, **SPEED))
    assert only(found) == ("setting", "Differs from the baseline in learning rate: 0.1 vs. 0.001.")
    fast = {"step": Step(recipe="fast")}
    base = record(1, FP32.model_copy(update=fast), **{**SPEED, "recipe": "fast"})
    other = record(2, FP16.model_copy(update=fast), **{**SPEED, "recipe": "fused"})
    assert only(doubts(base, other)) == (
        "setting",
        "Applied optimizations: fused for FP16 AMP, fast for FP32.",
    )
    # earlier versions had the same counters, without a name
    earlier, later = ({**SPEED, "recipe": f"fused{part}"} for part in ("", "+host_counters"))
    other = record(2, FP16.model_copy(update=fast), **later)
    assert doubts(record(1, FP32.model_copy(update=fast), **earlier), other) == []


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (Status.STOPPED, "was stopped."),
        (Status.RUNNING, "is still training."),
        (Status.FAILED, "failed: CUDA out of memory."),
    ],
)
def test_a_run_that_did_not_end_well_is_unfinished(record: Record, status: Status, words: str) -> None:
    problem = Problem(kind=Kind.OUT_OF_MEMORY, message="CUDA out of memory.", remedy="Less.")
    broken = record(2, FP16, status=status, **SPEED)
    if status is Status.FAILED:
        broken = dataclasses.replace(broken, problem=problem)
    kind, sentence = only(doubts(record(1, FP32, **SPEED), broken))
    assert kind == "unfinished" and sentence.endswith(words)


@pytest.mark.parametrize(("blocks", "kind"), [(3, "too-short"), (9, "no-speed")])
def test_a_run_without_a_speed_says_why(record: Record, blocks: int, kind: str) -> None:
    mute = record(2, FP16, speed_note="A speed needs more.")
    found = doubts(record(1, FP32, **SPEED), mute, blocks=blocks)
    assert only(found) == (kind, "FP16 AMP has no measured throughput: a speed needs more.")


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ({"device_name": "another"}, "device", "was measured on another and FP32 on a card."),
        ({"torch": "2.15"}, "version", "with PyTorch 2.15 and FP32 with PyTorch 2.11."),
        ({"cuda": "13.0"}, "version", "with CUDA 13.0 and FP32 with CUDA none."),
        ({"driver": "580"}, "version", "with driver 580 and FP32 with driver none."),
    ],
)
def test_other_machines_and_versions_are_told(
    record: Record, change: dict[str, str], kind: str, words: str
) -> None:
    base = record(1, FP32, **SPEED)
    assert base.environment is not None
    other = record(2, FP16, environment=base.environment.model_copy(update=change), **SPEED)
    found, sentence = only(doubts(base, other))
    assert found == kind and sentence.endswith(words)


def test_clocks_that_differ_between_repeats_are_told(record: Record) -> None:
    base = record(1, FP32, **SPEED)
    repeats = [
        record(n, FP16.model_copy(update={"seed": n}), **SPEED, clock_mhz=mhz)
        for n, mhz in ((2, 1_980.0), (3, 1_410.0))
    ]
    kind, sentence = only(doubts(base, *repeats))
    assert kind == "throttled" and "between 1,410 and 1,980 MHz" in sentence


@pytest.mark.parametrize(("end", "words"), [(0.7, "30% slower"), (1.4, "40% faster")])
def test_a_speed_that_slides_is_told(record: Record, end: float, words: str) -> None:
    base, other = record(1, FP32, **SPEED), record(2, FP16, **SPEED)
    sliding = np.concatenate((np.ones(20), np.full(20, end)))
    found = compare([Evidence(base, np.ones(40), ()), Evidence(other, sliding, ())], base.id)
    kind, sentence = only(list(found.reports[-1].doubts))
    assert kind == "drift" and sentence == f"FP16 AMP was {words} at the end than at the start."
    assert not found.reports[-1].disqualifiers, "what it gained may be concluded, with the doubt beside it"


def test_a_single_sliding_repeat_is_no_drift_of_its_side_and_most_of_them_are(record: Record) -> None:
    base, steady = record(1, FP32, **SPEED), np.ones(40)
    repeats = [record(n, FP16.model_copy(update={"seed": n}), **SPEED) for n in (2, 3, 4)]
    sliding = np.concatenate((np.ones(20), np.full(20, 0.7)))

    def about(*courses: np.ndarray) -> list[str]:
        found = [Evidence(run, blocks, ()) for run, blocks in zip(repeats, courses, strict=True)]
        last = compare([Evidence(base, steady, ()), *found], base.id).reports[-1]
        return [doubt.sentence for doubt in last.doubts if doubt.kind == "drift"]

    assert about(sliding, steady, steady) == []
    assert about(sliding, steady, sliding[::-1]) == [], "one way and the other is no drift"
    assert about(steady, sliding, sliding) == [
        "FP16 AMP, repeat 2 was 30% slower at the end than at the start. The same applies "
        "to 1 more of its runs."
    ]


@pytest.mark.parametrize("from_blocks", [True, False])
def test_a_wide_interval_within_a_run_is_told(record: Record, from_blocks: bool) -> None:
    # without an order, or it would drift
    uneven = np.tile([964.0, 1_500.0, 2_313.0], 4)
    own = {} if from_blocks else {"samples_per_second_ci": (964.0, 2_313.0)}
    base, other = record(1, FP32, **SPEED), record(2, FP16, **SPEED, **own)
    evidence = [Evidence(base, np.ones(9), ()), Evidence(other, uneven if from_blocks else np.ones(9), ())]
    found = compare(evidence, base.id).reports[-1]
    assert only(list(found.doubts)) == (
        "unsteady",
        "FP16 AMP varied in throughput between 964 and 2,313 samples/s.",
    )
    assert not found.disqualifiers and "Caution: " in found.text


def test_a_steady_run_has_no_wide_interval(record: Record) -> None:
    base, other = record(1, FP32, **SPEED), record(2, FP16, **SPEED, samples_per_second_ci=(90.0, 110.0))
    assert doubts(base, other) == []


def test_an_order_that_goes_with_the_side_is_told(record: Record) -> None:
    def run(number: int, experiment: Experiment) -> RunRecord:
        return record(number, experiment.model_copy(update={"seed": number}), minutes=number, **SPEED)

    in_blocks = [run(1, FP32), run(2, FP32), run(3, FP16), run(4, FP16)]
    kind, sentence = only(doubts(*in_blocks))
    assert kind == "order"
    assert sentence.startswith("The runs of FP16 AMP and FP32 were not interleaved")
    assert doubts(run(1, FP32), run(2, FP16), run(3, FP16), run(4, FP32)) == []
    assert doubts(run(1, FP32), run(2, FP16)) == [], "a single pair claims no interval"


def test_outliers_of_one_side_leave_no_interval(record: Record) -> None:
    speeds = [(1_000, 1_900), (1_001, 1_902), (999, 1_905), (1_000, 1_500), (1_002, 1_901), (1_001, 1_600)]
    runs = []
    for seed, pair in enumerate(speeds):
        for experiment, speed in zip((FP32, FP16), pair, strict=True):
            own = experiment.model_copy(update={"seed": seed})
            runs.append(record(len(runs) + 1, own, samples_per_second=float(speed)))
    found = compare([Evidence(run, np.empty(0), ()) for run in runs]).reports[1]
    ((kind, sentence),) = [(doubt.kind, doubt.sentence) for doubt in found.doubts]
    assert kind == "outliers"
    assert sentence == (
        "Only FP16 AMP has outliers among its repeats (1,500 to 1,905 samples/s). No interval is given."
    )
    assert found.verdict.speedup_ci is None and "outliers on one side: no confidence interval" in found.text


SHORT = Experiment(measure=Measure(warmup_steps=2, block_steps=3))


def test_blocks_are_whole_and_begin_after_the_warm_up_which_compiling_prolongs(
    record: Callable[..., RunRecord],
) -> None:
    run = record(1, SHORT)
    speeds = np.array([1.0, 1.0, 2.0, 4.0, 4.0, 9.0, 9.0, 9.0, 5.0])
    np.testing.assert_allclose(block_speeds(run, {"samples_per_second": speeds}), [3.0, 9.0])
    assert len(block_speeds(run, {})) == 0
    broken = np.array([1.0, 1.0, np.nan, 4.0, 4.0, 0.0, 9.0, 9.0])
    assert len(block_speeds(run, {"samples_per_second": broken})) == 0
    run = record(1, SHORT, compile_seconds=30.0, warmup_seconds=32.0)
    columns = {
        "samples_per_second": np.array([1.0, 1.0, 0.1, 1.0, 5.0, 5.0, 5.0]),
        "seconds": np.array([0.5, 1.0, 31.0, 32.0, 32.2, 32.4, 32.6]),
    }
    np.testing.assert_allclose(block_speeds(run, columns), [5.0])


def test_evidence_is_read_from_the_store(
    store: Store, started: Callable[..., Started], batch: Callable[..., Samples]
) -> None:
    whole, empty = store.add(SHORT), store.add(SHORT)
    slow = "FP16 AMP is slow here"
    epoch = Epoch(epoch=1, step=8, seconds=0.1, train_loss=1.0)
    begun = started(SHORT).model_copy(update={"hardly_faster": slow})
    store.record(whole.id, [begun, batch(1, 8), epoch, Finished(summary=Summary())])
    found = evidence_of(store, [store.run(whole.id), empty])
    assert [one.run.id for one in found] == [whole.id, empty.id]
    np.testing.assert_allclose(found[0].block_speeds, [1_000.0, 1_000.0])
    assert (found[0].epochs, found[0].little_gain_reason) == ((epoch,), slow)
    assert len(found[1].block_speeds) == 0 and found[1].epochs == ()


def test_a_run_of_merged_steps_has_the_evidence_of_all_of_them(record: Callable[..., RunRecord]) -> None:
    generator = np.random.default_rng(0)
    run = record(1, Experiment(measure=Measure(warmup_steps=10, block_steps=10)))
    steps = np.arange(1.0, 1_000_001)
    speeds = np.where(steps <= 500_000, 1_000.0, 1_300.0) * generator.normal(1, 0.02, len(steps))
    speeds[:10] = 1.0
    whole = {"step": steps, "samples_per_second": speeds}
    curves = Curves()
    curves.extend(whole)
    curves.merge_all()
    merged = curves.bins()
    blocks, all_blocks = block_speeds(run, merged), block_speeds(run, whole)
    assert 10_000 < len(blocks) < 40_000 < len(all_blocks)
    assert drift(blocks) == pytest.approx(drift(all_blocks), rel=0.01)
    assert 1 / np.mean(1 / blocks) == pytest.approx(1 / np.mean(1 / all_blocks), rel=1e-4)
    few = record(2, Experiment(measure=Measure(warmup_steps=10, block_steps=100_000)))
    np.testing.assert_allclose(block_speeds(few, merged), block_speeds(few, whole), rtol=1e-3)
    run = record(1, SHORT, compile_seconds=30.0, warmup_seconds=32.0)
    columns = {
        "step": np.array([4.0, 8.0, 12.0, 16.0]),
        "seconds": np.array([31.0, 32.2, 32.4, 32.6]),
        "samples_per_second": np.array([1.0, 2.0, 5.0, 5.0]),
    }
    np.testing.assert_allclose(block_speeds(run, columns), [5.0, 5.0])


def test_weights_left_unchanged_are_a_row_only_where_a_run_tells_them(record: Record) -> None:
    pure = Experiment(precision=Precision.BF16_PURE)
    run = record(2, pure, **SPEED, unchanged_weights_fraction=0.05)
    shown = [UNCHANGED in table([one]) for one in (run, record(1, FP32, **SPEED))]
    assert shown == [True, False]
    assert UNCHANGED.text_with_unit(UNCHANGED.value(run)) == "5.0%"
    # stochastically rounded, they are not lost
    rounded = Experiment(precision=Precision.BF16_PURE, optimizer=Optimizer(stochastic_rounding=True))
    moved = {**SPEED, "unchanged_weights_fraction": 0.9}
    found = doubts(record(1, FP32, **SPEED), record(2, rounded, **moved))
    assert not any(doubt.kind == "lost-updates" for doubt in found)
