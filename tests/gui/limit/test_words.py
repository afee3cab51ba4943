"""A limit in words: how far it is, what it found, how it was proven."""

from __future__ import annotations

from typing import Any

import pytest

from engine.experiment.experiment import Precision
from engine.limit.result import recommended_batch
from engine.protocol.events import Phase, PhaseName
from engine.protocol.trials import Bound, LimitResult, LimitSide, MemoryLine, Trial
from gui.limit.trials import progress, proof
from tests.gui.limit.conftest import known


def test_what_is_tried_now_is_told_with_what_its_worker_does(limits: Any) -> None:
    view = limits.begun(Precision.FP32)
    assert progress(view) == "waiting for its turn"
    view = limits.trying(limits.searched(view, 0, 2), 0, 320)
    assert progress(view) == "2 trials, trying 320 in FP32 (starting a process)"
    view = view.during(Phase(name=PhaseName.COMPILING))
    assert progress(view).endswith("(compiling)")


def test_a_larger_margin_recommends_a_smaller_batch(limits: Any) -> None:
    side = limits.both().answer.sides[0]
    margins = [recommended_batch(side, fraction) for fraction in (0.0, 0.1, 0.2, 0.3)]
    assert margins == sorted(margins, reverse=True) and margins[0] <= 289 and margins[-1] > 0


def test_an_answer_bound_by_the_data_or_stopped_claims_no_ratio_and_is_called_a_least(limits: Any) -> None:
    cases: tuple[tuple[Bound, str], ...] = (
        ("data", "The limit is the data."),
        ("stopped", "It was stopped."),
    )
    for bound, note in cases:
        view = limits.searched(limits.begun(Precision.FP32, Precision.FP16), 0)
        result = limits.result(Precision.FP16, bound, note)
        limit = known(limits.searched(view, 1, 6), 1, result=result).answer
        assert limit.ratio is None
        assert "FP16 AMP fits at least 561" in limit.digest and "times the batch" not in limit.digest
        assert proof(limit.sides[1]) == note


def test_nothing_that_fits_is_told_with_what_the_model_needs(limits: Any) -> None:
    note = "Not even one sample fits: the model alone needs 30.0 GiB."
    result = LimitResult(
        precision=Precision.FP32, largest_batch=0, verified=False, bound_by="memory", note=note
    )
    failed = Trial(batch_size=1, fits=False, cause="memory")
    limit = known(limits.begun(Precision.FP32), 0, trials=(failed,), result=result).answer
    assert limit.digest == "FP32 fits nothing."
    assert proof(limit.sides[0]) == note


def test_trials_replace_the_forecast_once_there_are_two(limits: Any) -> None:
    forecast = (MemoryLine(fixed_mib=1.0, per_sample_mib=1.0),)
    side = LimitSide(label="FP32", experiment=limits.experiment(Precision.FP32), forecast=forecast)
    assert side.lines == forecast
    trials = tuple(limits.trial(Precision.FP32, batch) for batch in (64, 256))
    side = side.model_copy(update={"trials": trials})
    assert side.lines[0].per_sample_mib == pytest.approx(63.9)
    assert side.lines[0].fixed_mib == pytest.approx(6_100.0)
