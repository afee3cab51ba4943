"""The payback of compiling: the step at which the slower start is made up for, or never."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from engine.compare.comparison import SideReport, compare
from engine.compare.evidence import Evidence
from engine.experiment.experiment import Experiment, changed
from engine.protocol.summary import Compilation
from engine.store.record import RunRecord

Record = Callable[..., RunRecord]
PLAIN = Experiment(batch_size=1)
COMPILED = changed(PLAIN, {"step.recipe": "compile"})
TUNED = changed(COMPILED, {"step.compile_mode": "max-autotune"})


def figures(step_ms: float, start: float, *, cached: bool | None = None, **more: Any) -> dict[str, Any]:
    """The figures of a run whose steady steps take `step_ms`, and which lost `start` seconds in 10 steps."""
    times = {"step_ms": step_ms, "samples_per_second": 1e3 / step_ms, "steps": 500}
    warm_up = {"warmup_steps": 10, "warmup_seconds": start + step_ms / 100}
    known = {} if cached is None else {"compilation": Compilation(is_cached=cached)}
    return {**times, **warm_up, **known, **more}


def report(record: Record, *sides: tuple[Experiment, list[dict[str, Any]]]) -> SideReport:
    runs = [
        record(50 * place + seed, changed(experiment, {"seed": seed}), comparison="c", minutes=seed, **one)
        for place, (experiment, each) in enumerate(sides)
        for seed, one in enumerate(each)
    ]
    return compare([Evidence(run, np.ones(9), ()) for run in runs], runs[0].id).reports[-1]


def payback(record: Record, *sides: tuple[Experiment, list[dict[str, Any]]]) -> str:
    notes = report(record, *sides).verdict.notes
    return next((note for note in notes if note.startswith("Including its start-up")), "")


def test_the_step_is_that_at_which_both_have_taken_the_same_time(record: Record) -> None:
    base, other = figures(20, 0.1), figures(15, 1.6, cached=True)
    found = payback(record, (PLAIN, [base]), (COMPILED, [other]))
    assert found == (
        "Including its start-up, FP32 (compiled) overtakes FP32 (plain) after 300 steps with a filled "
        "compiler cache (6.1 s)."
    )
    taken = [(10 * ms + start * 1e3) + (300 - 10) * ms for ms, start in ((20, 0.1), (15, 1.6))]
    assert taken[0] == taken[1]
    # the other way round it is the same sentence
    assert payback(record, (COMPILED, [other]), (PLAIN, [base])) == found


def test_each_state_of_the_cache_has_its_own_answer_with_an_interval(record: Record) -> None:
    base = [figures(ms, 0.1) for ms in (20.0, 20.2, 19.8)]
    other = [
        figures(10.0, 10.1, cached=False),
        figures(10.1, 1.1, cached=True),
        figures(9.9, 1.3, cached=True),
    ]
    found = payback(record, (PLAIN, base), (COMPILED, other))
    # the runs have 500 steps
    assert (
        "overtakes FP32 (plain) after 110 steps with a filled compiler cache (2.3 s, 95% interval " in found
    )
    assert "). It would take 1,000 steps with an empty compiler cache (20.1 s, 95% interval " in found


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (
            figures(15, 10.1, cached=False),
            "does not overtake FP32 (plain) in 500 steps. It would take 2,000 steps",
        ),
        (figures(20, 10.1, cached=False), "never overtakes FP32 (plain), because its steps are not faster."),
        (figures(25, 10.1, cached=False), "never overtakes FP32 (plain), because its steps are not faster."),
        # steps in which something was compiled again belong to the start
        (
            figures(10, 0.1, compilation=Compilation(measured_steps=2, measured_seconds=2.02)),
            "overtakes FP32 (plain) after 200 steps (4.1 s).",
        ),
        (figures(10, 10.1, cached=False, speed_note="other programs used 40% of the CPU"), ""),
        (figures(10, 10.1), ""),
    ],
)
def test_never_and_not_yet_are_answers(record: Record, other: dict[str, Any], words: str) -> None:
    found = payback(record, (PLAIN, [figures(20, 0.1)]), (COMPILED, [other]))
    assert words in found and bool(words) == bool(found)


def test_two_compile_modes_are_compared_too(record: Record) -> None:
    both = figures(20, 1.1, cached=True), figures(16, 41.1, cached=False)
    found = payback(record, (COMPILED, [both[0]]), (TUNED, [both[1]]))
    assert "FP32 (max-autotune) does not overtake FP32 in 500 steps. It would take 10,000 steps" in found
    assert payback(record, (COMPILED, [both[0]]), (changed(COMPILED, {"precision": "bf16"}), [both[1]])) == ""


def test_an_uncertain_gain_may_never_pay(record: Record) -> None:
    base = [figures(ms, 0.1) for ms in (20.0, 21.0)]
    other = [figures(ms, 1.1, cached=True) for ms in (19.0, 20.5)]
    assert "to never)" in payback(record, (PLAIN, base), (COMPILED, other))


def test_a_recompilation_in_measured_steps_is_a_caution(record: Record) -> None:
    event = {"kind": "recompilation", "reason": "tensor 'x' size mismatch", "place": "net.py:12, forward"}
    again = Compilation(recompilations=2, events=(event,), measured_steps=2, measured_seconds=14.2)
    found = report(record, (PLAIN, [figures(20, 0.1)]), (COMPILED, [figures(10, 1.0, compilation=again)]))
    (doubt,) = found.doubts
    assert doubt.kind == "recompiled" and not doubt.disqualifies
    assert doubt.sentence == (
        "FP32, compiled was recompiled in 2 measured steps (14.2 s), which its throughput excludes: "
        "net.py:12, forward: tensor 'x' size mismatch."
    )
