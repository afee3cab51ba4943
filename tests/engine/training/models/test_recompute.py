"""Changes to a forward: recomputed activations train the same with less kept; parts stay in float32."""

from __future__ import annotations

import copy
import weakref
from collections import Counter
from functools import partial
from typing import Any

import pytest
import torch
import torchvision
from torch import nn
from torch.nn.functional import cross_entropy, gelu, scaled_dot_product_attention
from torch.utils._python_dispatch import TorchDispatchMode
from torchvision.models.resnet import BasicBlock, ResNet
from torchvision.models.vision_transformer import VisionTransformer

from engine.experiment.problem import Kind, ProblemError
from engine.experiment.settings import FULL, SELECTIVE
from engine.training.models.build import build_model
from engine.training.models.forward import keep_in_float32
from engine.training.models.recompute import Offload, checkpoint_activations


def model_of(name: str, **settings: Any) -> nn.Module:
    torch.manual_seed(0)
    model: nn.Module = torchvision.models.get_model(name, num_classes=10, **settings)
    return model


def train(
    model: nn.Module, forward: Any = None, *, steps: int = 2, accumulation: int = 2, is_bf16: bool = False
) -> list[float]:
    """A few steps of training, each on the gradients of several batches; returns the losses."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(1)
    found, forward = [], model if forward is None else forward
    torch.manual_seed(2)
    for _ in range(steps):
        optimizer.zero_grad()
        for _ in range(accumulation):
            pictures = torch.randn(2, 3, 32, 32, generator=generator)
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=is_bf16):
                loss = cross_entropy(forward(pictures), torch.tensor([1, 2]))
            loss.backward()  # type: ignore[no-untyped-call]
            found.append(loss.item())
        optimizer.step()
    return found


def states_equal(one: nn.Module, other: nn.Module) -> bool:
    pairs = zip(one.state_dict().items(), other.state_dict().items(), strict=True)
    return all(name == other_name and torch.equal(a, b) for (name, a), (other_name, b) in pairs)


# DenseNet's layers are given a list that grows later; Swin and attention draw at random; VGG's ReLU changes
# what its convolutions return.
@pytest.mark.slow
@pytest.mark.parametrize("kind", [FULL, SELECTIVE])
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("resnet18", {}),
        ("densenet121", {}),
        ("swin_t", {"dropout": 0.1}),
        ("vit_b_16", {"image_size": 32, "dropout": 0.1, "attention_dropout": 0.1, "num_layers": 2}),
        ("vgg11", {}),
    ],
)
def test_losses_weights_and_statistics_are_the_same_to_the_last_bit(name, settings, kind):
    if name == "vit_b_16":
        settings = {"patch_size": 16, "num_heads": 2, "hidden_dim": 32, "mlp_dim": 64, **settings}
        made = lambda: VisionTransformer(**settings, num_classes=10)  # noqa: E731
    else:
        made = lambda: torchvision.models.get_model(name, num_classes=10, **settings)  # noqa: E731
    model, recomputed = made(), made()
    for each in (model, recomputed) if name == "vgg11" else ():
        # its own has a hundred million weights
        each.classifier = nn.Sequential(
            nn.Linear(25_088, 16), nn.ReLU(True), nn.Dropout(0.1), nn.Linear(16, 10)
        )
    recomputed.load_state_dict(model.state_dict())
    assert checkpoint_activations(recomputed, kind) > 1
    assert train(recomputed, steps=1) == train(model, steps=1)
    assert states_equal(model, recomputed)


def test_attention_is_stored_unless_it_draws_at_random() -> None:
    found = {}
    for drop in (0.0, 0.1):
        torch.manual_seed(0)
        model = nn.ModuleList([Attention(drop), Attention(drop)])
        names = Names()
        with names:
            checkpoint_activations(model, SELECTIVE)
            inputs = torch.randn(2, 4, 64, requires_grad=True)
            model[1](model[0](inputs)).sum().backward()
        found[drop] = {name: names.counts[name] for name in ("addmm", "gelu", ATTENTION, "bmm")}
    # those of two blocks, and where they are recomputed twice as many
    assert found[0.0] == {"addmm": 4, "gelu": 4, ATTENTION: 2, "bmm": 0}
    # those of two blocks' forward and backward passes, and of two that are recomputed
    assert found[0.1] == {"addmm": 4, "gelu": 4, ATTENTION: 0, "bmm": 2 * (2 + 4 + 2)}


ATTENTION = "_scaled_dot_product_flash_attention_for_cpu"


class Attention(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.up, self.down, self.drop = nn.Linear(64, 64), nn.Linear(64, 64), nn.Dropout(dropout)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        heads = inputs.unsqueeze(1)
        mixed = scaled_dot_product_attention(heads, heads, heads, dropout_p=self.drop.p).squeeze(1)
        return self.drop(self.down(gelu(self.up(mixed))))


class Names(TorchDispatchMode):
    """Counts operations by name."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.counts[function._opname] += 1
        return function(*args, **(kwargs or {}))


