"""Events survive their lines and garbage is refused; lines of memory, and number formats beside torch's."""

from __future__ import annotations

import json
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.protocol.advice import Finding, FindingKind, ModuleRow
from engine.protocol.events import (
    Check,
    Checked,
    Epoch,
    Event,
    Examined,
    Failed,
    Finished,
    Heartbeat,
    Log,
    PartMeasured,
    Phase,
    PhaseName,
    Pictures,
    Ready,
    Samples,
    Skipped,
    Summary,
    from_line,
    is_last,
    to_line,
)
from engine.protocol.ranges import (
    BF16,
    E4M3,
    E5M2,
    FORMATS,
    FP16,
    FP32,
    Exponents,
    ModuleRange,
    NumberFormat,
    Ranges,
    best_scale_exponent,
    lost_fraction,
)
from engine.protocol.trials import MemoryLine, largest_batch, line_near, needed_mib, upper_hull
from tests.engine.conftest import started_of

EVENTS: tuple[Event, ...] = (
    Ready(pid=1, python="3.13", torch="2.11", ammeter="0.1"),
    started_of(total_steps=3_000_000_000).model_copy(update={"parameters": 2**40, "notes": ("a note",)}),
    Phase(name=PhaseName.WARMING_UP, fraction=0.5),
    Epoch(epoch=1, step=94, seconds=1.5, train_loss=math.nan, validation_loss=math.inf),
    Pictures(jpeg=bytes(range(256)), side=28, count=200),
    Skipped(steps=(1, 2)),
    Heartbeat(step=7),
    Log(message="line one\nline two\u2028ü"),
    Examined(checks=(Check(name="torch", status="ok", detail="2.11"),)),
    Checked(
        findings=(Finding(kind=FindingKind.WAITS, severity="warning", message="a", remedy="b", line=3),),
        tree=(ModuleRow(name="", class_name="Net", parameters=3, own=("weight 3 float32",)),),
    ),
    Finished(summary=Summary(steps=3, samples_per_second_ci=(1.0, 2.0), final_train_loss=-math.inf)),
    Failed(problem=Problem(kind=Kind.HANG, message="It hung.", remedy="Try again."), detail="trace"),
    PartMeasured(
        result=Ranges(
            rows=(ModuleRange(module="fc", quantity="gradient", exponents=Exponents(counts=(1, 2))),),
            scale=1024.0,
            step=3,
        )
    ),
)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.event)
def test_an_event_survives_its_line(event: Event) -> None:
    line = to_line(event)
    assert line.count(b"\n") == 1 and line.endswith(b"\n")
    assert repr(from_line(line)) == repr(event)


@st.composite
def batches(draw: st.DrawFn) -> Samples:
    rows = draw(st.integers(0, 5))
    column = st.lists(st.floats(), min_size=rows, max_size=rows).map(tuple)
    return Samples(
        step=tuple(range(1, rows + 1)),
        seconds=draw(st.lists(st.floats(0, 1e9), min_size=rows, max_size=rows).map(tuple)),
        loss=draw(column),
        samples_per_second=draw(column),
        learning_rate=draw(column),
        grad_scale=draw(st.none() | column),
        grad_norm=draw(st.none() | column),
    )


@given(batches(), batches())
def test_batches_keep_nan_and_infinity_and_follow_one_another(first: Samples, second: Samples) -> None:
    # repr, since NaN equals nothing
    assert repr(from_line(to_line(first))) == repr(first)
    both = first.followed_by(second)
    assert both.step == first.step + second.step
    assert repr(both.loss) == repr(first.loss + second.loss)
    assert set(both.columns()) == set(first.columns()) & set(second.columns())


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"Downloading: 100%\n",
        b"[]\n",
        b'{"event": "unheard-of"}\n',
        b'{"event": "heartbeat"}\n',
        b'{"event": "heartbeat", "step": "soon"}\n',
        b'{"event": "heartbeat", "step": 1, "more": 2}\n',
        b'{"event": "pictures", "jpeg": "no base64!", "side": 8, "count": 1}\n',
        b'{"event": "pictures", "jpeg": "AAAA", "side": 49, "count": 1}\n',
        b'{"event": "pictures", "jpeg": "AAAA", "side": 8, "count": 201}\n',
        b'{"event": "pictures", "jpeg": "", "side": 8, "count": 1}\n',
        b'{"event": "pictures", "jpeg": "%s", "side": 8, "count": 1}\n' % (b"AAAA" * 2**18),
        b"\xff\xfe\n",
    ],
)
def test_a_line_that_is_no_event_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError):
        from_line(line)


def test_a_job_ends_with_its_answer_or_an_end() -> None:
    last = [event.event for event in EVENTS if is_last(event)]
    assert last == ["examined", "checked", "finished", "failed"]


OPTIMIZER = MemoryLine(fixed_mib=400, per_sample_mib=0)
BACKWARD = MemoryLine(fixed_mib=300, per_sample_mib=10)

