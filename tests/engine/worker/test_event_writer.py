"""Events leave through a thread: a reader that stalls never makes the writer wait, and no sample is lost."""

from __future__ import annotations

import math
import os

import pytest

from engine.protocol.events import Event, Finished, Log, Samples, Summary, from_line
from engine.worker.__main__ import EventWriter


def sample(step: int, loss: float = 1.0) -> Samples:
    return Samples(
        step=(step,), seconds=(step / 10,), loss=(loss,), samples_per_second=(64.0,), learning_rate=(0.1,)
    )


def read_all(descriptor: int) -> list[Event]:
    with os.fdopen(descriptor, "rb") as stream:
        return [from_line(line) for line in stream]


def steps_of(events: list[Event]) -> list[int]:
    return [step for event in events if isinstance(event, Samples) for step in event.step]


@pytest.fixture
def pipe() -> tuple[int, int]:
    return os.pipe()


def test_what_is_put_comes_out_in_order(pipe):
    source, target = pipe
    writer = EventWriter(target)
    told = [sample(1), Log(message="between"), sample(2), Finished(summary=Summary(steps=2))]
    for event in told:
        writer.put(event)
    writer.close()
    os.close(target)
    assert read_all(source) == told


def test_a_stalled_reader_costs_no_step_and_few_lines(pipe):
    source, target = pipe
    writer = EventWriter(target, capacity=8)
    # far more than a pipe holds: the thread is stuck in its write while these are put
    for step in range(1, 3_001):
        writer.put(sample(step))
    writer.put(Finished(summary=Summary(steps=3_000)))

    events: list[Event] = []
    with os.fdopen(source, "rb") as stream:
        for line in stream:
            events.append(from_line(line))
            if isinstance(events[-1], Finished):
                break
    writer.close()
    os.close(target)
    assert steps_of(events) == list(range(1, 3_001))
    assert len(events) < 1_500


def test_nan_and_infinity_survive_the_trip(pipe):
    source, target = pipe
    writer = EventWriter(target)
    writer.put(sample(1, math.nan))
    writer.put(sample(2, math.inf))
    writer.close()
    os.close(target)
    first, second = read_all(source)
    assert isinstance(first, Samples) and isinstance(second, Samples)
    assert math.isnan(first.loss[0]) and second.loss[0] == math.inf


def test_a_reader_that_has_gone_does_not_raise(pipe):
    source, target = pipe
    os.close(source)
    writer = EventWriter(target)
    writer.put(sample(1))
    writer.close()
    writer.put(sample(2))
    writer.close()
    os.close(target)
