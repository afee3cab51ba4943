"""A run that was stopped and resumed, or paused, ends as one that never was, bit for bit."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.experiment.experiment import Experiment, layered
from engine.experiment.problem import ProblemError
from engine.protocol.events import Epoch, Event, Log, Phase, PhaseName, Samples
from engine.protocol.jobs import Control
from engine.training.runs.checkpoints import Checkpoints
from engine.training.runs.loop import train

from .conftest import HELLO, Trained
from .conftest import trained as run_of

SETTINGS: dict[str, Any] = {
    "model": "small-cnn",
    "dataset": "fashion",
    "image_size": 8,
    "samples": 1_500,
    "batch_size": 100,
    "epochs": 2,
    "device": "cpu",
    "checkpoint": {"last": True},
    "validation": {"limit": 100},
    "measure": {"warmup_steps": 2},
}
# as many steps an epoch, of far fewer pictures, without validation
FEW: dict[str, Any] = {"dataset": "synthetic", "num_classes": 4, "samples": 150, "batch_size": 10}
VARIETIES: list[dict[str, Any]] = [
    {},
    {"precision": "bf16", "optimizer": {"name": "sgd", "momentum": 0.9}},
    {
        "model": "linear",
        "dataset": "synthetic-regression",
        "image_size": None,
        "precision": "fp16",
        "step": {"clip_norm": 1.0},
        "scaler": {"growth_interval": 7},
    },
    {"step": {"gradient_accumulation": 3}, "schedule": {"name": "cosine", "warmup_steps": 4}, "steps": 6},
    {"step": {"recipe": "fused"}, "data": {"augment": True}},
    {
        "model": "hf:vit",
        "overrides": "hidden_size=16, num_hidden_layers=1, num_attention_heads=2, patch_size=4",
        "precision": "fp16",
        "optimizer": {"name": "muon"},
        "scaler": {"growth_interval": 7},
    },
]


def trained(folder: Path, stop_after: int | None = None, *, resume: bool = False, **settings: Any) -> Trained:
    experiment = Experiment.model_validate(layered(SETTINGS, settings))
    return run_of(experiment, folder, stop_after=stop_after, resume=resume)


def stopped_at(is_there: Callable[[Event], bool], folder: Path, **settings: Any) -> Trained:
    """The run, asked to stop at the first event of that kind."""
    control, events = Control(), []
    for event in train(Experiment.model_validate(layered(SETTINGS, settings)), control, folder):
        events.append(event)
        if is_there(event):
            control.stop_requested.set()
    return Trained(tuple(events))


def weights(folder: Path) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = torch.load(folder / "last.pt", weights_only=True)["model"]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("settings", VARIETIES)
def test_resumed_in_mid_epoch_it_ends_the_same(tmp_path, settings):
    # just into the second epoch, of 15 steps or, where batches are accumulated, of five
    settings = {"epochs": None, "steps": 18, **settings}
    straight = trained(tmp_path / "straight", **settings)
    first = trained(tmp_path / "broken", 3, **settings)
    second = trained(tmp_path / "broken", resume=True, **settings)
    assert 3 <= first.summary.steps < straight.summary.steps
    assert first.losses + second.losses == straight.losses
    assert second.started.resumed_step == first.summary.steps
    for name in ("steps", "epochs", "final_train_loss", "best_validation_accuracy", "best_epoch"):
        assert getattr(second.summary, name) == getattr(straight.summary, name), name
    ended = [epoch.epoch for epoch in first.epochs + second.epochs]
    assert ended == [epoch.epoch for epoch in straight.epochs]
    for name, tensor in weights(tmp_path / "straight").items():
        assert torch.equal(tensor, weights(tmp_path / "broken")[name]), name


def test_without_the_setting_nothing_is_saved(tmp_path: Path) -> None:
    trained(tmp_path, steps=3, epochs=None, checkpoint={"last": False})
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_best_is_that_of_the_best_epoch(tmp_path: Path) -> None:
    summary = trained(tmp_path, checkpoint={"last": False, "best": True}).summary
    tally = torch.load(tmp_path / "best.pt", weights_only=True)["progress"]["tally"]
    assert tally["best_accuracy"] == summary.best_validation_accuracy
    assert tally["best_epoch"] == summary.best_epoch
    assert [path.name for path in tmp_path.iterdir()] == ["best.pt"]


def test_nothing_to_resume_from_is_refused_before_any_event(tmp_path: Path) -> None:
    with pytest.raises(ProblemError):
        trained(tmp_path, resume=True)


def test_a_checkpoint_that_cannot_be_written_is_told_and_the_run_goes_on(tmp_path: Path) -> None:
    taken = tmp_path / "a-file"
    taken.write_text("no folder")
    run = trained(taken, epochs=None, steps=3)
    assert run.summary.steps == 3
    assert any("checkpoint" in event.message for event in run.of(Log) if event.level == "warning")
    assert any(phase.name == "saving" for phase in run.of(Phase))


def test_steps_are_told_before_the_checkpoint_that_holds_them(tmp_path: Path) -> None:
    told = 0
    for event in train(Experiment.model_validate(layered(SETTINGS, FEW)), Control(), tmp_path):
        if isinstance(event, Samples):
            told = event.step[-1]
        elif isinstance(event, Phase) and event.name is PhaseName.SAVING:
            assert told in (15, 30)


@pytest.mark.slow
@pytest.mark.parametrize("length", [{"epochs": 1}, {"epochs": None, "steps": 4}])
def test_a_run_stopped_in_its_last_validation_only_validates_when_it_goes_on(tmp_path, length):
    first = stopped_at(
        lambda event: isinstance(event, Phase) and event.name is PhaseName.VALIDATING, tmp_path, **length
    )
    second = trained(tmp_path, resume=True, **length)
    assert first.finished.stopped
    assert second.summary.steps == first.summary.steps and not second.losses
    assert [epoch.step for epoch in first.epochs + second.epochs] == [first.summary.steps]
    assert second.summary.final_validation_accuracy is not None


def test_a_run_that_is_done_is_finished_however_late_it_was_asked_to_stop(tmp_path: Path) -> None:
    settings = {**FEW, "epochs": 1}
    run = stopped_at(lambda event: isinstance(event, Epoch), tmp_path, **settings)
    assert not run.finished.stopped
    assert not trained(tmp_path, resume=True, **settings).losses


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda state: state["progress"]["tally"].pop("loss_sum"), "the progress of its run"),
        (lambda state: state["progress"].pop("tally"), "the progress of its run"),
        (lambda state: state.update(progress=[1]), "the progress of its run"),
        (lambda state: state["progress"].update(epoch=10**30), "the progress of its run"),
        (lambda state: state["progress"].update(epoch=0), "the progress of its run"),
        (lambda state: state["progress"]["tally"].update(seconds=math.nan), "the progress of its run"),
        (lambda state: state["progress"].update(epoch=7), "epoch 7 after step 2"),
        (lambda state: state["progress"]["tally"].update(steps=99), "epoch 1 after step 99"),
        (lambda state: next(iter(state["model"].values())).fill_(math.nan), "contain NaN"),
    ],
)
def test_a_checkpoint_that_cannot_be_is_refused_before_any_event(tmp_path, change, said):
    settings = {"model": "linear", "dataset": "synthetic-regression", "image_size": None, "samples": 4_000}
    trained(tmp_path, 2, **settings)
    checkpoints = Checkpoints(tmp_path)
    state = checkpoints.load("last")
    state["progress"]["epoch"], state["progress"]["tally"]["steps"] = 1, 2
    change(state)
    checkpoints.save("last", state)
    with pytest.raises(ProblemError, match=said):
        trained(tmp_path, resume=True, **settings)


WAITING = Experiment.model_validate(
    layered(HELLO, {"epochs": 60, "measure": {"warmup_steps": 5, "block_steps": 1}})
)


def paused(then: Callable[[Control], None]) -> tuple[Trained, float]:
    """A run that is paused from the first step on, `then` something is done, and its seconds from there."""
    control, began, events = Control(), 0.0, []
    control.pause_requested.set()
    for event in train(WAITING, control):
        events.append(event)
        if isinstance(event, Phase) and event.name is PhaseName.WARMING_UP:
            began = began or time.monotonic()
        if isinstance(event, Phase) and event.name is PhaseName.PAUSED:
            then(control)
    return Trained(tuple(events)), time.monotonic() - began


def test_a_paused_run_goes_on_as_if_nothing_had_been_and_counts_its_pause_apart() -> None:
    told, took = paused(lambda control: threading.Timer(0.2, control.pause_requested.clear).start())
    straight = run_of(WAITING)
    phases = [phase.name for phase in told.of(Phase)]
    assert phases == ["building", "warming up", "paused", "warming up", "measuring"]
    assert told.losses == straight.losses and len(told.losses) == 60
    seconds = told.summary.paused_seconds or 0.0
    assert seconds > 0.1 and told.summary.seconds + seconds <= took
    assert straight.summary.paused_seconds is None


def test_a_run_that_is_stopped_while_it_waits_makes_no_further_step() -> None:
    told, _ = paused(lambda control: control.stop_requested.set())
    assert told.finished.stopped and told.summary.steps == len(told.losses) == 1
