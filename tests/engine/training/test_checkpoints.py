"""A run goes on from its checkpoint bit for bit, or back to a kept state; a damaged file is refused."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from engine.experiment.experiment import Experiment, layered
from engine.experiment.paths import checkpoint_path
from engine.experiment.problem import Kind, ProblemError
from engine.training.runs.checkpoints import Checkpoints, capture_state, restore_state

from .conftest import refusal, trained
from .numerics.conftest import TINY, fault_named, searched

CPU = torch.device("cpu")


@dataclass
class Training:
    """A tiny model with dropout and batch normalisation, whose every step draws random numbers."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler

    def steps(self, count: int) -> list[float]:
        losses = []
        for _ in range(count):
            self.optimizer.zero_grad(set_to_none=True)
            inputs, targets = torch.randn(8, 4), torch.randn(8, 2)
            loss = nn.functional.mse_loss(self.model(inputs), targets)
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
            losses.append(loss.item())
        return losses

    def captured(self, **progress: Any) -> dict[str, Any]:
        return capture_state(self.model, self.optimizer, self.scaler, progress, CPU)

    def restore(self, state: dict[str, Any]) -> dict[str, Any]:
        return restore_state(state, self.model, self.optimizer, self.scaler, CPU)


def training(optimizer: str, seed: int, *, is_scaled: bool = True, width: int = 16) -> Training:
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Linear(4, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.3), nn.Linear(width, 2)
    )
    made: dict[str, torch.optim.Optimizer] = {
        "adamw": torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1),
        "fused": torch.optim.AdamW(model.parameters(), lr=0.01, fused=True),
        "sgd": torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
    }
    scaler = torch.amp.GradScaler("cpu", init_scale=1_024.0, growth_interval=3, enabled=is_scaled)
    return Training(model, made[optimizer], scaler)


@pytest.mark.parametrize(("optimizer", "is_scaled"), [("adamw", True), ("fused", True), ("sgd", False)])
def test_a_resumed_run_is_the_one_that_never_stopped(tmp_path: Path, optimizer: str, is_scaled: bool) -> None:
    first = training(optimizer, seed=1, is_scaled=is_scaled)
    first.steps(5)
    progress = {"epoch": 2, "tally": {"steps": 5, "seconds": 0.1, "best": None}}
    Checkpoints(tmp_path / "run").save("last", first.captured(**progress))
    expected = first.steps(5)

    second = training(optimizer, seed=2, is_scaled=is_scaled)
    assert second.restore(Checkpoints(tmp_path / "run").load("last")) == progress
    assert second.steps(5) == expected
    for mine, other in zip(second.model.parameters(), first.model.parameters(), strict=True):
        assert torch.equal(mine, other)
    assert second.scaler.get_scale() == first.scaler.get_scale()


def test_a_learning_rate_that_is_a_tensor_stays_the_one_that_the_step_holds(tmp_path: Path) -> None:
    rates = [torch.tensor(0.01), torch.tensor(0.5)]
    first, second = (training("adamw", seed=seed) for seed in (1, 2))
    for one, rate in zip((first, second), rates, strict=True):
        one.optimizer = torch.optim.AdamW(one.model.parameters(), lr=rate, capturable=False, foreach=False)
    first.steps(2)
    Checkpoints(tmp_path).save("last", first.captured())
    second.restore(Checkpoints(tmp_path).load("last"))
    assert second.optimizer.param_groups[0]["lr"] is rates[1]


def test_a_checkpoint_is_an_ordinary_file_and_the_newest_of_its_kind_counts(tmp_path: Path) -> None:
    one, kept = training("sgd", seed=1), Checkpoints(tmp_path)
    for step in range(3):
        kept.save("last", one.captured(step=step))
    assert [entry.name for entry in tmp_path.iterdir()] == ["last.pt"]
    assert set(torch.load(tmp_path / "last.pt", weights_only=True)["model"]) == set(one.model.state_dict())
    kept.save("best", one.captured(step=7))
    assert (kept.load("last")["progress"]["step"], kept.load("best")["progress"]["step"]) == (2, 7)


