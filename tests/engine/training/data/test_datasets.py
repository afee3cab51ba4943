"""The datasets: what the catalog says of them, and what they become."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from engine.experiment.checks import resolve
from engine.experiment.experiment import Experiment, experiment_from
from engine.training.data import images as built_in
from engine.training.data.batches import BatchSource, DeviceSource, ReusedBatches
from engine.training.data.datasets import (
    DatasetFacts,
    Footprint,
    dataset_entries,
    facts_of,
    footprint,
    load_source,
)
from engine.training.data.loader import LoadedSource
from engine.training.doctor import read_catalog
from engine.training.runs.plan import RunPlan

CPU = torch.device("cpu")


def resolved(**settings: Any) -> Experiment:
    return resolve(Experiment.model_validate({"device": "cpu", **settings}), read_catalog())


def source(
    channels: int = 1, memory_format: torch.memory_format = torch.contiguous_format, **settings: Any
) -> BatchSource:
    return load_source(resolved(**settings), channels, CPU, memory_format)


def test_the_built_in_pictures_are_what_the_catalog_says() -> None:
    train, test = built_in.built_in()
    assert train.inputs.shape == (6_000, 1, 28, 28) and test.inputs.shape == (1_000, 1, 28, 28)
    assert train.inputs.dtype == torch.uint8 and set(train.targets.tolist()) == set(range(10))
    assert facts_of(resolved()) == DatasetFacts(6_000, 1_000, num_classes=10, image_size=28, channels=1)


def test_pictures_are_normalised_resized_and_given_three_channels_on_the_device() -> None:
    inputs = torch.cat([inputs for inputs, _ in source().epoch(1)])
    assert abs(inputs.mean().item()) < 0.02 and abs(inputs.std().item() - 1) < 0.02
    inputs, _ = next(source(channels=3, model="resnet18", image_size=40, batch_size=8).epoch(1))
    assert inputs.shape == (8, 3, 40, 40)
    assert torch.equal(inputs[:, 0], inputs[:, 2])


@pytest.mark.parametrize("settings", [{"dataset": "synthetic"}, {"dataset": "fakedata"}, {}])
def test_batches_come_in_the_layout_that_is_asked_for(settings: dict[str, Any]) -> None:
    given = {"model": "resnet18", "image_size": 40, "batch_size": 4, "samples": 8, **settings}
    inputs, _ = next(source(3, torch.channels_last, **given).epoch(1))
    assert inputs.is_contiguous(memory_format=torch.channels_last) and inputs.dtype == torch.float32


def test_synthetic_regression_comes_from_the_seed() -> None:
    first, again, other = (
        next(
            source(0, model="linear", dataset="synthetic-regression", samples=20, batch_size=20, seed=seed)
            .epoch(1)
        )
        for seed in (5, 5, 6)
    )  # fmt: skip
    assert first[0].shape == (20, 10) and first[1].shape == (20, 1)
    assert torch.equal(first[1], again[1]) and not torch.equal(first[1], other[1])


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({}, DeviceSource),
        ({"data": {"on_device": False}}, LoadedSource),
        ({"dataset": "fakedata", "image_size": 8}, LoadedSource),
        ({"dataset": "fakedata", "image_size": 8, "data": {"on_device": True}}, DeviceSource),
        ({"dataset": "synthetic", "image_size": 8}, ReusedBatches),
    ],
)
def test_what_is_small_lies_on_the_device_unless_it_is_said(settings, kind):
    pictures = source(3, **settings)
    assert isinstance(pictures, kind)
    pictures.close()


def test_fake_pictures_are_counted_as_the_guides_have_them() -> None:
    experiment = resolved(dataset="fakedata", num_classes=7, image_size=16, batch_size=500)
    assert facts_of(experiment) == DatasetFacts(2_000, 500, num_classes=7, image_size=16, channels=3)
    pictures = load_source(experiment, 3, CPU)
    train = torch.cat([labels for _, labels in pictures.epoch(1)])
    (validation,) = [labels for _, labels in pictures.validation(None)]
    assert len(train) == 2_000 and len(validation) == 500 and not torch.equal(validation, train[:500])
    assert train.unique().tolist() == list(range(7))


def test_each_dataset_has_a_size() -> None:
    facts = facts_of(Experiment(dataset="synthetic-tokens", samples=300))
    assert facts.train_samples == 300 and facts.num_classes == 32_000 and facts.image_size == 0
    loading = [entry for entry in dataset_entries() if entry.loads]
    assert {entry.name for entry in loading} >= {"fashion", "cifar10", "mnist", "fakedata", "image-folder"}
    # only the file itself shows what arrays are
    assert all(entry.image_size and entry.channels for entry in loading if entry.name != "arrays")
    assert [entry.name for entry in loading if not entry.can_augment] == ["mnist"]


BATCH = 40
PICTURES: dict[str, Any] = {
    "model": "small-cnn",
    "dataset": "synthetic",
    "image_size": 8,
    "num_classes": 4,
    "device": "cpu",
    "batch_size": BATCH,
}
TOKENS: dict[str, Any] = {
    "model": "causal-lm-tiny",
    "dataset": "synthetic-tokens",
    "sequence_length": 8,
    "num_classes": 100,
    "device": "cpu",
    "batch_size": BATCH,
}


def bytes_of(*tensors: torch.Tensor) -> int:
    """Of the memory that lies under them, each piece of it once."""
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage() for tensor in tensors}
    return sum(storage.nbytes() for storage in storages.values())


def footprint_of(settings: dict[str, Any], device: str = "cpu") -> Footprint:
    plan = RunPlan(experiment_from(settings), read_catalog())
    # a machine of any kind can say what a card would need
    experiment: Experiment = plan.experiment.model_copy(update={"device": device})
    return footprint(experiment, plan.model_entry, plan.dataset_entry, plan.facts, BATCH)


@pytest.mark.parametrize("settings", [PICTURES, TOKENS], ids=["pictures", "tokens"])
def test_drawn_samples_take_what_is_said_and_that_is_little_more_than_one_batch(settings):
    experiment = RunPlan(experiment_from(settings), read_catalog()).experiment
    batches = list(load_source(experiment, 3, torch.device("cpu")).epoch(1))[:8]
    taken = bytes_of(*(part for batch in batches for part in batch))
    told = footprint_of(settings)
    assert bytes_of(*told.held) == bytes_of(*told.held, *told.batches[0]) == taken
    one_batch = sum(part.nbytes for part in batches[0])
    assert one_batch < taken < 1.4 * one_batch


@pytest.mark.parametrize("groups", [1, 6])
@pytest.mark.parametrize("dataset", ["synthetic", "fashion"])
def test_a_captured_step_keeps_a_copy_of_each_of_its_batches(dataset: str, groups: int) -> None:
    step = {"recipe": "fused+capture", "gradient_accumulation": groups}
    settings = {**PICTURES, "dataset": dataset, "step": step}
    if dataset == "fashion":
        settings |= {"num_classes": None, "image_size": None}
    plain, captured = footprint_of(settings), footprint_of(settings, "cuda:0")
    copies = sum(part.nbytes for batch in captured.batches for part in batch)
    assert len(captured.batches) == groups
    assert bytes_of(*captured.held) - bytes_of(*plain.held) == copies
