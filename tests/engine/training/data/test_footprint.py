"""What a run's data are said to take, against what they take."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from engine.experiment.experiment import Experiment, experiment_from
from engine.training.data.datasets import Footprint, footprint, load_source
from engine.training.doctor import read_catalog
from engine.training.runs.prepare import RunPlan

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
