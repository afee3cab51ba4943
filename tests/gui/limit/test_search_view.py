"""A search whose recipe compiles: what the window takes for its answer, and what only led there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.experiment.experiment import Precision, experiment_from
from engine.protocol.trials import ProbeEnded, ProbeResult, Trial, TrialEnded
from gui.limit.chart import content_of
from gui.limit.trials import rows_of
from gui.session.orders.order import SearchOrder
from gui.session.orders.searches import SearchView

BUDGET_MIB = 1_000.0


def trial(batch: int, *, uncompiled: bool, most: int) -> Trial:
    if batch > most:
        return Trial(batch_size=batch, fits=False, cause="memory", uncompiled=uncompiled)
    peak = (9.0 if uncompiled else 10.0) * batch
    return Trial(batch_size=batch, fits=True, peak_mib=peak, uncompiled=uncompiled)


def searched(*trials: Trial) -> SearchView:
    experiment = experiment_from({"step": {"recipe": "fast"}, "device": "cuda:0"})
    view = SearchView.of_order(SearchOrder("abc", (("FP32", experiment),)))
    for each in trials:
        view = view.after(0, TrialEnded(trial=each, budget_mib=BUDGET_MIB))
    return view


FIRST = tuple(trial(batch, uncompiled=True, most=110) for batch in (8, 110, 111))
THEN = tuple(trial(batch, uncompiled=False, most=98) for batch in (110, 90, 98, 99))


def test_until_a_trial_was_compiled_the_uncompiled_ones_tell_how_far_it_is() -> None:
    (side,) = searched(*FIRST).sides
    assert side.largest_batch == 110 and side.lines[0].per_sample_mib == pytest.approx(9.0)


def test_then_the_compiled_ones_do_on_the_chart_too() -> None:
    view = searched(*FIRST, *THEN)
    (side,) = view.sides
    assert side.largest_batch == 98 and side.lines[0].per_sample_mib == pytest.approx(10.0)
    assert side.recommended_batch(0.1) == 89
    (shown,) = content_of(view, on_gpu=True, shows_forecast=False).sides
    assert [batch for batch, _ in shown.passed] == [90, 98] and shown.failed == (110, 99)


def test_the_table_has_all_trials_and_one_answer() -> None:
    both_fit = (*FIRST, *(trial(batch, uncompiled=False, most=110) for batch in (110, 111)))
    result = ProbeResult(
        precision=Precision.FP32, largest_batch=110, verified=True, first_failure=111, bound_by="memory"
    )
    view = replace(searched(*both_fit).after(0, ProbeEnded(probe_id="p", result=result)), is_live=False)
    assert [row.result() for row in rows_of(view)] == [
        "Fits, uncompiled",
        "Fits, uncompiled",
        "Out of memory, uncompiled",
        "Largest fit",
        "Out of memory",
    ]
