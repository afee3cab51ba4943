"""A requirement is decided by the bounds of an interval, and undecided where nothing certain is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engine.compare.comparison import Comparison, compare
from engine.compare.evidence import Evidence
from engine.compare.requirement import Judgement, Outcome, judge, judge_saved, parse
from engine.drawing.looks import precision_look
from engine.drawing.requirement_chart import requirement_chart
from engine.drawing.shapes import Box, Stroke
from engine.experiment.command import Command
from engine.experiment.experiment import Experiment, Precision, changed
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.protocol.events import Summary
from engine.store.record import RunRecord, Status
from tests.drawings import assert_legible, texts_of
from tests.records import record_of, script_run

Figures = Sequence[Any]
SPEED, MEMORY, LOSS = "samples_per_second", "peak_allocated_mib", "final_train_loss"
NAMES = {"speed": SPEED, "memory": MEMORY, "time": "seconds", "loss": LOSS}
STEADY = (100.0, 101.0, 100.5)
FAILURE = Problem(kind=Kind.OUT_OF_MEMORY, message="Out of memory.", remedy="Lower the batch.")


def runs_of(side: int, precision: Precision, name: str, values: Figures, **more: Any) -> list[RunRecord]:
    """Return the repeats of a side, which alternate with those of the others (A B B A)."""
    runs = []
    for seed, value in enumerate(values):
        minutes = 10 * seed + (side if seed % 2 == 0 else 9 - side)
        experiment = Experiment(precision=precision, seed=seed)
        figures = {SPEED: 100.0, name: value, **more}
        number = 100 * side + seed + 1
        runs.append(record_of(number, experiment, comparison="c", minutes=minutes, **figures))
    return runs


def compared(*sides: Sequence[RunRecord]) -> Comparison:
    runs = [run for side in sides for run in side]
    return compare([Evidence(run, np.ones(9), ()) for run in runs], runs[0].id)


def outcome(text: str, base: Figures, other: Figures, **more: Any) -> Outcome:
    """Return the outcome of a requirement on two sides with these values of its metric."""
    name = NAMES[text.split()[0]]
    sides = runs_of(0, Precision.FP32, name, base), runs_of(1, Precision.FP16, name, other, **more)
    (found,) = judge(compared(*sides), [parse(text)]).outcomes
    return found


@pytest.mark.parametrize(
    ("text", "canonical", "bound"),
    [
        ("speed >= 1.05", "speed >= 1.05", 1.05),
        ("  Speed>=1 ", "speed >= 1", 1.0),
        ("memory <= 80%", "memory <= 0.8", 0.8),
        ("memory <= 66.7 %", "memory <= 0.667", 0.667),
        ("speed <= 1.1", "speed <= 1.1", 1.1),
        ("Time <= 90%", "time <= 0.9", 0.9),
        ("loss", "loss", 1.0),
    ],
)
def test_a_requirement_is_read_as_people_write_it(text: str, canonical: str, bound: float) -> None:
    requirement = parse(text)
    assert requirement.text == canonical == parse(canonical).text
    assert requirement.bound == pytest.approx(bound, rel=1e-15)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "speed",
            "speed > 1",
            "speed >= 0",
            "speed >= -1",
            "speed >= x",
            "speed >= inf",
            "speed >= 1e3",
        ),
        *("speed >= 1,05", "speed >= 1 memory <= 1", "sped >= 1", "loss <= 2", "1 <= speed", "x" * 200),
    ],
)
def test_wrong_words_are_refused_with_examples(text: str) -> None:
    with pytest.raises(ProblemError) as refused:
        parse(text)
    problem = refused.value.problem
    assert (problem.kind, problem.key, problem.value) == (Kind.REQUEST, "require", text)
    assert "speed >= 1.05" in problem.remedy and len(problem.message) < 200


@pytest.mark.parametrize(
    ("text", "other", "is_met", "reason"),
    [
        ("speed >= 1.05", (150, 151, 152), True, "The lower end of the 95% interval, 1.48, is above 1.05."),
        ("speed >= 1.05", (90, 91, 91.5), False, "The upper end of the 95% interval, 0.92, is below 1.05."),
        ("speed >= 1.05", (95, 130, 110), None, "The 95% interval, 0.76 to 1.61, includes 1.05."),
        ("speed <= 1.05", (90, 91, 91.5), True, "The upper end of the 95% interval, 0.92, is below 1.05."),
        ("speed <= 1.05", (150, 151, 152), False, "The lower end of the 95% interval, 1.48, is above 1.05."),
        ("memory <= 0.8", (70, 71, 70), True, "The upper end of the 95% interval, 0.71, is below 0.8."),
        ("memory <= 0.7", (70, 71, 70), None, "The 95% interval, 0.69 to 0.71, includes 0.7."),
        ("time <= 0.9", (70, 71, 70), True, "The upper end of the 95% interval, 0.71, is below 0.9."),
        # allocations are often the same in every repeat
        ("memory <= 0.8", tuple(0.8 * each for each in STEADY), True, "0.80, is equal to 0.8."),
        ("memory <= 0.799", tuple(0.8 * each for each in STEADY), False, "0.80, is above 0.799."),
        ("memory <= 0.80001", tuple(0.8 * each for each in STEADY), True, "0.80, is below 0.80001."),
        ("memory <= 0.7999999", tuple(0.8 * each for each in STEADY), False, "0.80, is above 0.7999999."),
    ],
)
def test_a_ratio_is_decided_by_the_end_of_its_interval(
    text: str, other: Figures, is_met: bool | None, reason: str
) -> None:
    found = outcome(text, STEADY, other)
    assert found.is_met is is_met and found.reason.endswith(reason)
    assert found.sentence == f"{found.word}: {text}. {found.reason}"


def test_an_end_has_as_many_decimals_as_show_its_side_of_the_bound() -> None:
    exactly = [1.0496 * each for each in STEADY]
    assert outcome("speed >= 1.05", STEADY, exactly).reason.endswith("interval, 1.0496, is below 1.05.")


@pytest.mark.parametrize(
    ("text", "base", "other", "more", "reason"),
    [
        ("speed >= 1.05", (100,), (200,), {}, "Each side has only one run. Use 5 repeats."),
        ("memory <= 0.8", (100,), (50,), {}, "Each side has only one run. Use 5 repeats."),
        ("loss", (1.0,), (0.5,), {}, "Each side has only one run. Use 5 repeats."),
        ("speed >= 1.05", (100, 101), (200,), {}, "A side has too few runs. Use 5 repeats."),
        ("memory <= 0.8", STEADY, (None,) * 3, {}, "FP16 AMP and FP32 have no peak memory to compare."),
        ("loss", STEADY, (None,) * 3, {}, "FP16 AMP and FP32 have no losses to compare."),
        ("loss", (math.inf, 1.0, 1.0), STEADY, {}, "The loss is 100.500 vs. ∞."),
        ("speed >= 1.05", STEADY, (None,) * 3, {}, "FP16 AMP, repeat 1 has no measured throughput."),
    ],
)
def test_without_an_interval_nothing_is_decided(
    text: str, base: Figures, other: Figures, more: dict[str, Any], reason: str
) -> None:
    found = outcome(text, base, other, **more)
    assert found.is_met is None and found.reason.startswith(reason) and found.word == "Cannot tell"


@pytest.mark.parametrize(
    ("base", "other", "is_met", "reason"),
    [
        ((1.0, 1.2, 1.1), (1.15, 1.25, 1.2), True, "1.200 vs. 1.100, within the variation between runs."),
        ((1.0, 1.2, 1.1), (0.1, 0.2, 0.3), True, "0.200 vs. 1.100, which is not higher."),
        ((1.0, 1.2, 1.1), (1.5, 1.6, 1.7), False, "higher by more than the variation between runs."),
        ((1.0, 1.2, 1.1), (1.5, 1.6, math.nan), False, "The loss is NaN vs. 1.100."),
        ((1.0, 1.2, 1.1), (1.0, 1.0, 3.0), None, "the runs of FP16 AMP vary more than those of FP32."),
        (
            (1.0, 1.0, 1.0),
            (1.1, 1.1, 1.1),
            None,
            "All runs of FP32 have the same loss, so its variation is unknown.",
        ),
        ((1.0, 1.0, 1.0), (1.0, 1.0, 1.0), True, "which is not higher."),
    ],
)
def test_a_loss_may_be_as_high_as_the_variation_of_the_baseline(
    base: Figures, other: Figures, is_met: bool | None, reason: str
) -> None:
    found = outcome("loss", base, other)
    assert found.is_met is is_met and found.reason.endswith(reason)


def test_saved_requirements_are_those_of_the_newest_run_and_do_not_part_repeats() -> None:
    required = ("", "speed >= 3", "Speed >= 1.5,, memory<=90% , loss")
    runs = [
        record_of(
            2 * place + side,
            Experiment(seed=place, command=Command(line=line, require=text)),
            comparison="c",
            minutes=10 * place + (side if place % 2 == 0 else 9 - side),
            **{SPEED: 100.0 + 100 * side + place},
        )
        for place, text in enumerate(required)
        for side, line in enumerate(("python train.py", "python train.py --amp"))
    ]
    comparison = compared(runs)
    assert [len(side.runs) for side in comparison.sides] == [3, 3]
    outcomes = judge_saved(comparison).outcomes
    texts = ["speed >= 1.5", "memory <= 0.9", "loss"]
    assert [(one.requirement.text, one.is_met) for one in outcomes] == list(
        zip(texts, (True, None, None), strict=True)
    )
    assert judge_saved(compared(runs[:2])).outcomes == ()


def test_a_disturbed_speed_is_undecided_while_memory_and_loss_stay_valid() -> None:
    busy = {"speed_note": "other programs used 81% of the CPU"}
    found = outcome("speed >= 1.05", STEADY, (200, 201, 202), **busy)
    assert found.is_met is None and "81% of the CPU" in found.reason
    assert found.reason.endswith("Measure again.")
    assert outcome("memory <= 0.8", STEADY, (70, 71, 70), **busy).is_met is True


@pytest.mark.parametrize(
    ("status", "is_met", "reason"),
    [(Status.FAILED, False, " failed."), (Status.STOPPED, None, "was stopped before the end.")],
)
@pytest.mark.parametrize("is_baseline", [True, False])
def test_a_failed_run_of_either_side_fails_and_an_unfinished_one_decides_nothing(
    status: Status, is_met: bool | None, reason: str, is_baseline: bool
) -> None:
    problem = FAILURE if status is Status.FAILED else None
    sides = [runs_of(0, Precision.FP32, SPEED, STEADY), runs_of(1, Precision.FP16, SPEED, STEADY)]
    side = sides[0 if is_baseline else 1]
    side[1] = replace(side[1], status=status, problem=problem)
    for outcome in judge(compared(*sides), [parse("speed >= 0.1"), parse("loss")]).outcomes:
        assert outcome.is_met is is_met and outcome.reason.endswith(reason)


def test_scripts_that_were_ended_after_their_steps_have_no_time_to_require() -> None:
    lines = ("python train.py", "python train.py --amp")
    runs = [script_run(number, lines[number % 2], observed={}, **{SPEED: 9.0}) for number in range(4)]
    (found,) = judge(compared(runs), [parse("time <= 0.9")]).outcomes
    assert found.is_met is None and found.reason.endswith("have no training time to compare.")


def test_whole_scripts_with_different_numbers_of_steps_and_samples_have_a_time_to_require() -> None:
    lines = ("python train.py", "torchrun --nproc-per-node 2 train.py")
    runs = []
    for number in range(6):
        figures = {SPEED: 9.0, "seconds": (100.0, 50.0)[number % 2] + number / 10}
        run = script_run(number, lines[number % 2], observed={"batch_size": 12 - number % 2})
        summary = Summary(steps=200 - number % 2, **figures)
        whole = changed(run.experiment, {"command.whole": True})
        runs.append(replace(run, experiment=whole, summary=summary))
    (found,) = judge(compared(runs), [parse("time <= 0.9")]).outcomes
    assert found.is_met is True
    # one that was stopped did not train as long
    runs[-1] = replace(runs[-1], status=Status.STOPPED)
    (found,) = judge(compared(runs), [parse("time <= 0.9")]).outcomes
    assert found.is_met is None


def test_runs_that_were_not_interleaved_say_so() -> None:
    base = runs_of(0, Precision.FP32, SPEED, STEADY)
    late = [
        record_of(
            run.number,
            run.experiment,
            comparison="d",
            minutes=500 + place,
            samples_per_second=200.0 + place,
        )
        for place, run in enumerate(runs_of(1, Precision.FP16, SPEED, STEADY))
    ]
    (found,) = judge(compared(base, late), [parse("speed >= 1.05")]).outcomes
    assert found.is_met is None and "not interleaved" in found.reason


def test_each_side_is_judged_and_one_failure_decides() -> None:
    comparison = compared(
        runs_of(0, Precision.FP32, SPEED, STEADY),
        runs_of(1, Precision.FP16, SPEED, (200, 201, 202)),
        runs_of(2, Precision.BF16, SPEED, (100, 101, 102)),
    )
    judgement = judge(comparison, [parse("speed >= 1.5")])
    assert [(each.name, each.is_met) for each in judgement.outcomes] == [
        ("speed >= 1.5 (FP16 AMP)", True),
        ("speed >= 1.5 (BF16 AMP)", False),
    ]
    assert (judgement.passed, judgement.exit_status) == (False, 1)
    assert judgement.outcomes[0].to_dict() == {
        "requirement": "speed >= 1.5",
        "side": "FP16 AMP",
        "met": True,
        "sentence": judgement.outcomes[0].reason,
    }
    met, not_met = judgement.outcomes
    undecided = outcome("speed >= 1.05", (100,), (200,))
    assert (Judgement((met,)).passed, Judgement((met,)).exit_status) == (True, 0)
    assert Judgement((undecided,)).exit_status == 3
    assert Judgement((met, undecided)).passed is None and Judgement(()).passed is None
    assert Judgement((undecided, not_met)).passed is False


@pytest.mark.parametrize(
    ("text", "other", "labels", "refused"),
    [
        ("speed >= 1.05", (120, 121, 119), ["1.05 required", "1.19×"], "left"),
        ("speed >= 3", (120, 121, 119), ["3 required", "1.19×"], "left"),
        ("memory <= 80%", (70, 71, 70), ["0.8 required", "0.70×"], "right"),
        ("speed >= 1.05", (120,), ["1.05 required", "1.19×"], "left"),
    ],
)
def test_the_refused_side_of_the_bound_is_hatched(
    text: str, other: Figures, labels: list[str], refused: str
) -> None:
    found = outcome(text, STEADY, other)
    drawing = requirement_chart(found, precision_look(Precision.FP16), 312, 84)
    assert texts_of(drawing)[-2:] == labels
    assert_legible(drawing)
    (bound,) = (shape for shape in drawing.shapes if isinstance(shape, Box) and shape.ink == "text")
    lines = (shape.points for shape in drawing.shapes if isinstance(shape, Stroke))
    hatched = [x for (x, y), (end, down) in lines if x != end and y != down for x in (x, end)]
    assert max(hatched) <= bound.x + 1 if refused == "left" else min(hatched) >= bound.x + 1
    low = requirement_chart(found, precision_look(Precision.FP16), 112, 24)
    assert texts_of(low) == [] and low.description == found.sentence
