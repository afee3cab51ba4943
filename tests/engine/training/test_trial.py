"""A trial trains whole steps, gives its memory back, and calls an error by its name."""

from __future__ import annotations

import mmap
import sys
from contextlib import nullcontext
from itertools import accumulate, count
from typing import Any

import pytest
import torch

from engine.experiment.experiment import Experiment, layered
from engine.experiment.problem import Kind
from engine.protocol.events import Event, Finished, Phase, PhaseName
from engine.protocol.jobs import Control
from engine.protocol.trials import Tried
from engine.training.data.batches import Batch
from engine.training.doctor import read_catalog
from engine.training.measuring.memory_cap import DataSegment
from engine.training.measuring.telemetry import HostClock
from engine.training.runs import prepare
from engine.training.runs.plan import RunPlan
from engine.training.runs.run import Run
from engine.training.runs.trial import LEAST_STEPS, MOST_STEPS, _validated_in_short, try_batch
from engine.training.steps.plain import PlainStep

from .conftest import PICTURES, OwnRuns, refusal

TINY: dict[str, Any] = {**PICTURES, "samples": 64, "steps": 2}

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux caps and tells a data segment")


def try_it(control: Control | None = None, **settings: Any) -> tuple[Event, ...]:
    experiment = Experiment.model_validate(layered(TINY, settings))
    return tuple(try_batch(experiment, control or Control()))


def tried(experiment: Experiment | None = None, **settings: Any) -> Tried:
    asked = experiment or Experiment.model_validate(layered(TINY, settings))
    *_, last = try_batch(asked, Control())
    assert isinstance(last, Tried)
    return last


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """For each step of a trial: its samples, and whether cuDNN searches."""
    seen: list[tuple[int, bool]] = []
    train_on = Run.train_on

    def noted(run: Run, group: list[Batch]) -> None:
        seen.append((sum(len(targets) for _, targets in group), torch.backends.cudnn.benchmark))
        train_on(run, group)

    monkeypatch.setattr(Run, "train_on", noted)
    return seen


def test_a_batch_that_fits_has_trained_for_three_whole_steps_however_short_the_run() -> None:
    *phases, found = try_it()
    # the phases are told, and the start is not
    assert phases and all(isinstance(event, Phase) for event in phases)
    assert isinstance(found, Tried)
    assert found.trial.fits and found.trial.batch_size == 16 and found.trial.cause is None
    assert found.trial.steps >= LEAST_STEPS
    assert found.train_samples == 64
    # the least that training takes counts the optimizer's state
    sgd = tried(optimizer={"name": "sgd"})
    assert found.model_mib is not None and found.model_mib == pytest.approx(2 * (sgd.model_mib or 0))


def test_the_throughput_is_that_of_one_step_after_the_least_steps(
    monkeypatch: pytest.MonkeyPatch, groups: list[tuple[int, bool]]
) -> None:
    # by a clock on which each of the first three steps takes 5 s, and each further one half a second
    ticks = accumulate(5.0 if len(groups) <= LEAST_STEPS else 0.5 for _ in count())
    monkeypatch.setattr(HostClock, "mark", lambda _clock: next(ticks))
    assert tried().trial.one_step_samples_per_second == 16 / 0.5
    groups.clear()
    accumulated = tried(samples=80, batch_size=10, step={"gradient_accumulation": 2}).trial
    assert accumulated.one_step_samples_per_second == 20 / 0.5


