"""A limit in words and as a table: how far it is, what it found, and how it was proven."""

from __future__ import annotations

from typing import Any

import pytest

from engine.experiment.experiment import Precision, experiment_from
from engine.export.kinds.limit import THROUGHPUT, TRIALS, document, memory_content
from engine.limit.result import recommended_batch, result_words, throughput_sentences
from engine.protocol.trials import Limit, LimitResult, LimitSide, MemoryLine, Trial
from engine.store.saved.studies import Study

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


def timed(*speeds: float | None) -> Limit:
    """A search whose trials of 10, 20, 30 and so on have these throughputs."""
    trials = [trial(10 * number, uncompiled=False, most=1_000) for number in range(1, len(speeds) + 1)]
    return searched(
        *(
            one.model_copy(update={"one_step_samples_per_second": speed})
            for one, speed in zip(trials, speeds, strict=True)
        )
    )


@pytest.mark.parametrize(
    ("speeds", "sentence"),
    [
        ((50.0, 96.0, 100.0), "FP32 is within 5% of its highest throughput from a batch of 20 on."),
        ((99.0, 100.0, 98.0), "FP32 is within 5% of its highest throughput from a batch of 10 on."),
        (
            (50.0, 100.0, 90.0, 96.0, 97.0),
            "FP32 is within 5% of its highest throughput from a batch of 40 on.",
        ),
        ((25.0, 50.0, 75.0), "FP32 is fastest at a batch of 30, the largest that fit."),
        ((50.0, 100.0, 80.0), "FP32 is fastest at a batch of 20, and reaches 80% of that at 30."),
        ((100.0, 90.0, 99.0), "FP32 is fastest at a batch of 10, and reaches 99% of that at 30."),
    ],
)
def test_a_sentence_says_from_which_batch_on_it_is_fast(speeds: tuple[float, ...], sentence: str) -> None:
    assert list(throughput_sentences(timed(*speeds))) == [sentence]
    assert not list(throughput_sentences(timed(*speeds[:2]))), "two batches show no curve"


def test_a_batch_tried_twice_is_one_point_of_the_curve() -> None:
    first, again = (one.sides[0].trials[0] for one in (timed(50.0), timed(60.0)))
    twice = searched(first, again)
    assert twice.sides[0].throughputs == ((10, 60.0),)
    assert not any(section.title == THROUGHPUT for section in tables(twice))
    assert not list(throughput_sentences(searched(first, again, *timed(1.0, 2.0).sides[0].trials[1:])))


def test_trials_of_an_earlier_version_have_no_throughput_and_the_table_no_column_for_it() -> None:
    text = timed(10.0, 20.0, 30.0).model_dump_json()
    for speed in ("10.0", "20.0", "30.0"):
        text = text.replace(f'"one_step_samples_per_second":{speed},', "")
    old, new = Limit.model_validate_json(text), timed(10.0, 20.0, 30.0)
    assert "one_step" not in text and old.sides[0].trials == timed(None, None, None).sides[0].trials
    assert not list(throughput_sentences(old))
    headings = [
        section.headings for each in (old, new) for section in tables(each) if section.title == TRIALS
    ]
    assert [("One step, samples/s" in each) for each in headings] == [False, True]


def tables(limit: Limit) -> tuple[Any, ...]:
    return document(Study(answer=limit)).sections
