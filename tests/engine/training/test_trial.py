"""A trial trains whole steps, gives its memory back, and calls an error by its name."""

from __future__ import annotations

import mmap
import sys
from typing import Any

import pytest

from engine.experiment.experiment import Experiment, layered
from engine.experiment.problem import Kind, ProblemError
from engine.protocol.events import Event, Finished, Phase
from engine.protocol.jobs import Control
from engine.protocol.trials import Tried
from engine.training.data.batches import Batch
from engine.training.doctor import read_catalog
from engine.training.measuring.memory_cap import DataSegment
from engine.training.runs import prepare
from engine.training.runs.prepare import RunPlan
from engine.training.runs.run import Run
from engine.training.runs.trial import LEAST_STEPS, _validated_in_short, try_batch

TINY: dict[str, Any] = {
    "model": "small-cnn",
    "dataset": "synthetic",
    "image_size": 8,
    "num_classes": 4,
    "samples": 64,
    "batch_size": 16,
    "device": "cpu",
    "steps": 2,
}

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux caps and tells a data segment")


def try_it(control: Control | None = None, **settings: Any) -> tuple[Event, ...]:
    experiment = Experiment.model_validate(layered(TINY, settings))
    return tuple(try_batch(experiment, control or Control()))


def tried(**settings: Any) -> Tried:
    last = try_it(**settings)[-1]
    assert isinstance(last, Tried)
    return last


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


def test_a_trial_does_not_wait_for_the_idle_power(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(prepare, "energy_meter", asked.append)
    assert tried().trial.fits and not asked


def test_steps_are_whole_where_batches_are_accumulated_and_the_epoch_ends_with_a_smaller_one() -> None:
    found = tried(samples=41, batch_size=10, step={"gradient_accumulation": 2, "clip_norm": 1.0}, steps=9)
    assert found.trial.fits and found.trial.steps >= LEAST_STEPS
    # a single sample left over is no matter of memory
    assert tried(samples=17).trial.fits


def test_what_a_run_of_several_epochs_goes_through_is_gone_through(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    train_on = Run.train_on

    def noted(run: Run, group: list[Batch]) -> None:
        sizes.append(sum(len(targets) for _, targets in group))
        train_on(run, group)

    monkeypatch.setattr(Run, "train_on", noted)
    assert tried(samples=40, steps=9).trial.fits
    assert sizes == [16, 16, 8, 16, 8, 16], "the smaller group of an epoch, and whole steps after it"


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
    with pytest.raises(ProblemError) as caught:
        try_it(samples=24, step={"gradient_accumulation": 2})
    assert caught.value.problem.kind is Kind.REQUEST


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


@pytest.mark.parametrize(("recipe", "cause"), [("fused+capture", "memory"), ("fused", None)])
def test_a_batch_whose_capture_was_refused_memory_does_not_fit(
    recipe: str, cause: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a CPU leaves every capture out
    monkeypatch.setattr(DataSegment, "was_refused", lambda memory: True)
    assert tried(step={"recipe": recipe}).trial.cause == cause
