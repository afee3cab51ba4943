"""The models: what the catalog says of them is what they do."""

from __future__ import annotations

from functools import lru_cache
from unittest.mock import Mock

import pytest
import torch
import torchvision
from torch import nn

from engine.experiment.experiment import experiment_from
from engine.training.doctor import read_catalog
from engine.training.models.build import build_model, count_parameters, input_channels, model_entries
from engine.training.models.tensor_cores import size_findings
from engine.training.runs import workload
from engine.training.runs.plan import RunPlan

ENTRIES = {entry.name: entry for entry in model_entries()}
FAMILIES = [
    *("small-cnn", "alexnet", "convnext_tiny", "densenet121", "efficientnet_b0", "efficientnet_v2_s"),
    *("googlenet", "inception_v3", "maxvit_t", "mnasnet0_5", "mobilenet_v3_small", "resnet18"),
    *("shufflenet_v2_x0_5", "squeezenet1_0", "swin_t", "vgg11_bn", "vit_b_16"),
]


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_the_smallest_pictures_of_the_catalog_are_taken_and_channels_last_is_for_convolutions(
    name: str,
) -> None:
    """Worked out without computing or storing anything."""
    entry, channels = ENTRIES[name], input_channels(name, 1)
    smallest = entry.min_image_size
    assert smallest is not None

    def built(image_size: int) -> nn.Module:
        return build_model(name, image_size=image_size, channels=channels, num_classes=7, seed=0)

    def shape(model: nn.Module, image_size: int) -> torch.Size:
        logits: torch.Tensor = model(torch.empty(2, channels, image_size, image_size))
        return logits.shape

    with torch.device("meta"):
        model = built(smallest)
        assert shape(model, smallest) == (2, 7)
        if entry.image_size_multiple is None:
            assert shape(model, smallest + 1) == (2, 7)
        elif name != "maxvit_t":  # 448 pixels: right, but slow
            next_size = smallest + entry.image_size_multiple
            assert shape(built(next_size), next_size) == (2, 7)
    convolutions = sum(isinstance(module, nn.Conv2d) for module in model.modules())
    assert entry.is_convolutional == (convolutions > 1)


def test_a_regnet_takes_the_smallest_picture():
    # Its constructor computes with tensors, which have no values on the meta device.
    model = build_model("regnet_x_400mf", image_size=8, channels=3, num_classes=7, seed=0)
    assert model(torch.zeros(2, 3, 8, 8)).shape == (2, 7)
    assert set(torchvision.models.list_models(module=torchvision.models)) < set(ENTRIES)
    assert "resnet50" in ENTRIES and "raft_large" not in ENTRIES and "fasterrcnn_resnet50_fpn" not in ENTRIES


@pytest.mark.parametrize("name", ["small-cnn", "linear", "googlenet", "inception_v3", "resnet18", "vit_h_14"])
def test_parameters_are_those_of_the_model_that_is_built(name: str) -> None:
    channels, classes = (1, 10) if name == "small-cnn" else (3, 1_000)
    with torch.device("meta"):
        model = build_model(name, image_size=224, channels=channels, num_classes=classes, seed=0)
    assert count_parameters(model) == ENTRIES[name].parameters


@pytest.mark.parametrize("name", ["small-cnn", "causal-lm-tiny"])
def test_weights_depend_on_the_seed_alone(name: str) -> None:
    def weights(seed: int) -> torch.Tensor:
        model = build_model(name, image_size=8, channels=1, num_classes=16, seed=seed, sequence_length=8)
        return torch.nn.utils.parameters_to_vector(model.parameters())

    assert torch.equal(weights(3), weights(3)) and not torch.equal(weights(3), weights(4))


def told(model: nn.Module, batch_size: int = 64) -> list[tuple[str, str, int]]:
    return [
        (finding.severity, finding.message.split(" has ")[0], finding.count)
        for finding in size_findings(model, batch_size)
    ]


def test_hidden_sizes_are_warnings_and_pictures_channels_and_classes_are_notes() -> None:
    sound = nn.Sequential(nn.Conv2d(3, 64, 3), nn.Conv2d(64, 64, 3, groups=64), nn.Linear(64, 10))
    assert told(sound) == [("note", "The layer 0", 1), ("note", "The layer 2", 1)]
    odd = nn.Sequential(nn.Linear(8, 100), nn.Linear(100, 100), nn.Linear(100, 8))
    assert told(odd) == [("warning", f"The layer {number}, like 1 more,", 2) for number in (0, 1)]
    assert told(nn.Sequential(nn.Linear(64, 50_257))) == [("warning", "The layer 0", 1)]
    (finding,) = size_findings(nn.Sequential(nn.Linear(64, 64)), 30)
    assert finding.severity == "note" and "32" in finding.remedy


@pytest.mark.parametrize("name", ["small-cnn", "causal-lm-tiny"])
def test_a_model_that_is_copied_is_drawn_once_and_each_copy_is_its_own(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"model": name, "num_classes": 10, "device": "cpu", "batch_size": 2, "samples": 4}
    data = (
        {"dataset": "synthetic", "image_size": 8} if name == "small-cnn" else {"dataset": "synthetic-tokens"}
    )
    plan = RunPlan(experiment_from({**settings, **data, "steps": 1}), read_catalog())
    drawn = plan.workload.build().state_dict()
    build = Mock(side_effect=build_model)
    monkeypatch.setattr(workload, "_built", lru_cache(maxsize=1)(build))
    plan.workload.copies_model = True
    first, second = plan.workload.build(), plan.workload.build()
    assert build.call_count == 1
    nn.init.zeros_(next(first.parameters()))
    assert all(torch.equal(values, drawn[key]) for key, values in second.state_dict().items())
