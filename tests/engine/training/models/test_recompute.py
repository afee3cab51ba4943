"""Activations that are recomputed: the same training to the last bit, with less kept."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torchvision
from torch import nn
from torch.nn.functional import cross_entropy
from torchvision.models.resnet import BasicBlock, ResNet

from engine.training.models.build import build_model
from engine.training.models.recompute import checkpoint_activations


def model_of(name: str, **settings: Any) -> nn.Module:
    torch.manual_seed(0)
    model: nn.Module = torchvision.models.get_model(name, num_classes=10, **settings)
    return model


def train(model: nn.Module, forward: Any = None, steps: int = 2, accumulation: int = 2) -> list[float]:
    """A few steps of training, each on the gradients of several batches; returns the losses."""
    forward = model if forward is None else forward
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(1)
    found = []
    torch.manual_seed(2)
    for _ in range(steps):
        optimizer.zero_grad()
        for _ in range(accumulation):
            pictures = torch.randn(2, 3, 32, 32, generator=generator)
            loss = cross_entropy(forward(pictures), torch.tensor([1, 2]))
            loss.backward()  # type: ignore[no-untyped-call]
            found.append(loss.item())
        optimizer.step()
    return found


def states_equal(one: nn.Module, other: nn.Module) -> bool:
    pairs = zip(one.state_dict().items(), other.state_dict().items(), strict=True)
    return all(name == other_name and torch.equal(a, b) for (name, a), (other_name, b) in pairs)


# DenseNet's layers are given a list that grows later; Swin and EfficientNet draw at random.
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("resnet18", {}),
        ("shufflenet_v2_x0_5", {}),
        ("densenet121", {}),
        ("efficientnet_b0", {}),
        ("swin_t", {"dropout": 0.1}),
    ],
)
def test_losses_weights_and_statistics_are_the_same_to_the_last_bit(name, settings):
    model, recomputed = model_of(name, **settings), model_of(name, **settings)
    assert checkpoint_activations(recomputed) > 5
    assert train(recomputed) == train(model)
    assert states_equal(model, recomputed)


@pytest.mark.slow
def test_it_compiles_as_one_graph_and_updates_statistics_once():
    # a block in each layer, half of ResNet-18: the compiler takes long over each
    model, recomputed = (ResNet(BasicBlock, [1] * 4, num_classes=10) for _ in range(2))
    recomputed.load_state_dict(model.state_dict())
    assert checkpoint_activations(recomputed) == 4
    torch.compiler.reset()
    assert train(recomputed, torch.compile(recomputed, backend="aot_eager", fullgraph=True)) == train(model)
    assert states_equal(model, recomputed)
    torch.compiler.reset()


def kept_bytes(model: nn.Module) -> int:
    """What one forward pass keeps for its backward pass, without the weights."""
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, torch.UntypedStorage] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = model(torch.randn(4, 3, 64, 64)).sum()
    total = sum(len(storage) for storage in kept.values())
    loss.backward()
    return total


def test_less_is_kept_for_the_backward_pass() -> None:
    model, recomputed = model_of("resnet18"), model_of("resnet18")
    checkpoint_activations(recomputed)
    assert kept_bytes(recomputed) < 0.6 * kept_bytes(model)


def test_validation_is_untouched() -> None:
    model, recomputed = model_of("resnet18").eval(), model_of("resnet18").eval()
    checkpoint_activations(recomputed)
    pictures = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(model(pictures), recomputed(pictures))
    assert states_equal(model, recomputed)


def test_a_copy_trains_by_itself() -> None:
    model = model_of("resnet18")
    checkpoint_activations(model)
    before = copy.deepcopy(model.state_dict())
    other = copy.deepcopy(model)
    train(other, steps=1)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not states_equal(model, other)


@pytest.mark.parametrize(
    ("name", "blocks", "kinds"),
    [
        ("resnet18", 8, {"BasicBlock"}),
        ("vit_b_16", 12, {"EncoderBlock"}),
        ("mobilenet_v2", 17, {"InvertedResidual"}),
        ("convnext_tiny", 18, {"CNBlock"}),
        ("densenet121", 58, {"_DenseLayer"}),
        ("swin_t", 15, {"SwinTransformerBlock", "PatchMerging"}),
        ("vgg11", 2, {"Sequential"}),
    ],
)
def test_blocks_are_what_the_model_repeats(name: str, blocks: int, kinds: set[str]) -> None:
    with torch.device("meta"):
        model = model_of(name)
    classes = {module: type(module) for module in model.modules()}
    assert checkpoint_activations(model) == blocks
    changed = [module for module, before in classes.items() if type(module) is not before]
    assert len(changed) == blocks and {type(module).__name__ for module in changed} == kinds


def test_our_own_models_are_recomputed_where_there_is_something() -> None:
    sizes = {"image_size": 28, "channels": 1, "num_classes": 10, "seed": 0}
    assert checkpoint_activations(build_model("small-cnn", **sizes)) == 1
    assert checkpoint_activations(build_model("linear", **sizes)) == 0