def test_blocks_that_autocast_casts_once_may_be_called_again() -> None:
    torch.manual_seed(0)
    plain = nn.ModuleList([Attention(0.0), Attention(0.0)]).train()
    selective = copy.deepcopy(plain)
    checkpoint_activations(selective, SELECTIVE)
    inputs = torch.randn(2, 4, 64)
    for model in (plain, selective):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            outputs = model[1](model[0](model[0](inputs)))
            assert torch.is_autocast_cache_enabled()
        outputs.float().square().sum().backward()
    for one, other in zip(selective.parameters(), plain.parameters(), strict=True):
        # without the cache, each call's gradient is added in float32
        torch.testing.assert_close(one.grad, other.grad, rtol=0.02, atol=0.02)


class _Changes(nn.Module):
    def __init__(self, change: Any) -> None:
        super().__init__()
        self.first, self.last, self.change = nn.Linear(8, 8), nn.Linear(8, 8), change

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        hidden = self.first(inputs)
        self.change(hidden, inputs.detach())
        return self.last(gelu(hidden))


@pytest.mark.parametrize(
    "change",
    [torch.Tensor.add_, lambda hidden, inputs: torch.add(inputs, inputs, out=hidden.detach())],
    ids=["in-place", "out"],
)
@pytest.mark.parametrize("shows_results", [True, False])
def test_a_stored_result_that_the_model_changes_in_place_is_refused(
    shows_results, change, monkeypatch
) -> None:
    if not shows_results:  # as in PyTorch 2.11
        monkeypatch.setattr("torch.utils.checkpoint.SelectiveCheckpointContext", lambda **_: object())
    model = nn.ModuleList([_Changes(change), _Changes(change)]).train()
    checkpoint_activations(model, SELECTIVE)
    with pytest.raises(ProblemError, match="changes a stored result in place"):
        model[1](model[0](torch.randn(2, 3, 8))).sum().backward()


def test_an_operator_may_write_another_argument_beside_a_stored_result() -> None:
    torch.manual_seed(0)
    # RReLU writes only its noise
    plain = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.RReLU(), nn.Linear(8, 8)) for _ in range(2))
    model = copy.deepcopy(plain)
    checkpoint_activations(model, SELECTIVE)
    inputs = torch.randn(2, 3, 8)
    for each in (plain, model):
        torch.manual_seed(1)
        each[1](each[0](inputs)).sum().backward()
    for one, other in zip(model.parameters(), plain.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)


def test_offloaded_it_trains_the_same_and_keeps_the_layout_of_what_waits() -> None:
    model, offloaded = model_of("resnet18"), model_of("resnet18")
    for each in (model, offloaded):
        each.to(memory_format=torch.channels_last)
    offload, seen = Offload(offloaded), []
    pack = offload.pack_hook

    def watched(tensor: torch.Tensor) -> Any:
        seen.append((tensor, packed := pack(tensor)))
        return packed

    offload.pack_hook = watched

    def forward(pictures: torch.Tensor) -> torch.Tensor:
        with offload:
            outputs: torch.Tensor = offloaded(pictures)
            return outputs

    assert train(offloaded, forward) == train(model)
    assert states_equal(model, offloaded)
    moved = [(tensor, packed.func.__self__) for tensor, packed in seen if isinstance(packed, partial)]
    assert len(moved) > 40
    assert all(kept.data_ptr() != tensor.data_ptr() for tensor, kept in moved)
    assert all(kept.stride() == tensor.stride() for tensor, kept in moved)
    weights = {weight.data_ptr() for weight in offloaded.parameters()}
    assert not any(tensor.data_ptr() in weights for tensor, _ in moved)


def test_copies_of_weights_that_autocast_makes_are_not_offloaded() -> None:
    model = nn.Sequential(nn.Linear(48, 64), nn.Unflatten(1, (4, 16)), nn.Conv1d(4, 64, 7))
    offload, moved = Offload(model), []
    pack = offload.pack_hook

    def watched(tensor: torch.Tensor) -> Any:
        packed = pack(tensor)
        moved.extend([tuple(tensor.shape)] * isinstance(packed, partial))
        return packed

    offload.pack_hook = watched
    with offload, torch.autocast("cpu", dtype=torch.bfloat16):
        model(torch.randn(32, 48)).float().sum().backward()
    assert moved == [(32, 48), (32, 4, 16)]
    assert all(weight.grad is not None for weight in model.parameters())


