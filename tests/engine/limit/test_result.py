"""What a search found, as a person reads it."""

from __future__ import annotations

import pytest

from engine.experiment.experiment import Experiment, Precision
from engine.limit.result import outcome
from engine.protocol.trials import Bound, Limit, LimitResult, LimitSide, Trial, times_the_batch


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


def sentence(*sides: LimitSide) -> str:
    return Limit(sides=sides).digest


FP32 = found("FP32", 289, precision=Precision.FP32)
AMP = found("FP16 AMP", 561)


@pytest.mark.parametrize(
    ("amp", "told"),
    [
        (AMP, "FP32 fits 289, FP16 AMP fits 561: 1.94 times the batch."),
        (found("FP16 AMP", 561, bound="data"), "FP32 fits 289, FP16 AMP fits at least 561."),
        (
            found("FP16 AMP", 1561, bound="stopped", verified=False),
            "FP32 fits 289, FP16 AMP fits at least 1,561.",
        ),
        (found("FP16 AMP", 0, verified=False), "FP32 fits 289, FP16 AMP fits nothing."),
        (
            found("FP16 AMP", 0, bound="stopped", verified=False),
            "FP32 fits 289, FP16 AMP fits nothing that was tried.",
        ),
    ],
)
def test_the_outcome_is_a_sentence(amp, told):
    assert sentence(FP32, amp) == told


def test_fp32_is_what_the_other_is_measured_against_wherever_it_stands():
    assert sentence(AMP, FP32) == "FP16 AMP fits 561, FP32 fits 289: 1.94 times the batch."
    bf16 = found("BF16 AMP", 1122, precision=Precision.BF16)
    assert sentence(AMP, bf16) == "FP16 AMP fits 561, BF16 AMP fits 1,122: 2.00 times the batch."


def test_a_search_that_goes_on_says_no_more_than_it_knows():
    assert sentence(LimitSide(label="FP32", experiment=Experiment())) == ""
    assert sentence(so_far("FP32", 128)) == "FP32 fits at least 128."
    assert sentence(FP32, so_far("FP16 AMP", 0)) == "FP32 fits 289, FP16 AMP fits nothing that was tried."
    assert times_the_batch(FP32, so_far("FP16 AMP", 512)) is None


@pytest.mark.parametrize(
    ("cause", "told"),
    [
        (None, "fits"),
        ("memory", "out of memory"),
        ("spill", "spilled to the host"),
        ("error", "failed"),
        ("death", "worker died"),
        ("hang", "hung"),
    ],
)
def test_a_trial_is_told_as_what_it_came_to(cause, told):
    assert outcome(Trial(batch_size=8, fits=cause is None, cause=cause)) == told
