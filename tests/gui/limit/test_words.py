"""A search in words: how far it is, what it found, how it was proven, what the log says."""

from __future__ import annotations

from typing import Any

import pytest

from engine.experiment.experiment import Precision
from engine.protocol.events import Log, Phase, PhaseName
from engine.protocol.memory_lines import MemoryLine
from engine.protocol.trials import Bound, ProbeEnded, ProbeResult, Trial, TrialBegun, TrialEnded
from gui.limit.words import progress, proof, sentence
from gui.session.log_lines import search_lines
from gui.session.orders.searches import SideView


def test_what_is_tried_now_is_told_with_what_its_worker_does(searches: Any) -> None:
    view = searches.begun(Precision.FP32)
    assert progress(view) == "waiting for its turn"
    view = searches.searched(view, 0, 2).after(0, TrialBegun(batch_size=320))
    assert progress(view) == "2 trials, trying 320 in FP32 (starting a process)"
    view = view.after(0, Phase(name=PhaseName.COMPILING))
    assert progress(view).endswith("(compiling)")


def test_a_larger_margin_recommends_a_smaller_batch(searches: Any) -> None:
    side = searches.both().sides[0]
    margins = [side.recommended_batch(fraction) for fraction in (0.0, 0.1, 0.2, 0.3)]
    assert margins == sorted(margins, reverse=True) and margins[0] <= 289 and margins[-1] > 0


def test_an_answer_bound_by_the_data_or_stopped_claims_no_ratio_and_is_called_a_least(searches: Any) -> None:
    cases: tuple[tuple[Bound, str], ...] = (
        ("data", "The limit is the data."),
        ("stopped", "The search was stopped."),
    )
    for bound, note in cases:
        view = searches.searched(searches.begun(Precision.FP32, Precision.FP16), 0)
        view = searches.searched(view, 1, 6).after(1, searches.ended(Precision.FP16, bound, note))
        assert view.ratio is None
        assert "FP16 AMP fits at least 561" in sentence(view) and "times the batch" not in sentence(view)
        assert proof(view.sides[1]) == note


def test_nothing_that_fits_is_told_with_what_the_model_needs(searches: Any) -> None:
    note = "Not even one sample fits: the model alone needs 30.0 GiB."
    result = ProbeResult(
        precision=Precision.FP32, largest_batch=0, verified=False, bound_by="memory", note=note
    )
    failed = Trial(batch_size=1, fits=False, cause="memory")
    view = searches.begun(Precision.FP32).after(0, TrialEnded(trial=failed, budget_mib=searches.BUDGET_MIB))
    view = view.after(0, ProbeEnded(probe_id="p", result=result))
    assert sentence(view) == "FP32 fits nothing."
    assert proof(view.sides[0]) == note


def test_trials_replace_the_forecast_once_there_are_two(searches: Any) -> None:
    forecast = (MemoryLine(fixed_mib=1.0, per_sample_mib=1.0),)
    side = SideView("FP32", searches.experiment(Precision.FP32), forecast=forecast)
    assert side.lines == forecast
    for batch in (64, 256):
        side = side.after(
            TrialEnded(trial=searches.trial(Precision.FP32, batch), budget_mib=searches.BUDGET_MIB)
        )
    assert side.lines[0].per_sample_mib == pytest.approx(63.9)
    assert side.lines[0].fixed_mib == pytest.approx(6_100.0)


def test_what_a_searchs_worker_says_reaches_the_log(searches: Any) -> None:
    said = Log(level="warning", message="A kernel was slow.")
    assert search_lines(said) == (("warning", "A kernel was slow."),)
    ended_trial = TrialEnded(
        trial=searches.trial(Precision.FP32, 320),
        budget_mib=searches.BUDGET_MIB,
        replaced_worker="3 MiB were not given back.",
    )
    (_, tried), (level, why) = search_lines(ended_trial)
    assert tried == "Batch 320: out of memory." and level == "warning" and "3 MiB" in why
    assert search_lines(TrialBegun(batch_size=8)) == ()
    assert "289, proven" in search_lines(searches.ended(Precision.FP32))[0][1]