sizes = st.floats(0, 10_000, allow_nan=False)
some_lines = st.lists(
    st.builds(MemoryLine, fixed_mib=sizes, per_sample_mib=st.floats(0, 100, allow_nan=False)),
    min_size=1,
    max_size=12,
)


def test_the_highest_moment_decides_what_a_batch_needs_and_which_is_the_largest():
    lines = [OPTIMIZER, BACKWARD]
    assert needed_mib(lines, 2) == 400 and needed_mib(lines, 20) == 500
    assert largest_batch(lines, 1_005) == 70
    assert needed_mib(lines, 70) <= 1_005 < needed_mib(lines, 71)
    assert largest_batch(lines, 399) == 0 == largest_batch([BACKWARD], 305), "less than the fixed part"
    assert largest_batch([OPTIMIZER], 500) is None, "memory that does not grow"
    # a search begins with the line that holds at the limit
    assert line_near(lines, 2_000) == BACKWARD and line_near(lines, 100) == OPTIMIZER


@given(some_lines, st.integers(1, 5_000))
def test_the_hull_says_the_same_as_all_lines(lines, batch_size):
    hull = upper_hull(lines)
    assert len(hull) <= len(lines)
    assert needed_mib(hull, batch_size) == pytest.approx(needed_mib(lines, batch_size), abs=1e-3)


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
def test_the_formats_are_those_of_torch(form: NumberFormat) -> None:
    known = torch.finfo(getattr(torch, form.name))
    assert form.largest == known.max and 2.0**form.normal_exponent == known.smallest_normal
    least = torch.tensor(2.0**form.subnormal_exponent, dtype=torch.float64).to(getattr(torch, form.name))
    half = torch.tensor(2.0 ** (form.subnormal_exponent - 1), dtype=torch.float64)
    assert float(least) == 2.0**form.subnormal_exponent and float(half.to(least.dtype)) == 0.0


@pytest.mark.parametrize("form", [FP16, BF16, E5M2, E4M3], ids=lambda form: form.name)
def test_the_shares_that_a_format_loses_are_those_of_a_cast(form: NumberFormat) -> None:
    numbers = 1.5 * 2.0 ** torch.arange(-145, 10, dtype=torch.float64)
    cast = numbers.float().to(getattr(torch, form.name))
    assert histogram(numbers).underflow_fraction(form) == float((cast == 0).double().mean())
    if form in (FP16, E5M2):
        numbers = 1.5 * 2.0 ** torch.arange(-5, 60, dtype=torch.float64)
        cast = numbers.float().to(getattr(torch, form.name))
        assert histogram(numbers).overflow_fraction(form) == float(torch.isinf(cast).double().mean())


def test_the_largest_number_overflows_also_within_the_topmost_power_of_two() -> None:
    numbers = torch.tensor([1.0, 460.0, 500.0], dtype=torch.float64)
    assert histogram(numbers).overflow_fraction(E4M3) == 1 / 3
    assert histogram(numbers[:1]).overflow_fraction(E4M3) == 0 == histogram(numbers).overflow_fraction(FP32)


def test_the_best_scale_lifts_small_gradients_without_an_overflow() -> None:
    rows = (row(2.0**-30, 2.0**-20), row(2.0**-28, 2.0**-12))
    best = best_scale_exponent(rows, FP16)
    assert lost_fraction(rows, FP16) > 0 == lost_fraction(rows, FP16, best)
    assert lost_fraction(rows, FP16, 40) == 1


def test_the_module_that_overflows_first_is_the_inner_one() -> None:
    def overflowed(module: str, count: int) -> ModuleRange:
        return ModuleRange(
            module=module, quantity="activation", exponents=Exponents(), became_nonfinite=count
        )

    names = {"": 9, "block": 9, "block.linear": 0, "block.norm": 2, "head": 9}
    ranges = Ranges(rows=tuple(overflowed(name, count) for name, count in names.items()))
    assert ranges.first_overflow is not None and ranges.first_overflow.module == "block.norm"
    assert Ranges(rows=(overflowed("head", 0),)).first_overflow is None


def test_a_saved_run_may_have_a_setting_and_a_metric_that_no_longer_exist():
    removed = {"measure": {"range_every": 10}}
    assert Experiment.from_json(json.dumps(removed)) == Experiment()
    assert Summary.model_validate_json('{"steps": 3, "sampling_seconds": 1.5}') == Summary(steps=3)
    with pytest.raises(ProblemError):
        experiment_from(removed)


def row(*values: float) -> ModuleRange:
    return ModuleRange(
        module="fc", quantity="gradient", exponents=histogram(torch.tensor(values, dtype=torch.float64))
    )


def histogram(numbers: torch.Tensor) -> Exponents:
    exponents = [math.frexp(float(number))[1] - 1 for number in numbers]
    first = min(exponents)
    counts = [0] * (max(exponents) - first + 1)
    for exponent in exponents:
        counts[exponent - first] += 1
    return Exponents(
        first=first, counts=tuple(counts), smallest=float(numbers.min()), largest=float(numbers.max())
    )