def test_a_small_result_that_nobody_uses_is_freed() -> None:
    layer = nn.Linear(4, 4)
    with Offload(layer):
        hidden = layer(torch.randn(2, 4))
        unused = weakref.ref(hidden.sigmoid())
    assert unused() is None


class _ReusesMemory(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(8))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            inputs = layer(inputs).sigmoid()
        # new tensors, some of which get the memory of the results of matmuls
        scaled = [inputs * factor for factor in range(8)]
        for each in scaled:
            each += 1
        total: torch.Tensor = torch.stack(scaled).sum(0)
        return total


def test_a_new_tensor_in_the_memory_of_an_offloaded_result_may_change_in_place() -> None:
    torch.manual_seed(0)
    plain = nn.ModuleList([_ReusesMemory(), _ReusesMemory()]).train()
    model = copy.deepcopy(plain)
    checkpoint_activations(model, SELECTIVE)
    inputs = torch.randn(32, 64)
    with Offload(model):
        loss = model[1](model[0](inputs)).sum()
    loss.backward()
    wanted = plain[1](plain[0](inputs)).sum()
    wanted.backward()
    assert torch.equal(loss, wanted)
    assert all(
        torch.equal(one.grad, other.grad)
        for one, other in zip(model.parameters(), plain.parameters(), strict=True)
    )


class Results(TorchDispatchMode):
    """Keeps the results of matmuls."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[torch.Tensor] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if function._opname == "addmm":
            self.found.append(result)
        return result


def test_stored_results_of_matmuls_are_offloaded_and_train_the_same() -> None:
    torch.manual_seed(0)
    plain = nn.ModuleList([Attention(0.0), Attention(0.0)]).train()
    model = copy.deepcopy(plain)
    checkpoint_activations(model, SELECTIVE)
    offload, moved = Offload(model), []
    pack = offload.pack_hook

    def watched(tensor: torch.Tensor) -> Any:
        moved.append(tensor)
        return pack(tensor)

    offload.pack_hook = watched
    inputs = torch.randn(8, 16, 64)
    with offload, Results() as results:
        loss = model[1](model[0](inputs)).square().sum()
    assert len(results.found) == 4
    # without copies, which share the memory of the result
    assert {it.data_ptr() for it in results.found} <= {it.data_ptr() for it in moved}
    loss.backward()
    wanted = plain[1](plain[0](inputs)).square().sum()
    wanted.backward()
    assert torch.equal(loss, wanted)
    for one, other in zip(model.parameters(), plain.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)


def kept_bytes(model: nn.Module) -> int:
    """The bytes that one forward pass keeps for its backward pass, without the weights."""
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


def test_less_is_kept_for_the_backward_pass_and_validation_is_untouched() -> None:
    model, recomputed = model_of("resnet18"), model_of("resnet18")
    checkpoint_activations(recomputed)
    assert kept_bytes(recomputed) < 0.6 * kept_bytes(model)
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


CPU = torch.device("cpu")


class Blocks(nn.Module):
    """A small model with a list of blocks, one of which takes nested inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(8, 8)
        self.blocks = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8)])
        self.mixer = Mixer()
        self.head = nn.Linear(8, 4)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        features = self.stem(inputs)
        for block in self.blocks:
            features = block(features).relu()
        features = self.mixer([features, (features, torch.arange(2))], scale={"by": features})
        logits: torch.Tensor = self.head(features)
        return logits


class Mixer(nn.Module):
    """Remembers the formats of what it was given."""

    def forward(self, inputs: list[Any], *, scale: dict[str, torch.Tensor]) -> torch.Tensor:
        first, (second, whole) = inputs
        self.given = (first.dtype, second.dtype, whole.dtype, scale["by"].dtype)
        return (first + second) * scale["by"]


def output_formats(model: nn.Module, inputs: torch.Tensor) -> dict[str, torch.dtype]:
    """The format of what each submodule returns under BF16 autocast."""
    found: dict[str, torch.dtype] = {}

    def watch(name: str) -> Any:
        def remember(_module: nn.Module, _inputs: Any, output: torch.Tensor) -> None:
            found[name] = output.dtype

        return remember

    handles = [module.register_forward_hook(watch(name)) for name, module in model.named_modules() if name]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model(inputs)
    for handle in handles:
        handle.remove()
    return found


