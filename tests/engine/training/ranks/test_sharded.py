"""FSDP2 on two ranks of the CPU: the same training as in one process, and checkpoints for any number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from engine.experiment.experiment import experiment_from
from engine.protocol import jobs
from engine.protocol.events import Failed, Log
from engine.training.ranks import shardable_blocks
from engine.worker.perform import perform
from tests.engine.training.conftest import Trained

GLOBAL_BATCH = 8
SETTINGS: dict[str, Any] = {
    "model": "hf:llama",
    "overrides": "hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, "
    "num_key_value_heads=2",
    "dataset": "python-source",
    "sequence_length": 32,
    "device": "cpu",
    "steps": 5,
    "validation": {"limit": 16},
}
CLIPPED: dict[str, Any] = {"clip_norm": 0.1}
SHARDED: dict[str, Any] = {"devices": 2, "batch_size": GLOBAL_BATCH // 2, "ranks": {"strategy": "fsdp"}}


def trained(
    folder: Path | None = None, *, resume: bool = False, stop_after: int | None = None, **settings: Any
) -> Trained:
    control, events = jobs.Control(), []
    experiment = experiment_from({**SETTINGS, "batch_size": GLOBAL_BATCH, **settings})
    checkpoints = None if folder is None else str(folder)
    for event in perform(jobs.Train(experiment=experiment, checkpoints=checkpoints, resume=resume), control):
        events.append(event)
        if stop_after is not None and control.step >= stop_after:
            control.stop_requested.set()
    return Trained(tuple(events))


def saved(folder: Path, name: str = "last") -> dict[str, Any]:
    state: dict[str, Any] = torch.load(folder / f"{name}.pt", weights_only=True)
    return state


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "tolerance"),
    [
        ({"step": {**CLIPPED, "gradient_accumulation": 2, "activation_checkpointing": True}}, 1e-5),
        ({"precision": "bf16", "step": {"recipe": "fused"}}, 5e-3),
        ({"precision": "fp16", "step": CLIPPED}, 5e-3),
    ],
    ids=["FP32, accumulated, recomputed", "BF16, fused", "FP16"],
)
def test_it_trains_as_one_process_at_the_same_global_batch(
    settings: dict[str, Any], tolerance: float
) -> None:
    alone, sharded = trained(**settings), trained(**SHARDED, **settings)
    assert sharded.losses == pytest.approx(alone.losses, rel=tolerance)
    if "clip_norm" in settings.get("step", {}):
        assert sharded.samples.grad_norm == pytest.approx(alone.samples.grad_norm, rel=tolerance)
    (ended,), (ended_alone,) = sharded.epochs, alone.epochs
    assert ended.validation_loss == pytest.approx(ended_alone.validation_loss, rel=tolerance)
    # of a device's shard: what does not divide evenly is padded
    for part in ("parameters_mib", "gradients_mib", "optimizer_state_mib"):
        whole = getattr(alone.summary, part)
        assert getattr(sharded.summary, part) == pytest.approx(whole / 2, rel=0.02), part


@pytest.mark.slow
def test_it_skips_the_steps_that_one_process_skips() -> None:
    settings = {"precision": "fp16", "steps": 12, "scaler": {"init_scale": 2.0**24, "backoff_factor": 0.125}}
    alone, sharded = trained(**settings), trained(**SHARDED, **settings)
    assert sharded.skipped_steps == alone.skipped_steps
    assert sharded.samples.grad_scale == alone.samples.grad_scale
    assert 0 < (sharded.summary.skipped_steps or 0) < 12
    assert not [event for event in sharded.of(Log) if event.level == "problem"]


@pytest.mark.slow
def test_stopped_and_resumed_it_ends_the_same_bit_for_bit(tmp_path: Path) -> None:
    settings = {**SHARDED, "steps": 60, "checkpoint": {"last": True, "rewind_every": 20}}
    straight = trained(tmp_path / "straight", **settings)
    first = trained(tmp_path / "broken", stop_after=3, **settings)
    assert 3 <= first.summary.steps < 60
    begun = saved(tmp_path / "broken")
    second = trained(tmp_path / "broken", resume=True, **settings)
    assert first.losses + second.losses == straight.losses
    whole, resumed = saved(tmp_path / "straight"), saved(tmp_path / "broken")
    for name, tensor in whole["model"].items():
        assert torch.equal(tensor, resumed["model"][name]), name
    for number, values in whole["optimizer"]["state"].items():
        for name, tensor in values.items():
            assert torch.equal(tensor, resumed["optimizer"]["state"][number][name]), name

    # what was stopped on two devices goes on with one
    (tmp_path / "alone").mkdir()
    torch.save(begun, tmp_path / "alone" / "last.pt")
    alone = trained(tmp_path / "alone", resume=True, steps=60, checkpoint={"last": True})
    assert alone.losses == pytest.approx(second.losses, rel=1e-4)


@pytest.mark.slow
def test_the_state_before_the_trouble_is_kept_whole(tmp_path: Path) -> None:
    # from the third step on the scale is far too large, and stays so
    scaler = {"init_scale": 2.0, "growth_factor": 1024.0, "growth_interval": 1, "backoff_factor": 0.9999}
    settings = {"precision": "fp16", "scaler": scaler, "steps": 30, "checkpoint": {"rewind_every": 1}}
    trained(tmp_path, **SHARDED, **settings)
    kept = saved(tmp_path, "rewind")
    assert all(bool(torch.isfinite(tensor).all()) for tensor in kept["model"].values())
    assert kept["model"] and kept["progress"]["tally"]["steps"] >= 1


@pytest.mark.slow
def test_running_statistics_are_the_same_on_all_ranks_and_stay_in_float32(tmp_path: Path) -> None:
    pictures = {"model": "small-cnn", "dataset": "synthetic", "image_size": 8, "num_classes": 4}
    settings = {**pictures, "overrides": "", "precision": "bf16", "samples": 64, "checkpoint": {"last": True}}
    settings |= {"optimizer": {"name": "sgd", "momentum": 0.9, "fused": True}}
    settings |= {"step": {"recipe": "host_counters"}}
    summary = trained(tmp_path, **SHARDED, **settings).summary
    assert summary.left_out["host_counters"] == "Ammeter does not combine it with FSDP2"
    assert summary.first_nan_step is None and "fused" in summary.left_out
    dtypes = {tensor.dtype for tensor in saved(tmp_path)["model"].values() if tensor.is_floating_point()}
    assert dtypes == {torch.float32}


@pytest.mark.slow
def test_a_single_module_is_refused() -> None:
    linear = {"model": "linear", "overrides": "", "dataset": "synthetic-regression", "samples": 100}
    (failed,) = trained(**SHARDED, **linear).of(Failed)
    assert "linear is a single module" in failed.problem.message


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(4, 4)
        self.stem = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.stages = nn.ModuleList([nn.Sequential(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)))])


def test_blocks_are_what_the_model_has_in_lists_or_else_its_parts() -> None:
    net = Net()
    inner = net.stages[0]
    assert isinstance(inner, nn.Sequential)
    assert shardable_blocks(net) == [net.stem[0], *inner[0]]
    parts = nn.Module()
    parts.first, parts.second, parts.empty = nn.Linear(2, 2), nn.Linear(2, 2), nn.ReLU()
    assert shardable_blocks(parts) == [parts.first, parts.second]
    assert shardable_blocks(nn.Linear(2, 2)) == []
