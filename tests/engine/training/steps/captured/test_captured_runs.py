"""Whole runs by a recipe that captures, on imitated CUDA: the shortest with a speed, and what is in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from engine.experiment.experiment import LEAST_BLOCKS, Experiment, layered
from engine.experiment.sweep import Pilot
from engine.protocol.events import Event, Finished, Phase, PhaseName, Samples, Summary
from engine.protocol.jobs import Control
from engine.protocol.tune import Tuning
from engine.sweep.order import PilotWatch, pilot_experiment
from engine.training.measuring.telemetry import HostClock
from engine.training.runs.loop import train
from engine.training.steps import recipe
from engine.training.steps.recipe import Capture
from engine.tune.verification import short_run, verification_turns
from tests.engine.training.conftest import PICTURES

MARK_SECONDS, CAPTURE_SECONDS = 0.01, 0.3
STEP_MS = 10.0
"""A step has one mark, when it is made: its data are on the device already."""
CAPTURED = {"step": {"recipe": "fused+capture"}, "validation": {"every": 0}}

Run = Callable[[Experiment], list[Event]]


@pytest.fixture
def run(cuda: Any, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Trains by the imitation, in which every mark and every capture takes its time by the clock."""
    now = 0.0

    def mark(clock: HostClock) -> float:
        nonlocal now
        now += MARK_SECONDS
        return now

    capture = Capture._capture

    def slow(*arguments: Any) -> torch.Tensor:
        nonlocal now
        now += CAPTURE_SECONDS
        return capture(*arguments)

    monkeypatch.setattr(recipe, "_not_capturable", lambda *of: None)
    monkeypatch.setattr(HostClock, "mark", mark)
    monkeypatch.setattr(Capture, "_capture", slow)
    return lambda experiment: list(train(experiment, Control()))


def captured(**settings: Any) -> Experiment:
    return Experiment.model_validate(layered(PICTURES, CAPTURED, {"samples": 160, **settings}))


def summary_of(events: list[Event]) -> Summary:
    assert isinstance(events[-1], Finished)
    summary = events[-1].summary
    assert summary.capture_seconds is not None and summary.recipe == "fused+capture"
    return summary


def pilot_in(events: list[Event]) -> Pilot:
    watch = PilotWatch()
    for event in events:
        watch.take(event)
    pilot = watch.pilot()
    assert pilot is not None
    return pilot


@pytest.mark.slow
@pytest.mark.parametrize(("samples", "warmup"), [(160, 10), (56, 0), (24, 5)])
def test_the_shortest_run_with_a_speed_captures_in_its_warm_up(run: Run, samples: int, warmup: int) -> None:
    experiment = captured(samples=samples, measure={"warmup_steps": warmup, "block_steps": 2}, steps=1)
    summary = summary_of(run(experiment.model_copy(update={"steps": experiment.least_steps})))
    assert summary.step_ms == pytest.approx(STEP_MS)
    assert summary.warmup_seconds is not None and summary.warmup_seconds > CAPTURE_SECONDS
    assert summary.steps == max(warmup, 7) + LEAST_BLOCKS * 2


@pytest.mark.slow
def test_a_pilot_and_the_shortest_trial_of_a_captured_candidate_have_its_speed(run: Run) -> None:
    whole = captured(measure={"warmup_steps": 10}, steps=1_000)
    piloted = pilot_experiment(whole)
    assert piloted is not None
    for experiment in (piloted, short_run(whole, 0.0, None)):
        assert pilot_in(run(experiment)).samples_per_second == pytest.approx(16e3 / STEP_MS)


@pytest.mark.slow
def test_both_sides_of_a_proof_as_long_as_a_short_experiment_have_a_speed(run: Run) -> None:
    whole = captured(step={"recipe": "plain"}, measure={"warmup_steps": 10, "block_steps": 10}, steps=60)
    plain, winner, *_ = verification_turns(
        Tuning(experiment=whole), {"step.recipe": "fused+capture"}, 1e6, 60
    )
    for turn in (plain, winner):
        assert run(turn.experiment)[-1].summary.step_ms == pytest.approx(STEP_MS)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("settings", "steps"),
    [({}, 7), ({"samples": 48}, 6), ({"samples": 24}, 15)],
    ids=["ended early", "captured in an epoch's first step", "every second group is smaller"],
)
def test_without_a_speed_the_time_of_a_step_holds_no_capture(run, settings, steps):
    asked = {"measure": {"warmup_steps": 5, "block_steps": 2}, "steps": steps, **settings}
    events = run(captured(**asked))
    pilot = pilot_in(events)
    assert summary_of(events).samples_per_second is None and pilot.steps == steps
    # with the marks between epochs, which belong to no step
    assert pilot.step_ms is not None and STEP_MS <= pilot.step_ms < 2 * STEP_MS


def test_the_captured_step_is_sent_apart_from_the_others(run: Run) -> None:
    phase, steps = None, []
    for event in run(captured(steps=9)):
        if isinstance(event, Phase):
            phase = event.name
        if isinstance(event, Samples) and phase is PhaseName.CAPTURING:
            steps += event.step
    assert steps == [4]
