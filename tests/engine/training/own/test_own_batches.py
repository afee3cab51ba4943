"""Batches of the user's own: what they may be made of, and that drawing them disturbs nothing."""

from __future__ import annotations

from contextlib import closing

import pytest
import torch
from torch.utils._pytree import tree_leaves

from engine.training.checks.check import check
from engine.training.data.own import load_own, made_up, seeded
from engine.training.forecast import forecast
from engine.training.models.own import OwnFile

HEAD = """
from collections import UserDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import nn

x = torch.ones(4, 3)
labels = torch.zeros(4, dtype=torch.long)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x, mask=None, labels=None):
        return self.layer(x)


def model():
    return Net()


@dataclass
class Parts:
    x: torch.Tensor
    mask: object = None


@dataclass(frozen=True)
class Whole:
    x: torch.Tensor
    labels: torch.Tensor


class Pair(NamedTuple):
    inputs: object
    targets: object


class Triple(NamedTuple):
    x: torch.Tensor
    mask: object
    labels: torch.Tensor


class ReadOnly(Mapping):
    def __init__(self, **parts):
        self._parts = parts

    def __getitem__(self, key):
        return self._parts[key]

    def __iter__(self):
        return iter(self._parts)

    def __len__(self):
        return len(self._parts)

"""
CONTAINERS = {
    "BatchEncoding": "BatchEncoding({'x': x, 'labels': labels})",
    "BatchFeature": "BatchFeature({'x': x}), labels",
    "a mapping of a class of its own": "ReadOnly(x=x, labels=labels)",
    "mappings in one another": "UserDict(x=x, mask=UserDict(a=[x, ReadOnly(b=x)])), labels",
    "a dataclass": "Parts(x), labels",
    "a dataclass as the whole batch": "Whole(x, labels)",
    "a dataclass of mappings": "Parts(x, ReadOnly(a=x)), {'of': labels}",
    "a named tuple of inputs and targets": "Pair(Parts(x), labels)",
    "a named tuple of other parts": "Triple(x, None, labels)",
    "a named tuple as inputs": "Pair(x, x), labels",
}


@pytest.mark.parametrize("name", CONTAINERS)
@pytest.mark.parametrize("is_dataset", [False, True])
def test_every_tensor_reaches_the_device_whatever_it_is_in(own, name, is_dataset):
    made = CONTAINERS[name]
    library = name if name.startswith("Batch") else None
    if library is not None:
        pytest.importorskip("transformers")
    body = f"    return {made}\n"
    body = f"    from transformers import {library}\n{body}" if library else body
    if is_dataset:
        text = f"{HEAD}def dataset():\n    return list(range(4))\n\ndef collate(samples):\n{body}"
    else:
        text = f"{HEAD}def batch(size):\n{body}"
    experiment = own.experiment(own.write(text))
    file = OwnFile(experiment.own_code, None, 0)
    # of a device other than the host, for there may be no other
    with closing(load_own(file, experiment, torch.device("meta"), torch.contiguous_format)) as source:
        inputs, targets = next(iter(source.epoch(1)))
    leaves = tree_leaves((inputs, targets))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    assert len(tensors) >= 2 and {tensor.device.type for tensor in tensors} == {"meta"}
    assert all(isinstance(leaf, torch.Tensor | None) for leaf in leaves)
    assert isinstance(inputs, tuple) or inputs.x is inputs["x"]


def test_memory_is_forecast_for_batches_of_a_dataclass(own):
    text = f"{HEAD}def batch(size):\n    return Parts(torch.randn(size, 3)), labels[:1].expand(size)\n"
    assert forecast(own.experiment(own.write(text))).per_sample_mib > 0


@pytest.mark.slow
def test_batches_of_a_dataclass_train(own):
    text = f"{HEAD}def dataset():\n    return list(range(16))\n"
    text += "def collate(samples):\n    return Parts(torch.randn(len(samples), 3)), labels[: len(samples)]\n"
    for settings in ({}, {"data": {"workers": 1}}):
        assert len(own.losses(own.experiment(own.write(text), **settings))) == 6


def test_a_random_number_of_the_data_does_not_change_the_models_draws(own):
    torch.manual_seed(7)
    before = torch.rand(1)
    torch.manual_seed(7)
    with seeded(3):
        torch.rand(5)
    assert torch.equal(torch.rand(1), before)


def test_drawing_a_batch_leaves_the_generators_of_other_devices_alone(own, monkeypatch):
    text = f"{HEAD}def batch(size):\n    return torch.randn(size, 3), labels\n"
    experiment = own.experiment(own.write(text))
    file = OwnFile(experiment.own_code, None, 0)
    seeds = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeds.append)
    batches = [made_up(file, experiment, turn)[0] for turn in (0, 1, 0)]
    assert not seeds
    assert torch.equal(batches[0], batches[2]) and not torch.equal(batches[0], batches[1])


def test_a_dict_that_the_model_does_not_take_is_told_by_check(own):
    text = f"{HEAD}def batch(size):\n    return {{'image': torch.randn(size, 3)}}, labels[:1].expand(size)\n"
    (error,) = check(own.experiment(own.write(text))).errors
    assert error.message == "Net.forward takes x, mask and labels, but the inputs are a dict of image."
    assert "forward(model, inputs)" in error.remedy