def resnet(blocks: int = 2) -> nn.Module:
    """ResNet-18, or one with fewer blocks in each of its layers."""
    torch.manual_seed(0)
    model: nn.Module = ResNet(BasicBlock, [blocks] * 4, num_classes=10)
    return model


def test_patterns_name_many_whose_activations_are_float32() -> None:
    model = resnet()
    names = keep_in_float32(model, ["layer4.*", "*.bn1"], CPU)
    formats = output_formats(model, torch.randn(2, 3, 32, 32))
    assert {"layer4.0", "layer4.1.conv2", "layer1.0.bn1"} <= set(names) and "layer1.0.bn2" not in names
    assert formats["layer4.1.conv2"] is torch.float32 and formats["layer3.0.conv2"] is torch.bfloat16
    assert formats["layer1.0.bn1"] is torch.float32 and formats["layer1.0.bn2"] is torch.bfloat16
    model = Blocks()
    assert keep_in_float32(model, ["blocks"], CPU) == ("blocks",)
    formats = output_formats(model, torch.randn(2, 8))
    assert formats["blocks.0"] is formats["blocks.1"] is torch.float32
    assert formats["stem"] is formats["head"] is torch.bfloat16


def test_nested_inputs_are_cast_up_and_whole_numbers_left_alone() -> None:
    model = Blocks()
    output_formats(model, torch.randn(2, 8))
    assert model.mixer.given[0] is torch.bfloat16
    keep_in_float32(model, ["mixer"], CPU)
    output_formats(model, torch.randn(2, 8))
    assert model.mixer.given == (torch.float32, torch.float32, torch.int64, torch.float32)


def test_gradients_flow_through_it_and_names_stay() -> None:
    model = resnet()
    names = list(model.state_dict())
    keep_in_float32(model, ["layer3", "fc"], CPU)
    assert list(model.state_dict()) == names
    assert type(model.layer3).__name__ == "Sequential" and isinstance(model.layer3, nn.Sequential)
    train(model, steps=1, is_bf16=True)
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_without_autocast_nothing_changes_and_a_copy_has_weights_of_its_own() -> None:
    model, kept = Blocks(), Blocks()
    kept.load_state_dict(model.state_dict())
    keep_in_float32(kept, ["*"], CPU)
    inputs = torch.randn(2, 8)
    assert torch.equal(model(inputs), kept(inputs))
    model = Blocks()
    keep_in_float32(model, ["stem"], CPU)
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.stem.weight.zero_()
    inputs = torch.randn(2, 8)
    assert not torch.equal(model(inputs), other(inputs))


@pytest.mark.slow
def test_it_compiles_as_one_graph_trains_the_same_and_updates_statistics_once() -> None:
    def kept() -> nn.Module:
        # the compiler takes long over each block
        model = resnet(blocks=1)
        keep_in_float32(model, ["layer4.*", "layer1"], CPU)
        assert checkpoint_activations(model) == 4
        return model

    eager, compiled = kept(), kept()
    torch.compiler.reset()
    forward = torch.compile(compiled, backend="aot_eager", fullgraph=True)
    settings: dict[str, Any] = {"accumulation": 1, "is_bf16": True}
    assert train(compiled, forward, **settings) == train(eager, **settings)
    assert states_equal(compiled, eager)
    torch.compiler.reset()


@pytest.mark.parametrize("kept_first", [True, False])
def test_recomputed_activations_are_float32_there_too(kept_first: bool) -> None:
    model, recomputed = resnet(blocks=1), resnet(blocks=1)
    keep_in_float32(model, ["layer3.0"], CPU)
    if kept_first:
        keep_in_float32(recomputed, ["layer3.0"], CPU)
    assert checkpoint_activations(recomputed) == 4
    if not kept_first:
        keep_in_float32(recomputed, ["layer3.0"], CPU)
    assert train(recomputed, steps=1, is_bf16=True) == train(model, steps=1, is_bf16=True)
    assert states_equal(model, recomputed)


def test_a_pattern_that_matches_nothing_is_a_problem() -> None:
    with pytest.raises(ProblemError) as raised:
        keep_in_float32(resnet(), ["layer3", "layer7", "classifier.*"], CPU)
    first, second = raised.value.problems
    assert first.kind is Kind.REQUEST and first.key == "step.fp32_modules" and first.value == "layer7"
    assert "'layer7'" in first.message and "layer4" in first.remedy
    assert second.value == "classifier.*" and "fc" in second.remedy
    with pytest.raises(ProblemError) as raised:
        keep_in_float32(nn.Linear(2, 1), ["linear"], CPU)
    assert raised.value.problem.remedy == "Leave it empty."