def test_a_quick_trial_and_one_under_a_cap_on_a_cpu_have_no_throughput(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = Experiment.model_validate(TINY)
    *_, quick = try_batch(asked, Control(), searches_algorithms=False)
    assert isinstance(quick, Tried) and quick.trial.fits
    assert quick.trial.one_step_samples_per_second is None and quick.trial.steps == LEAST_STEPS
    monkeypatch.setattr("engine.training.runs.prepare.memory_cap", lambda *_arguments: nullcontext())
    capped = tried(memory_cap_gib=0.5).trial
    assert capped.fits and capped.one_step_samples_per_second is None


@pytest.mark.parametrize("gauge", ["energy_meter", "sensor_gauge"])
def test_a_trial_reads_neither_power_nor_activity(gauge: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(prepare, gauge, asked.append)
    assert tried().trial.fits and not asked


def test_steps_are_whole_where_batches_are_accumulated_and_the_epoch_ends_with_a_smaller_one() -> None:
    found = tried(samples=41, batch_size=10, step={"gradient_accumulation": 2, "clip_norm": 1.0}, steps=9)
    assert found.trial.fits and found.trial.steps >= LEAST_STEPS
    # a single sample left over is no matter of memory
    assert tried(samples=17).trial.fits


def test_what_a_run_of_several_epochs_goes_through_is_gone_through(groups: list[tuple[int, bool]]) -> None:
    assert tried(samples=40, steps=9).trial.fits
    sizes = [size for size, _ in groups]
    assert sizes == [16, 16, 8, 16, 16, 8, 16], "the smaller group of an epoch, and whole steps after it"


def test_the_validation_is_made_with_the_sizes_of_its_batches() -> None:
    settings = layered(
        TINY, {"dataset": "fashion", "image_size": None, "num_classes": None, "batch_size": 300}
    )
    plan = RunPlan(Experiment.model_validate(settings), read_catalog())
    assert plan.facts.validation_samples == 1_000
    assert _validated_in_short(plan).validation.limit == 300 + 1_000 % 300


def test_a_stopped_trial_has_no_outcome() -> None:
    control = Control()
    control.stop_requested.set()
    last = try_it(control)[-1]
    assert isinstance(last, Finished) and last.stopped


def test_a_batch_that_no_epoch_fills_is_refused() -> None:
    assert refusal(try_it, samples=24, step={"gradient_accumulation": 2}).kind is Kind.REQUEST


@on_linux
def test_the_segments_peak_outlives_what_was_in_it() -> None:
    memory = DataSegment(budget_mib=1_000)
    before = memory.peak_mib()
    assert before is not None and before < 8
    # asked of the system itself: a tensor may lie where this long-lived process had something before
    mmap.mmap(-1, 20 * 2**20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    peak = memory.peak_mib()
    assert peak is not None and 20 <= peak < 32
    assert memory.release() < 8


NET = """
import torch
from torch import nn

def model():
    return nn.ModuleList([nn.Linear(4, 8), nn.Linear(8, 3)])

def batch(size):
    return torch.randn(size, 4), torch.randint(3, (size,))

def optimizer(model):
    return [torch.optim.AdamW(part.parameters()) for part in model]
"""
TAKING_TURNS = (
    NET
    + """
steps = 0

def step(train, batch):
    global steps
    steps += 1
    first, second = train.model
    with train.autocast():
        loss = second(first(batch[0])).square().mean()
    train.backward(loss)
    train.step(train.optimizers[steps % 5 == 0])
"""
)
NEVER_FINITE = (
    NET
    + """
def step(train, batch):
    first, second = train.model
    train.backward(second(first(batch[0])).sum() * float("nan"))
    for each in train.optimizers:
        train.step(each)
"""
)


@pytest.fixture
def states(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """For each trial that ended: how many weights have state in its optimizer."""
    counted: list[int] = []
    close = Run.close

    def noted(run: Run) -> None:
        counted.append(len(run.step.optimizer.state))
        close(run)

    monkeypatch.setattr(Run, "close", noted)
    return counted


@pytest.mark.parametrize(
    ("text", "settings", "weights"),
    [
        pytest.param(None, {"precision": "fp16", "scaler": {"init_scale": 2.0**40}}, 10, id="large scale"),
        pytest.param(TAKING_TURNS, {"precision": "fp32"}, 4, id="optimizers in turns"),
        pytest.param(TAKING_TURNS, {"precision": "fp16"}, 4, id="optimizers in turns, scaled"),
    ],
)
def test_a_trial_ends_once_every_optimizer_has_its_state(
    text: str | None, settings: dict[str, Any], weights: int, states: list[int], own: OwnRuns
) -> None:
    found = tried(**settings) if text is None else tried(own.asked(text, samples=1_000, steps=8, **settings))
    assert found.trial.fits and states == [weights] and found.trial.note is None


def test_a_trial_that_updates_no_weight_says_that_state_is_missing(states: list[int], own: OwnRuns) -> None:
    found = tried(own.asked(NEVER_FINITE, samples=1_000, steps=8, precision="fp16"))
    assert found.trial.steps == MOST_STEPS and states == [0]
    assert found.trial.note is not None and "so the peak does not include it" in found.trial.note


def test_an_optimizer_that_keeps_no_state_needs_no_more_steps() -> None:
    assert tried(optimizer={"name": "sgd", "momentum": 0.0}).trial.steps <= LEAST_STEPS + 1


class Refusals:
    """Makes the allocator of a trial refuse, and captures fail, in steps of a number."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, refused: int, capture_fails: int | None) -> None:
        self.steps = self.count = self.known = 0
        train_on = Run.train_on

        def noted(run: Run, group: list[Batch]) -> None:
            self.steps += 1
            train_on(run, group)
            self.count += self.steps == refused
            if self.steps == capture_fails:
                run.step.capture_failed = True

        def phase(step: PlainStep) -> PhaseName | None:
            return PhaseName.CAPTURING if self.steps + 1 == capture_fails else None

        monkeypatch.setattr(Run, "train_on", noted)
        monkeypatch.setattr(PlainStep, "next_phase", phase)
        monkeypatch.setattr(DataSegment, "was_refused", lambda memory: self.count > self.known)
        monkeypatch.setattr(DataSegment, "forget_refusals", lambda memory: self.forget())

    def forget(self) -> None:
        self.known = self.count


@pytest.mark.parametrize(
    ("refused", "capture_fails", "cause"),
    [
        pytest.param(3, 3, "memory", id="the capture was refused memory"),
        pytest.param(1, 3, None, id="cuDNN's search was, and the capture failed otherwise"),
        pytest.param(3, 2, None, id="a step after a failed capture recovered"),
        pytest.param(1, None, None, id="no capture was tried"),
    ],
)
@pytest.mark.parametrize("recipe", ["plain", "fused+capture", "channels_last+fused+capture"])
def test_only_a_capture_that_was_refused_memory_means_that_a_batch_does_not_fit(
    recipe: str,
    refused: int,
    capture_fails: int | None,
    cause: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # a CPU rules out every capture beforehand, which is no failure
    Refusals(monkeypatch, refused, capture_fails)
    assert tried(step={"recipe": recipe}).trial.cause == cause


@pytest.mark.parametrize(
    ("recipe", "searches", "expected"),
    [("fused", True, True), ("fused", False, False), ("plain", True, False)],
)
def test_a_quick_trial_leaves_out_cudnns_search_and_sets_it_back(
    recipe: str, searches: bool, expected: bool, groups: list[tuple[int, bool]]
) -> None:
    before = torch.backends.cudnn.benchmark
    experiment = Experiment.model_validate(layered(TINY, {"step": {"recipe": recipe}}))
    *_, last = try_batch(experiment, Control(), searches_algorithms=searches)
    assert (
        isinstance(last, Tried)
        and {is_on for _, is_on in groups} == {expected}
        and torch.backends.cudnn.benchmark is before
    )
