"""The precision is never credited with what the recipe or the batch did."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest

from engine.compare.comparison import SideReport, compare
from engine.compare.evidence import Evidence
from engine.compare.split import Split
from engine.experiment.experiment import Experiment, Optimizer, Precision, Step
from engine.protocol.events import Environment
from engine.store.record import RunRecord, Status, UnparsedJson
from tests.engine.conftest import ENVIRONMENT

Record = Callable[..., RunRecord]
GPU = ENVIRONMENT.model_copy(update={"device_name": "a GPU", "torch": "2.15", "cuda": "13.0"})


def experiment(precision: str, recipe: str = "plain", batch: int = 64) -> Experiment:
    return Experiment(precision=Precision(precision), step=Step(recipe=recipe), batch_size=batch)


@pytest.fixture
def run(record: Record) -> Callable[..., RunRecord]:
    numbers = iter(range(1, 100))

    def make(asked: Experiment, speed: float | None, environment: Environment = GPU) -> RunRecord:
        return record(next(numbers), asked, samples_per_second=speed, environment=environment)

    return make


def report(base: RunRecord, side: RunRecord, others: Sequence[RunRecord] = ()) -> SideReport:
    evidence = [Evidence(one, np.ones(9), ()) for one in (base, side)]
    return compare(evidence, base.id, others=others).report(side.id)


def repeats(record: Record, first: int, asked: Experiment, speeds: Sequence[float]) -> list[Evidence]:
    runs = (
        record(
            first + seed,
            asked.model_copy(update={"seed": seed}),
            comparison="c",
            environment=GPU,
            samples_per_second=speed,
        )
        for seed, speed in enumerate(speeds)
    )
    return [Evidence(run, np.ones(9), ()) for run in runs]


def split(base: RunRecord, side: RunRecord, others: Sequence[RunRecord] = ()) -> Split:
    found = report(base, side, others).split
    assert found is not None
    return found


def factors(found: Split) -> dict[str, float]:
    return {factor.name: round(factor.ratio, 3) for factor in found.factors}


def test_a_gain_is_split_in_both_orders_from_all_four_corners(run: Record) -> None:
    base, side = run(experiment("fp32"), 880.0), run(experiment("fp16", "fast"), 5_001.0)
    others = [run(experiment("fp16"), 1_663.0), run(experiment("fp32", "fast"), 1_100.0)]
    found = split(base, side, others)
    assert found.total == pytest.approx(5_001 / 880)
    assert factors(found) == {"precision": 1.890, "recipe": 3.007}
    assert [factor.name for factor in found.other_order] == ["recipe", "precision"]
    assert found.other_order[1].ratio == pytest.approx(5_001 / 1_100)
    assert np.prod([factor.ratio for factor in found.factors]) == pytest.approx(found.total)
    assert np.prod([factor.ratio for factor in found.other_order]) == pytest.approx(found.total)
    assert found.missing == () and found.versus_default is None
    assert found.sentence == (
        "1.89 times as fast from the precision, another 3.01 times as fast from optimizations (fast). "
        "In the other order: 1.25 times as fast from optimizations (fast), "
        "another 4.55 times as fast from the precision"
    )


def test_a_missing_corner_is_ready_to_be_run(run: Record) -> None:
    base, side = run(experiment("fp32"), 880.0), run(experiment("fp16", "fast"), 5_001.0)
    found = split(base, side)
    assert found.factors == () and found.other_order == ()
    assert found.missing == (experiment("fp16"), experiment("fp32", "fast"))
    assert "run FP16 AMP (plain, batch size 64) and FP32 (fast, batch size 64) to see" in found.sentence
    half = split(base, side, [run(experiment("fp16"), 1_663.0)])
    assert factors(half) == {"precision": 1.890, "recipe": 3.007}
    assert half.other_order == () and half.missing == (experiment("fp32", "fast"),)


def test_a_part_of_the_gain_that_is_a_side_too_has_that_sides_ratio(record: Record) -> None:
    """Runs of the same settings but for the lr are another side; together they would give another ratio."""
    plain, amp = experiment("fp32"), experiment("fp16")
    faster = amp.model_copy(update={"optimizer": Optimizer(learning_rate=0.1)})
    base = repeats(record, 1, plain, (1_000.0, 900.0))
    others = (amp, (1_100.0, 1_080.0)), (experiment("fp16", "fast"), (3e3, 3e3)), (faster, (2e3, 2e3))
    sides = [repeats(record, 10 * n, *other) for n, other in enumerate(others, 1)]
    found = compare([*base, *chain(*sides)], base[0].run.id)
    alone, fast = found.reports[1:3]
    assert fast.split is not None
    assert fast.split.factors[0].ratio == alone.verdict.speedup == pytest.approx(1.149, abs=0.001)


def test_what_disturbed_a_side_is_credited_to_nothing_though_it_is_shown(run: Record, record: Record) -> None:
    base, side = run(experiment("fp32"), 880.0), run(experiment("fp16", "fast"), 5_001.0)
    note = {"speed_note": "other programs used 69% of the CPU", "environment": GPU}
    corner = record(90, experiment("fp16"), samples_per_second=100.0, **note)
    evidence = [Evidence(one, np.ones(9), ()) for one in (base, side, corner)]
    reports = compare(evidence, base.id).reports
    assert reports[1].split is not None and reports[1].split.factors == ()
    assert experiment("fp16") in reports[1].split.missing and reports[2].split is None


def test_each_change_is_a_factor_which_may_cost_speed(run: Record) -> None:
    base, side = run(experiment("fp32"), 1_000.0), run(experiment("fp16", "fast"), 3_000.0)
    found = split(base, side, [run(experiment("fp32", "fast"), 4_000.0)])
    parts = "4.00 times as fast from optimizations (fast), but only 0.75 times as fast from the precision"
    assert parts in found.sentence
    base, side = run(experiment("fp32"), 100.0), run(experiment("fp16", "fast", 256), 800.0)
    others = [run(experiment("fp16"), 200.0), run(experiment("fp16", "fast"), 600.0)]
    found = split(base, side, others)
    assert factors(found) == {"precision": 2.0, "recipe": 3.0, "batch": 1.333}
    assert found.missing == (experiment("fp32", "fast"), experiment("fp32", "fast", 256))
    assert "another 1.33 times as fast from the batch size of 256" in found.sentence


def test_there_is_nothing_to_split_where_one_thing_or_too_much_differs(run: Record) -> None:
    found = report(run(experiment("fp32"), 1.0), run(experiment("fp16"), 2.0))
    assert found.split is None
    base = run(experiment("fp32"), 1.0)
    assert report(base, base).split is None
    found = split(run(experiment("fp16"), 1_000.0), run(experiment("fp16", "fast"), 3_000.0))
    assert factors(found) == {"recipe": 3.0} and found.missing == ()
    assert found.sentence == "all of it from optimizations (fast)"
    base = run(experiment("fp32"), 880.0)
    larger = experiment("fp16", "fast").model_copy(update={"image_size": 64})
    assert report(base, run(larger, 1.0)).split is None
    assert report(base, run(experiment("fp16", "fast"), None)).split is None


def test_the_gain_against_pytorchs_default_is_told_where_it_is_known(run: Record) -> None:
    base, side = run(experiment("fp32"), 880.0), run(experiment("fp16"), 1_663.0)
    found = split(base, side, [run(experiment("default"), 1_500.0)])
    assert found.versus_default == pytest.approx(1_663 / 1_500)
    assert "PyTorch's default (convolutions in TF32): 1.11 times as fast" in found.sentence
    processor = GPU.model_copy(update={"cuda": None})
    pair = [run(experiment("fp32"), 1.0, processor), run(experiment("bf16"), 2.0, processor)]
    assert report(pair[0], pair[1], [run(experiment("default"), 1.0, processor)]).split is None


def test_corners_are_whole_undisturbed_runs_of_the_same_work_on_the_same_machine(
    run: Record, record: Record
) -> None:
    base, side = run(experiment("fp32"), 880.0), run(experiment("fp16", "fast"), 5_001.0)
    told = {"samples_per_second": 1.0, "environment": GPU}
    strangers = [
        run(experiment("fp16"), 1.0, GPU.model_copy(update={"device_name": "another"})),
        run(experiment("fp16"), 1.0, GPU.model_copy(update={"torch": "2.11"})),
        run(experiment("fp16"), 1.0, GPU.model_copy(update={"driver": "580"})),
        run(experiment("fp16", batch=32), 1.0),
        run(experiment("fp16").model_copy(update={"model": "resnet18"}), 1.0),
        run(experiment("fp16"), None),
        record(90, experiment("fp16"), speed_note="the GPU's clocks were throttled by heat", **told),
        record(91, experiment("fp16"), other_programs_mib=9_000.0, **told),
        record(99, experiment("fp16"), status=Status.STOPPED, **told),
    ]
    for stranger in strangers:
        assert split(base, side, [stranger]).factors == (), stranger
    slower = experiment("fp16").model_copy(
        update={"optimizer": Optimizer(learning_rate=0.1), "seed": 7, "steps": 500, "epochs": None}
    )
    newer = replace(run(experiment("fp16"), 1.0))
    newer.__dict__["experiment"] = UnparsedJson('{"from_a_newer_version": 1}')
    assert factors(split(base, side, [newer, run(slower, 1_663.0)]))["precision"] == 1.890


def test_the_factors_make_up_the_ratio_that_the_verdict_tells(record: Record) -> None:
    drift = [1_000.0, 1_300.0, 700.0]
    fast = [speed * (5.0 + 0.3 * seed) for seed, speed in enumerate(drift)]
    base = repeats(record, 0, experiment("fp32"), drift)
    evidence = [*base, *repeats(record, 10, experiment("fp16", "fast"), fast)]
    corner = record(50, experiment("fp16"), environment=GPU, samples_per_second=1_800.0)
    found = compare(evidence, evidence[0].run.id, others=[corner]).reports[1]
    assert found.split is not None and found.verdict.speedup is not None
    assert math.prod(factor.ratio for factor in found.split.factors) == pytest.approx(found.verdict.speedup)
    assert found.split.total == pytest.approx(found.verdict.speedup)