def test_a_missing_damaged_or_foreign_file_is_told_as_that(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path)
    with pytest.raises(ProblemError, match="No checkpoint was found"):
        kept.load("last")
    kept.save("last", training("sgd", seed=1).captured())
    whole = checkpoint_path(tmp_path, "last").read_bytes()
    newer, foreign = {**kept.load("last"), "version": 99}, tmp_path / "foreign.pt"
    torch.save({"model": 1}, foreign)
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    half = whole[: len(whole) // 2]
    for content in (half, b"", b"no archive", b"a.", whole[:-10], bytes(flipped), foreign.read_bytes()):
        checkpoint_path(tmp_path, "last").write_bytes(content)
        problem = refusal(kept.load, "last")
        assert problem.kind is Kind.STORE and "last.pt is damaged or not a checkpoint" in problem.message
    torch.save(newer, checkpoint_path(tmp_path, "last"))
    assert "another version of Ammeter" in refusal(kept.load, "last").message


def test_a_checkpoint_of_another_run_is_refused() -> None:
    state = training("sgd", seed=1).captured()
    unscaled = training("sgd", seed=1, is_scaled=False).captured()
    for other, foreign in ((training("sgd", seed=1, width=8), state), (training("sgd", seed=1), unscaled)):
        with pytest.raises(ProblemError, match="does not fit this run"):
            other.restore(foreign)


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """The system then refuses to write more to a file, as it does on a disk without room."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on the size of files")
@pytest.mark.parametrize("size", [2_000, 100_000, 300_000])
def test_a_full_disk_leaves_the_former_checkpoint_whole(tmp_path: Path, size: int) -> None:
    small, large = training("sgd", seed=1), training("sgd", seed=1, width=20_000)
    kept = Checkpoints(tmp_path)
    kept.save("last", small.captured(step=1))
    with (
        pytest.raises(ProblemError, match="not enough disk space for the checkpoint") as raised,
        files_of_at_most(size),
    ):
        kept.save("last", large.captured(step=2))
    assert raised.value.problem.kind is Kind.DISK_FULL and "AMMETER_HOME" in raised.value.problem.remedy
    assert [entry.name for entry in tmp_path.iterdir()] == ["last.pt"]
    assert kept.load("last")["progress"] == {"step": 1}
    kept.save("last", large.captured(step=3))
    assert kept.load("last")["progress"] == {"step": 3}


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file where a folder should be")
    problem = refusal(Checkpoints(tmp_path / "taken").save, "last", training("sgd", seed=1).captured())
    assert problem.kind is Kind.STORE and "cannot be written" in problem.message


def keeping(experiment: Experiment, every: int) -> Experiment:
    checkpoint = experiment.checkpoint.model_copy(update={"rewind_every": every})
    return experiment.model_copy(update={"checkpoint": checkpoint})


def test_a_state_from_before_the_nan_is_saved_and_the_search_begins_there(tmp_path: Path) -> None:
    fault, folder = fault_named("a learning rate that is too large"), tmp_path / "checkpoints"
    experiment = keeping(fault.experiment(tmp_path), 4)
    (saved,) = [message for message in trained(experiment, folder).logs if "Find it" in message]
    assert "after step 17" in saved
    assert Checkpoints(folder).load("rewind")["progress"]["tally"]["steps"] == 17
    assert searched(experiment, checkpoints=str(tmp_path / "gone"), trouble_step=18).from_step == 0
    search = searched(experiment, checkpoints=str(folder), trouble_step=18)
    assert search.from_step == 17 and fault.is_named_by(search)
    assert search.first is not None and search.first.step == 18


def test_while_steps_are_skipped_no_state_is_kept(tmp_path: Path) -> None:
    experiment = keeping(fault_named("a gradient overflows at any loss scale").experiment(tmp_path), 1)
    trained(experiment, tmp_path / "checkpoints")
    assert not (tmp_path / "checkpoints").exists()  # every step was skipped


def test_keeping_states_changes_no_loss_and_saves_nothing_in_a_healthy_run(tmp_path: Path) -> None:
    experiment = Experiment.model_validate(layered(TINY, {"steps": 6}))
    plain = trained(experiment).losses
    kept = trained(keeping(experiment, 2), tmp_path).losses
    assert kept == plain and not any(tmp_path.iterdir())
