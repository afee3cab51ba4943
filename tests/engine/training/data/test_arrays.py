"""Batches of a file of the user's own arrays: each sample's inputs with its targets, mapped or kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from engine.experiment.experiment import Experiment, experiment_from
from engine.training.data.datasets import load_source
from engine.training.doctor import read_catalog
from engine.training.forecast import forecast
from engine.training.runs.plan import RunPlan
from tests.engine.training.conftest import refusal, trained

CPU = torch.device("cpu")
PICTURES = np.arange(40 * 8 * 10 * 3, dtype=np.uint8).reshape(40, 8, 10, 3)
NUMBERS = np.arange(40)


def experiment(path: Path, /, **given: Any) -> Experiment:
    chosen = {"dataset": "arrays", "path": str(path), "device": "cpu", "batch_size": 4, "steps": 2}
    return experiment_from(chosen | {"measure": {"warmup_steps": 0}} | given)


def planned(path: Path, /, **given: Any) -> RunPlan:
    return RunPlan(experiment(path, **given), read_catalog())


@pytest.mark.parametrize("compressed", [False, True])
def test_mapped_and_kept_samples_are_the_same(tmp_path: Path, compressed: bool) -> None:
    path = tmp_path / "p.npz"
    (np.savez_compressed if compressed else np.savez)(path, images=PICTURES, labels=NUMBERS % 4)
    batches = []
    for on_device in (True, False):
        plan = planned(path, data={"on_device": on_device})
        assert (plan.experiment.data.inputs, plan.experiment.data.targets) == ("images", "labels")
        assert (plan.facts.image_size, plan.facts.channels, plan.facts.num_classes) == (8, 3, 4)
        assert (plan.facts.train_samples, plan.facts.validation_samples) == (36, 4)
        source = load_source(plan.experiment, 3, CPU)
        batches.append([*source.epoch(1), *source.validation(None)])
        source.close()
    assert len(batches[0]) == 10
    for (inputs, targets), (others, again) in zip(*batches, strict=True):
        assert inputs.shape[1:] == (3, 8, 8) and inputs.dtype == torch.float32
        assert torch.equal(inputs, others) and torch.equal(targets, again)
    assert sorted(torch.cat([targets for _, targets in batches[0]]).tolist()) == sorted(NUMBERS % 4)


def test_a_sample_keeps_its_target(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", NUMBERS[:, None] * np.ones((1, 3), ">f8"))
    np.save(tmp_path / "y.npy", np.asfortranarray(NUMBERS[:, None] * np.array([[2.0, 3.0]])))
    plan = planned(tmp_path / "x.npy", model="linear")
    source = load_source(plan.experiment, 3, CPU)
    for inputs, targets in source.epoch(1):
        assert inputs.dtype == targets.dtype == torch.float32
        assert torch.equal(inputs[:, :2] * torch.tensor([2.0, 3.0]), targets)
    model = plan.workload.build()
    assert model.weight.shape == (2, 3)


def test_floats_are_not_normalised_and_grey_becomes_three_channels(tmp_path: Path) -> None:
    values = np.random.default_rng(0).standard_normal((40, 8, 8)).astype(np.float16)
    np.savez(tmp_path / "f.npz", x=values, y=NUMBERS % 2)
    source = load_source(planned(tmp_path / "f.npz").experiment, 3, CPU)
    ((inputs, _), *_) = source.validation(None)
    assert torch.equal(inputs[:, 0], inputs[:, 2])
    assert any(torch.equal(inputs[0, 0], torch.from_numpy(value).float()) for value in values)


def test_each_tokens_target_is_the_next(tmp_path: Path) -> None:
    tokens = np.arange(40 * 9, dtype=np.uint16).reshape(40, 9)
    np.save(tmp_path / "tokens.npy", tokens)
    plan = planned(tmp_path / "tokens.npy", model="causal-lm-tiny")
    assert (plan.experiment.sequence_length, plan.experiment.num_classes) == (8, 360)
    for inputs, targets in load_source(plan.experiment, 3, CPU).epoch(1):
        assert torch.equal(inputs + 1, targets) and inputs.shape == (4, 8)


@pytest.mark.parametrize("ending", [".npz", ".parquet"])
def test_runs_train_validate_and_are_forecast(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a{ending}"
    rows = np.random.default_rng(0).standard_normal((40, 6)).astype(np.float32)
    if ending == ".npz":
        np.savez(path, x=rows, y=rows[:, 0])
    else:
        pd.DataFrame({"features": list(rows), "target": rows[:, 0]}).to_parquet(path)
    wanted = experiment(path, model="linear")
    (epoch,) = trained(wanted).epochs
    assert epoch.validation_loss is not None and epoch.validation_accuracy is None
    assert 0 < forecast(wanted).needed_mib < 1_024


@pytest.mark.parametrize(
    ("arrays", "given", "key"),
    [
        ({"x": PICTURES, "y": NUMBERS - 1}, {}, "path"),
        ({"x": PICTURES, "y": NUMBERS}, {"num_classes": 9}, "num_classes"),
        ({"x": PICTURES, "y": NUMBERS}, {"batch_size": 37}, "batch_size"),
        ({"x": PICTURES, "y": NUMBERS}, {"path": None}, "path"),
        ({"x": PICTURES, "y": NUMBERS}, {"model": "linear"}, "dataset"),
        ({"x": PICTURES, "y": NUMBERS / 2}, {}, "dataset"),
        ({"x": NUMBERS[:, None] / 2, "y": NUMBERS / 2}, {"model": "linear", "image_size": 8}, "image_size"),
    ],
)
def test_what_the_model_cannot_take_is_refused(tmp_path, arrays, given, key):
    np.savez(tmp_path / "a.npz", **arrays)
    assert refusal(planned, tmp_path / "a.npz", **given).key == key


def test_uneven_lists_and_empty_cells_are_named(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    for column in ([[1.0, 2.0]] * 39 + [[1.0]], [*range(39), None]):
        pd.DataFrame({"features": column, "target": NUMBERS / 2}).to_parquet(path)
        assert "'features'" in refusal(planned, path, model="linear").message
