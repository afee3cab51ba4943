"""The search against memory that is a function: its answer is exact, and few trials prove it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.experiment.experiment import Experiment, Precision
from engine.limit.result import result_words
from engine.limit.search import Search
from engine.protocol.trials import (
    Bound,
    Cause,
    Limit,
    LimitResult,
    LimitSide,
    MemoryLine,
    Trial,
    times_the_batch,
)

Memory = Callable[[int], float]


def line(fixed_mib: float, per_sample_mib: float) -> MemoryLine:
    return MemoryLine(fixed_mib=fixed_mib, per_sample_mib=per_sample_mib)


def trial(batch_size: int, peak_mib: float | None, cause: Cause | None = None, **figures: Any) -> Trial:
    return Trial(batch_size=batch_size, fits=cause is None, peak_mib=peak_mib, cause=cause, **figures)


def search_all(
    memory: Memory, budget_mib: float, *, held: Memory | None = None, tells: bool = True, **settings: Any
) -> Search:
    """Runs a search to its end; `held` is what the allocator needs for what is given out."""
    return go_on(Search(budget_mib=budget_mib, **settings), memory, budget_mib, held=held, tells=tells)


def go_on(
    search: Search, memory: Memory, budget_mib: float, *, held: Memory | None = None, tells: bool = True
) -> Search:
    needs = held or memory
    was_last = False
    while (batch := search.next_batch()) is not None:
        assert not was_last, "the trial that was to end it did not"
        was_last = search.ends_with_next
        assert batch not in [each.batch_size for each in search.trials], "no batch is tried twice"
        if needs(batch) > budget_mib:
            search.learn(trial(batch, None, "memory"), budget_mib)
        else:
            reserved = min(budget_mib, held(batch)) if held else None
            search.learn(trial(batch, memory(batch) if tells else None, reserved_mib=reserved), budget_mib)
    return search


@pytest.mark.parametrize(
    ("fixed", "slope", "loss", "budget_mib"),
    [(441, 81.1, 1.027, 8_192), (450, 42.2, 1.019, 12_288), (441, 81.1, 1.027, 24_576)],
)
def test_a_straight_line_with_some_fragmentation_takes_at_most_nine_trials(fixed, slope, loss, budget_mib):
    search = search_all(
        lambda batch: fixed + slope * batch, budget_mib, held=lambda batch: loss * (fixed + slope * batch)
    )
    assert search.largest_batch == math.floor((budget_mib / loss - fixed) / slope)
    assert search.is_verified and search.bound_by == "memory"
    assert len(search.trials) <= 9


@pytest.mark.parametrize("kept_in_vain", [1.02, 1.1, 1.2])
@pytest.mark.parametrize(
    ("fixed", "slope", "budget_mib", "unusable_mib", "largest", "most"),
    [
        pytest.param(450, 82.51, 24_576, 75, 291, 7, id="ResNet-50 in FP32"),
        pytest.param(450, 42.65, 24_576, 220, 560, 7, id="ResNet-50 in FP16"),
        pytest.param(86, 1.997, 1_024, 58, 440, 8, id="the small CNN in FP32"),
        pytest.param(86, 1.143, 1_024, 86, 745, 10, id="the small CNN in FP16"),
    ],
)
def test_an_allocator_that_keeps_what_it_can_does_not_slow_the_search(
    kept_in_vain, fixed, slope, budget_mib, unusable_mib, largest, most
):
    """As an H100 answered."""

    def memory(batch: int) -> float:
        return fixed + slope * batch

    def needs(batch: int) -> float:
        return memory(batch) + unusable_mib

    search = Search()
    while (batch := search.next_batch()) is not None:
        if needs(batch) > budget_mib:
            search.learn(trial(batch, None, "memory"), budget_mib)
        else:
            reserved = min(budget_mib, max(needs(batch), kept_in_vain * memory(batch)))
            search.learn(trial(batch, memory(batch), reserved_mib=reserved), budget_mib)
    assert (search.largest_batch, search.is_verified) == (largest, True)
    assert len(search.trials) <= most, [each.batch_size for each in search.trials]


@pytest.mark.parametrize(
    ("memory", "most"),
    [
        pytest.param(lambda batch: 20 + max(0.25 * batch, 0.5 * batch - 300), 11, id="two moments of a step"),
        pytest.param(lambda batch: 20 + 0.25 * batch + 40 * (batch > 1_000), 9, id="another algorithm"),
        pytest.param(lambda batch: math.ceil((20 + 0.25 * batch) / 2) * 2, 11, id="blocks of 2 MiB"),
        pytest.param(lambda batch: 20 + 14 * min(batch, 32) / 32 + 0.25 * batch, 8, id="a steep beginning"),
        pytest.param(lambda batch: 20 + 0.02 * batch**1.4, 9, id="ever steeper"),
    ],
)
def test_memory_that_is_no_straight_line_takes_little_more(memory, most):
    search = search_all(memory, 512)
    assert memory(search.largest_batch) <= 512 < memory(search.largest_batch + 1)
    assert len(search.trials) <= most, [each.batch_size for each in search.trials]


def test_a_forecast_spares_the_small_trials():
    search = search_all(lambda batch: 441 + 81.1 * batch, 24_576, first_guess=line(440, 81.0))
    assert search.largest_batch == 297
    assert min(each.batch_size for each in search.trials) > 250
    assert len(search.trials) <= 5


@pytest.mark.parametrize(
    ("slope", "budget_mib"), [(42.65, 24_576), (82.51, 8_192), (129.0, 16_384), (166.0, 12_288)]
)
def test_odd_batches_that_take_more_than_larger_even_ones_do_not_mislead(slope, budget_mib):
    search = search_all(
        lambda batch: 441 + slope * (batch + batch % 2),
        budget_mib,
        held=lambda batch: 1.005 * (441 + slope * (batch + batch % 2)),
        first_guess=line(440, slope),
    )
    assert search.is_verified and len(search.trials) <= 6, [each.batch_size for each in search.trials]


def test_a_forecast_that_is_far_off_is_not_asked_again():
    search = search_all(lambda batch: 441 + 81.1 * batch, 24_576, first_guess=line(10, 1.0))
    assert search.largest_batch == 297


def test_what_a_step_takes_whatever_the_batch_does_not_mislead():
    search = search_all(lambda batch: max(48.0, 15 + 0.41 * batch), 2_048)
    assert search.largest_batch == math.floor((2_048 - 15) / 0.41)
    assert len(search.trials) <= 9


@st.composite
def monotone(draw: st.DrawFn) -> tuple[Memory, float]:
    """A memory function that rises somehow, and a budget."""
    fixed = draw(st.floats(0, 5_000))
    slope, power = draw(st.floats(0.01, 500)), draw(st.floats(0.5, 2))
    floor, grain = draw(st.floats(0, 3_000)), draw(st.sampled_from([0.001, 2.0, 20.0]))

    def memory(batch: int) -> float:
        return max(floor, math.ceil((fixed + slope * batch**power) / grain) * grain)

    return memory, draw(st.floats(1, 100_000))


@given(monotone(), st.sampled_from([1, 8, 100]), st.integers(100, 1_000_000), st.booleans())
def test_the_answer_is_exact_for_any_memory_that_rises(rising, granularity, limit, tells):
    memory, budget_mib = rising
    search = search_all(memory, budget_mib, granularity=granularity, limit=limit, tells=tells)
    found, next_one = search.largest_batch, search.largest_batch + granularity
    assert found % granularity == 0
    assert not found or memory(found) <= budget_mib
    assert next_one > limit or memory(next_one) > budget_mib
    assert search.bound_by == ("data" if next_one > limit else "memory")
    assert len(search.trials) <= 3 * math.log2(limit) + 10


@given(monotone(), st.floats(-1_000, 5_000), st.floats(0.001, 500))
def test_a_wrong_forecast_costs_trials_but_not_the_answer(rising, fixed, slope):
    memory, budget_mib = rising
    guided = search_all(memory, budget_mib, first_guess=line(fixed, slope), limit=1_000_000)
    assert guided.largest_batch == search_all(memory, budget_mib, limit=1_000_000).largest_batch
    assert len(guided.trials) <= 3 * math.log2(1_000_000) + 10


def test_nothing_fits():
    search = search_all(lambda batch: 100.0 * batch, 50)
    assert (search.largest_batch, search.is_verified, search.bound_by) == (0, True, "memory")
    assert [each.batch_size for each in search.trials] == [8, 4, 2, 1]


def test_before_the_next_batch_has_failed_nothing_is_proven():
    search = Search(budget_mib=1_000)
    search.learn(trial(8, 10.0))
    assert (search.largest_batch, search.is_verified, search.bound_by) == (8, False, "stopped")


def test_what_bounds_the_batch_is_told_as_what_it_is():
    for cause, bound in (("memory", "memory"), ("spill", "memory"), ("error", "error"), ("hang", "hang")):
        search = Search(limit=16)
        search.learn(trial(8, 10.0))
        search.learn(trial(9, None, cause))
        assert (search.next_batch(), search.bound_by) == (None, bound)


def test_a_limit_that_only_a_trial_could_tell_ends_the_search():
    search = Search(budget_mib=1_000)
    search.learn(trial(8, None, "error"))
    search.learn(trial(4, 10.0))
    search.limit_to(5)
    assert search.next_batch() == 5
    search.learn(trial(5, 11.0))
    assert (search.next_batch(), search.bound_by, search.first_failure) == (None, "data", None)


def test_the_recommended_batch_leaves_the_margin_free():
    search = search_all(lambda batch: 100 + 10.0 * batch, 1_000)
    assert (search.largest_batch, search.recommended_batch(0.1)) == (90, 80)
    assert search.recommended_batch(0.0) == 90
    coarse = search_all(lambda batch: 100 + 10.0 * batch, 1_000, granularity=8)
    assert (coarse.largest_batch, coarse.recommended_batch(0.1)) == (88, 80)


def test_the_margin_is_of_the_batch_where_memory_does_not_grow_with_it():
    search = Search(budget_mib=1_000.0)
    # of samples of other lengths
    for size, peak in ((8, 700.0), (32, 400.0), (57, 900.0)):
        search.learn(trial(size, peak))
    search.learn(trial(58, None, "memory"))
    assert search.recommended_batch(0.1) == 51


def test_a_margin_is_of_all_memory_where_the_data_end_first():
    search = search_all(lambda batch: 100 + 10.0 * batch, 1_000, limit=50)
    assert (search.largest_batch, search.recommended_batch(0.1)) == (50, 50)


def test_a_granularity_beyond_the_limit_is_refused():
    with pytest.raises(ValueError, match="granularity"):
        Search(granularity=8, limit=7)


@pytest.mark.parametrize(("slope", "most"), [(40.0, 2), (34.0, 5), (39.9, 4), (44.0, 7), (20.0, 6)])
def test_a_search_that_begins_at_anothers_answer_needs_few_trials_where_the_memory_is_alike(slope, most):
    before = search_all(lambda batch: 450 + 40.0 * batch, 24_576)
    found = go_on(before.restarted_at_answer(), lambda batch: 450 + slope * batch, 24_576)
    assert found.trials[0].batch_size == before.largest_batch == 603
    assert found.largest_batch == math.floor((24_576 - 450) / slope) and found.is_verified
    assert len(found.trials) <= most


def test_a_search_that_begins_where_nothing_fitted_begins_with_the_least():
    nothing = search_all(lambda batch: 100.0 + batch, 50, granularity=8, limit=100)
    found = go_on(nothing.restarted_at_answer(), lambda batch: 10.0 + batch, 50)
    assert found.trials[0].batch_size == 8 and found.largest_batch == 40 and found.limit == 96


def found(
    label: str,
    largest: int,
    *,
    bound: Bound = "memory",
    verified: bool = True,
    precision: Precision = Precision.FP16,
) -> LimitSide:
    result = LimitResult(precision=precision, largest_batch=largest, verified=verified, bound_by=bound)
    return so_far(label, largest, precision).model_copy(update={"result": result})


def so_far(label: str, largest: int, precision: Precision = Precision.FP16) -> LimitSide:
    trial = Trial(batch_size=largest or 1, fits=largest > 0)
    return LimitSide(label=label, experiment=Experiment(precision=precision), trials=(trial,))


FP32 = found("FP32", 289, precision=Precision.FP32)
AMP = found("FP16 AMP", 561)


BF16 = found("BF16 AMP", 1122, precision=Precision.BF16)
STOPPED: dict[str, Any] = {"bound": "stopped", "verified": False}


@pytest.mark.parametrize(
    ("sides", "told"),
    [
        ((FP32, AMP), "FP32 fits 289, FP16 AMP fits 561: 1.94 times the batch."),
        ((AMP, FP32), "FP16 AMP fits 561, FP32 fits 289: 1.94 times the batch."),
        ((AMP, BF16), "FP16 AMP fits 561, BF16 AMP fits 1,122: 2.00 times the batch."),
        ((FP32, found("AMP", 561, bound="data")), "FP32 fits 289, AMP fits at least 561."),
        (
            (FP32, found("AMP", 1561, **STOPPED)),
            "FP32 fits 289, AMP fits at least 1,561.",
        ),
        ((FP32, found("AMP", 0, verified=False)), "FP32 fits 289, AMP fits no batch."),
        (
            (FP32, found("AMP", 0, **STOPPED)),
            "FP32 fits 289, AMP fits no batch tried so far.",
        ),
        ((LimitSide(label="FP32", experiment=Experiment()),), ""),
        ((so_far("FP32", 128),), "FP32 fits at least 128."),
        ((FP32, so_far("AMP", 0)), "FP32 fits 289, AMP fits no batch tried so far."),
    ],
)
def test_what_fits_is_a_sentence_that_claims_no_more_than_is_known(sides, told):
    assert Limit(sides=sides).digest == told


def test_a_search_that_goes_on_has_no_ratio():
    assert times_the_batch(FP32, so_far("FP16 AMP", 512)) is None


@pytest.mark.parametrize(
    ("known", "told"),
    [
        ({"fits": True}, "fits"),
        ({"cause": "memory"}, "out of memory"),
        ({"cause": "spill"}, "spilled to system memory"),
        ({"cause": "error"}, "failed"),
        ({"cause": "death"}, "worker crashed"),
        ({"cause": "hang"}, "hung"),
        ({"fits": True, "unsearched": True}, "fits, no cuDNN search"),
        ({"fits": True, "uncompiled": True, "unsearched": True}, "fits, uncompiled, no cuDNN search"),
    ],
)
def test_a_trial_is_told_as_what_it_came_to(known, told):
    assert result_words(Trial.model_validate({"batch_size": 8, "fits": False, **known})) == told
