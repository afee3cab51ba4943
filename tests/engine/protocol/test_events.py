"""What a worker says: one line each, both ways, NaN and infinity included; garbage is refused."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind, Problem
from engine.protocol.advice import Finding, FindingKind, ModuleRow
from engine.protocol.events import (
    Check,
    Checked,
    Environment,
    Epoch,
    Event,
    Examined,
    Failed,
    Finished,
    Heartbeat,
    Log,
    Phase,
    PhaseName,
    Pictures,
    Ready,
    Samples,
    Skipped,
    Started,
    Summary,
    from_line,
    is_last,
    to_line,
)

ENVIRONMENT = Environment(
    device_name="a card", device_memory_mib=1024.5, torch="2.11", python="3.13", os="Linux", ammeter="0.1"
)
EVENTS: tuple[Event, ...] = (
    Ready(pid=1, python="3.13", torch="2.11", ammeter="0.1"),
    Started(
        experiment=Experiment(),
        environment=ENVIRONMENT,
        total_steps=3_000_000_000,
        steps_per_epoch=94,
        parameters=2**40,
        loss_name="cross-entropy",
        loss_unit="nats",
        notes=("a note",),
    ),
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


@given(batches())
def test_samples_keep_nan_and_infinity(batch: Samples) -> None:
    # repr, since NaN equals nothing
    assert repr(from_line(to_line(batch))) == repr(batch)


@given(batches(), batches())
def test_batches_follow_one_another(first: Samples, second: Samples) -> None:
    both = first.followed_by(second)
    assert both.step == first.step + second.step
    assert repr(both.loss) == repr(first.loss + second.loss)
    assert set(both.columns()) == set(first.columns()) & set(second.columns())


def test_columns_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="differ in length"):
        Samples(step=(1, 2), seconds=(0.1,), loss=(1.0,), samples_per_second=(1.0,), learning_rate=(0.1,))


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


def test_a_figure_that_does_not_apply_is_none() -> None:
    assert {value for value in Summary().model_dump().values() if value} == set()
    assert Summary().samples_per_second is None
