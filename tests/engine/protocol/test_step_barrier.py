"""Ranks agree on a step before they stop or pause there: a rank that went on would wait forever."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from engine.protocol.jobs import Continue, Control, Pause, StepBarrier, Stop


class Loop:
    """A training loop that makes steps, each once it is allowed, until a stop or `last`."""

    def __init__(self, last: int = 10**9) -> None:
        self.answers: list[int] = []
        self.control = Control(held=self.answers.append)
        self.steps = 0
        self._last = last
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Loop:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.control.obey(Continue())
        self.control.obey(Stop())
        self._thread.join()

    def _run(self) -> None:
        control = self.control
        control.may_begin(self.steps)
        while not control.stop_requested.is_set() and self.steps < self._last:
            self.steps += 1
            control.may_begin(self.steps)
            while control.pause_requested.is_set() and not control.stop_requested.is_set():
                control.stop_requested.wait(0.001)
                control.may_begin(self.steps)

    def held(self, ahead: int = 10_000) -> int:
        """Holds the loop `ahead` of where it is; returns the step at which it waits."""
        at = 0
        while True:
            self.control.obey(StepBarrier(step=at))
            if self.answers[-1] <= at:
                wait_until(lambda at=at: self.steps == at)
                return at
            at = self.answers[-1] + ahead


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30.0
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_a_loop_waits_at_the_step_and_stops_there():
    with Loop() as loop:
        wait_until(lambda: loop.steps > 100)
        at = loop.held()
        loop.control.obey(Stop())
        wait_until(loop.control.stop_requested.is_set)
    assert loop.steps == at


def test_a_command_before_the_step_waits_for_it():
    control = Control()
    control.may_begin(4)
    control.obey(StepBarrier(step=7))
    control.obey(Stop())
    for steps in (5, 6):
        control.may_begin(steps)
        assert not control.stop_requested.is_set()
    control.may_begin(7)
    assert control.stop_requested.is_set()


def test_a_loop_that_is_further_says_so_and_goes_on():
    answers: list[int] = []
    control = Control(held=answers.append)
    control.may_begin(4)
    control.obey(StepBarrier(step=4))
    control.obey(StepBarrier(step=5))
    assert answers == [5, 5]
    # it was held at 5 only
    control.obey(Pause())
    assert not control.pause_requested.is_set()
    control.may_begin(5)
    assert control.pause_requested.is_set()


@pytest.mark.parametrize("then", [Stop(), Continue()])
def test_a_pause_at_a_step_ends_by_a_stop_there_or_goes_on(then: Stop | Continue):
    with Loop() as loop:
        wait_until(lambda: loop.steps > 100)
        at = loop.held()
        loop.control.obey(Pause())
        wait_until(loop.control.pause_requested.is_set)
        assert loop.steps == at
        if isinstance(then, Stop):
            assert loop.held(ahead=0) == at
        loop.control.obey(then)
        wait_until(lambda: loop.control.stop_requested.is_set() or loop.steps > at)
    assert (loop.steps == at) is isinstance(then, Stop)
