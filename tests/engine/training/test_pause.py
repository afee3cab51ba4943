"""A pause is taken at a step boundary, and is in none of the figures but its own."""

from __future__ import annotations

import threading
import time
from typing import Any

from engine.experiment.experiment import Experiment, layered
from engine.protocol.events import Event, Finished, Phase, PhaseName, Samples
from engine.protocol.jobs import Control
from engine.training.runs.loop import train

SETTINGS: dict[str, Any] = {
    "model": "linear",
    "dataset": "synthetic-regression",
    "samples": 20,
    "batch_size": 20,
    "device": "cpu",
    "epochs": 60,
    "measure": {"warmup_steps": 5, "block_steps": 1},
}


def phases(events: list[Event]) -> list[PhaseName]:
    return [event.name for event in events if isinstance(event, Phase)]


def losses(events: list[Event]) -> tuple[float, ...]:
    return sum((event.loss for event in events if isinstance(event, Samples)), ())


def trained(control: Control, **settings: Any) -> list[Event]:
    """The events of a run that is paused from the first phase on, and told to go on when it waits."""
    events = []
    for event in train(Experiment.model_validate(layered(SETTINGS, settings)), control):
        events.append(event)
        if isinstance(event, Phase) and event.name is PhaseName.PAUSED:
            threading.Timer(0.2, control.pause_requested.clear).start()
    return events


def test_a_paused_run_goes_on_as_if_nothing_had_been() -> None:
    control = Control()
    control.pause_requested.set()
    paused, straight = trained(control), trained(Control())
    assert phases(paused) == ["building", "warming up", "paused", "warming up", "measuring"]
    assert losses(paused) == losses(straight) and len(losses(paused)) == 60


def test_a_pause_is_counted_apart() -> None:
    control = Control()
    control.pause_requested.set()
    began, events = 0.0, []
    for event in train(Experiment.model_validate(SETTINGS), control):
        events.append(event)
        if isinstance(event, Phase) and event.name is PhaseName.WARMING_UP:
            began = began or time.monotonic()
        if isinstance(event, Phase) and event.name is PhaseName.PAUSED:
            threading.Timer(0.2, control.pause_requested.clear).start()
    took, last = time.monotonic() - began, events[-1]
    assert isinstance(last, Finished) and last.summary.seconds is not None
    paused = last.summary.paused_seconds or 0.0
    assert paused > 0.1
    assert last.summary.seconds + paused <= took
    *_, never = trained(Control())
    assert isinstance(never, Finished) and never.summary.paused_seconds is None


def test_a_paused_run_can_be_stopped() -> None:
    control = Control()
    control.pause_requested.set()
    for event in train(Experiment.model_validate(SETTINGS), control):
        if isinstance(event, Phase) and event.name is PhaseName.PAUSED:
            control.stop_requested.set()
    assert isinstance(event, Finished) and event.stopped and event.summary.steps == 1


def test_a_run_that_is_stopped_while_it_waits_makes_no_further_step() -> None:
    control, events = Control(), []
    control.pause_requested.set()
    for event in train(Experiment.model_validate(SETTINGS), control):
        events.append(event)
        if isinstance(event, Phase) and event.name is PhaseName.PAUSED:
            control.stop_requested.set()
    last = events[-1]
    assert isinstance(last, Finished) and last.stopped
    assert last.summary.steps == len(losses(events)) == 1
