"""A limit in words and as a table: how far it is, what it found, and how it was proven."""

from __future__ import annotations

from typing import Any

import pytest

from engine.experiment.experiment import Precision, experiment_from
from engine.export.kinds.limit import memory_content
from engine.limit.result import recommended_batch, result_words
from engine.protocol.trials import Limit, LimitResult, LimitSide, MemoryLine, Trial

BUDGET_MIB = 1_000.0


def test_trials_replace_the_forecast_once_there_are_two(limits: Any) -> None:
    forecast = (MemoryLine(fixed_mib=1.0, per_sample_mib=1.0),)
    side = LimitSide(label="FP32", experiment=limits.experiment(Precision.FP32), forecast=forecast)
    assert side.lines == forecast
    trials = tuple(limits.trial(Precision.FP32, batch) for batch in (64, 256))
    side = side.model_copy(update={"trials": trials})
    assert side.lines[0].per_sample_mib == pytest.approx(63.9)
    assert side.lines[0].fixed_mib == pytest.approx(6_100.0)


def trial(batch: int, *, uncompiled: bool, most: int) -> Trial:
    if batch > most:
        return Trial(batch_size=batch, fits=False, cause="memory", uncompiled=uncompiled)
    peak = (9.0 if uncompiled else 10.0) * batch
    return Trial(batch_size=batch, fits=True, peak_mib=peak, uncompiled=uncompiled)


def searched(*trials: Trial) -> Limit:
    experiment = experiment_from({"step": {"recipe": "fast"}, "device": "cuda:0"})
    side = LimitSide(label="FP32", experiment=experiment, trials=trials, budget_mib=BUDGET_MIB)
    return Limit(sides=(side,))


FIRST = tuple(trial(batch, uncompiled=True, most=110) for batch in (8, 110, 111))
THEN = tuple(trial(batch, uncompiled=False, most=98) for batch in (110, 90, 98, 99))


def test_until_a_trial_was_compiled_the_uncompiled_ones_tell_how_far_it_is() -> None:
    (side,) = searched(*FIRST).sides
    assert side.largest_batch == 110 and side.lines[0].per_sample_mib == pytest.approx(9.0)


def test_then_the_compiled_ones_do_on_the_chart_too() -> None:
    view = searched(*FIRST, *THEN)
    (side,) = view.sides
    assert side.largest_batch == 98 and side.lines[0].per_sample_mib == pytest.approx(10.0)
    assert recommended_batch(side, 0.1) == 89
    (shown,) = memory_content(view, shows_forecast=False).sides
    assert [batch for batch, _ in shown.passed] == [90, 98] and shown.failed == (110, 99)


def test_the_table_has_all_trials_and_one_answer() -> None:
    both_fit = (*FIRST, *(trial(batch, uncompiled=False, most=110) for batch in (110, 111)))
    result = LimitResult(
        precision=Precision.FP32, largest_batch=110, verified=True, first_failure=111, bound_by="memory"
    )
    limit = searched(*both_fit)
    whole = limit.with_side(0, limit.sides[0].model_copy(update={"result": result}))
    assert [result_words(trial, side) for side in whole.sides for trial in side.trials] == [
        "fits, uncompiled",
        "fits, uncompiled",
        "out of memory, uncompiled",
        "largest fit",
        "out of memory",
    ]
