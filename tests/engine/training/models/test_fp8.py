"""Linear layers in FP8: their numbers beside a reference quantised by hand, and which are converted."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor, nn

from engine.experiment.experiment import experiment_from
from engine.experiment.problem import ProblemError
from engine.experiment.settings import Step
from engine.protocol.advice import LinearLayer, NotInFP8
from engine.training.models import tensor_cores
from engine.training.models.forward import keep_in_float32
from engine.training.models.libraries import quiet
from engine.training.models.recompute import checkpoint_activations
from engine.training.models.tensor_cores import (
    check_recipe,
    convert,
    is_small,
    layers_sentence,
    linear_layers,
    row_scaling_refusal,
)
from engine.training.precision import Precision, autocast

CPU = torch.device("cpu")
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
RECIPES = ("tensorwise", "rowwise", "rowwise_with_gw_hp")


@pytest.fixture(scope="module", autouse=True)
def torchao() -> Any:
    """Imported once: it takes seconds, and its own code warns."""
    pytest.importorskip("torchao")
    with quiet():
        import torchao.float8.float8_linear_utils as utils
    return utils


def in_fp8(model: nn.Module, **step: Any) -> nn.Module:
    settings = Step(**step)
    convert(model, linear_layers(model, settings, {}, is_emulated=True), settings, CPU, is_emulated=True)
    return model


class Block(nn.Module):
    """A layer of 48 to 32, and an output layer that stays as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(48, 32), nn.Linear(32, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        output: Tensor = self.head(self.inner(inputs))
        return output


def quantised(numbers: Tensor, form: torch.dtype, dim: int | None, *, power_of_2: bool) -> Tensor:
    """The numbers rounded to FP8, with one scale for all, or one for each slice along `dim`."""
    wide = numbers.detach().double()
    largest = wide.abs().max() if dim is None else wide.abs().amax(dim, keepdim=True)
    scale = (torch.finfo(form).max / largest).float()
    if power_of_2:
        scale = torch.exp2(torch.floor(torch.log2(scale)))
    limit = torch.finfo(form).max
    return (wide.float() * scale).clamp(-limit, limit).to(form).float() / scale


def by_hand(recipe: str, inputs: Tensor, weight: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The output without a bias, and the gradients of the inputs and of the weight."""
    x, g = inputs.bfloat16(), gradient.bfloat16()

    def q(numbers: Tensor, dim: int | None = None, form: torch.dtype = E4M3) -> Tensor:
        return quantised(numbers, form, dim, power_of_2=recipe != "tensorwise")

    if recipe == "tensorwise":
        return q(x) @ q(weight).t(), q(g, form=E5M2) @ q(weight), q(g, form=E5M2).t() @ q(x)
    output = q(x, 1) @ q(weight, 1).t()
    if recipe == "rowwise":
        return output, q(g, 1) @ q(weight, 0), q(g, 0).t() @ q(x, 0)
    return output, q(g, 1) @ q(weight), g.float().t() @ x.float().detach()


@pytest.mark.parametrize("recipe", RECIPES)
def test_output_and_both_gradients_are_those_of_a_reference_quantised_by_hand(recipe: str) -> None:
    torch.manual_seed(0)
    layer = in_fp8(Block(), fp8_recipe=recipe).get_submodule("inner")
    inputs = torch.randn(64, 48, requires_grad=True)
    gradient = torch.randn(64, 32).bfloat16()
    with autocast(Precision.FP8, CPU):
        output = layer(inputs)
    assert output.dtype is torch.bfloat16
    output.backward(gradient)
    found = (output - layer.bias.bfloat16(), inputs.grad, layer.weight.grad)
    expected = by_hand(recipe, inputs, layer.weight, gradient)
    for mine, reference in zip(found, expected, strict=True):
        largest = float(reference.abs().max())
        torch.testing.assert_close(mine.float(), reference, rtol=2**-7, atol=2**-8 * largest)


@pytest.mark.parametrize("recipe", RECIPES)
def test_fp8_is_coarser_than_bf16_which_its_layer_computes_for_an_odd_number_of_tokens(recipe: str) -> None:
    torch.manual_seed(0)
    plain = Block()
    layers = in_fp8(Block(), fp8_recipe=recipe)
    layers.load_state_dict(plain.state_dict())

    def differs(rows: int) -> bool:
        inputs = torch.randn(rows, 48)
        with autocast(Precision.FP8, CPU):
            return not torch.equal(plain.inner(inputs), layers.get_submodule("inner")(inputs))

    assert differs(32)
    # the gradient of the weights sums over tokens, unless it is in BF16
    assert differs(33) is (recipe == "rowwise_with_gw_hp")
    with torch.no_grad():
        assert differs(33)  # which a validation does not need


def test_without_autocast_and_where_it_is_off_a_converted_layer_is_an_ordinary_one() -> None:
    torch.manual_seed(0)
    plain, model = Block(), in_fp8(Block())
    model.load_state_dict(plain.state_dict())
    inputs = torch.randn(16, 48)
    assert torch.equal(model(inputs), plain(inputs))
    with autocast(Precision.FP8, CPU), torch.autocast("cpu", enabled=False):
        assert torch.equal(model(inputs), plain(inputs))


def test_a_converted_model_keeps_its_names_its_weights_and_what_is_tied() -> None:
    model = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 4))
    model[1].weight = model[0].weight
    names, weight = list(model.state_dict()), model[0].weight
    in_fp8(model)
    assert list(model.state_dict()) == names
    assert model[0].weight is model[1].weight is weight and weight.dtype is torch.float32


def test_recomputed_blocks_give_the_same_gradients_in_fp8() -> None:
    def gradients(*, recomputed: bool) -> list[Tensor]:
        torch.manual_seed(0)
        model = nn.Sequential(*(Wrapped() for _ in range(2)), nn.Linear(32, 4))
        if recomputed:
            assert checkpoint_activations(model) == 2
        in_fp8(model)
        with autocast(Precision.FP8, CPU):
            loss = model(torch.randn(16, 32)).float().square().mean()
        loss.backward()
        return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]

    pairs = zip(gradients(recomputed=False), gradients(recomputed=True), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


class Wrapped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.Linear(32, 32), nn.GELU())

    def forward(self, inputs: Tensor) -> Tensor:
        output: Tensor = self.block(inputs)
        return output


class Varied(nn.Module):
    """A layer for each reason."""

    def __init__(self) -> None:
        super().__init__()
        self.large, self.small = nn.Linear(4_112, 1_040, device="meta"), nn.Linear(64, 64)
        self.odd, self.few, self.kept, self.read = (
            nn.Linear(*sizes) for sizes in [(64, 60), *[(64, 64)] * 3]
        )
        self.attention = nn.MultiheadAttention(64, 2)
        self.convolution = nn.Conv2d(16, 16, 3)
        self.head = nn.Linear(64, 64)


TOKENS = {"large": 64, "small": 64, "odd": 64, "few": 10, "kept": 64, "head": 64}


def reasons(
    recipe: str = "tensorwise", *, is_emulated: bool = False, **step: Any
) -> dict[str, NotInFP8 | None]:
    settings = Step(fp8_recipe=recipe, fp32_modules=("k*pt",), **step)
    return {
        layer.name: layer.reason
        for layer in linear_layers(Varied(), settings, TOKENS, is_emulated=is_emulated)
    }


def test_each_layer_that_stays_in_bf16_has_its_reason() -> None:
    assert reasons() == {
        "large": None,
        "small": NotInFP8.SMALL,
        "odd": NotInFP8.SIZE,
        "few": NotInFP8.TOKENS,
        "kept": NotInFP8.FP32,
        "read": NotInFP8.NOT_CALLED,
        "attention.out_proj": NotInFP8.NOT_CALLED,
        "head": NotInFP8.OUTPUT,
    }
    # a speed that is not told makes no layer too small, nor one that was asked for
    assert reasons(is_emulated=True)["small"] is None
    assert reasons(fp8_small_layers=True)["small"] is None
    assert reasons(is_emulated=True, fp8_small_layers=False)["small"] is NotInFP8.SMALL
    # in which no product sums over tokens
    assert reasons("rowwise_with_gw_hp", fp8_small_layers=True)["few"] is None


def test_a_layer_kept_in_fp32_stays_there_with_what_is_inside_of_it() -> None:
    model = nn.Sequential(nn.Sequential(nn.Linear(32, 32)), nn.Linear(32, 32), nn.Linear(32, 4))
    keep_in_float32(model, ("0",), CPU)
    layers = linear_layers(model, Step(fp32_modules=("0",)), {}, is_emulated=True)
    assert [layer.reason for layer in layers] == [NotInFP8.FP32, None, NotInFP8.OUTPUT]


@pytest.mark.parametrize("recipe", ["tensorwise", "rowwise"])
def test_the_thresholds_are_those_of_torchao(recipe: str, torchao: Any) -> None:
    takes = torchao._auto_filter_for_recipe(recipe, [])
    sizes = (512, 1_024, 1_040, 2_048, 2_064, 4_096, 4_112, 8_192)
    for inputs in sizes:
        for outputs in sizes:
            layer = nn.Linear(inputs, outputs, device="meta")
            assert is_small(inputs, outputs, recipe) is not takes(layer, "layer"), (inputs, outputs)


def layer(reason: NotInFP8 | None) -> LinearLayer:
    return LinearLayer(name="layer", inputs=1, outputs=1, reason=reason)


def test_one_sentence_says_what_is_in_fp8_and_what_is_not() -> None:
    mixed = [*[layer(None)] * 28, layer(NotInFP8.OUTPUT), *[layer(NotInFP8.SIZE)] * 8]
    assert layers_sentence(mixed).startswith("FP8 in 28 of 37 linear layers. Not in the output layer and 8 ")
    assert "its only linear layer is not" in layers_sentence([layer(NotInFP8.OUTPUT)])
    assert "no linear layers" in layers_sentence([])


ROWS_REFUSED = "Rowwise scaling is not currently supported on your device\nException raised from here"


@pytest.mark.parametrize(
    ("error", "refusal"),
    [
        (None, ""),
        (RuntimeError(ROWS_REFUSED), "Rowwise scaling is not currently supported on your device."),
        (NotImplementedError("no kernel image is available."), "no kernel image is available."),
    ],
)
def test_whether_a_device_scales_by_rows_is_found_out_by_a_small_matmul(
    error: Exception | None, refusal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if error is not None:
        monkeypatch.setattr(torch, "_scaled_mm", Mock(side_effect=error))
    assert row_scaling_refusal(CPU) == refusal


def test_a_full_device_does_not_refuse_a_scaling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "_scaled_mm", Mock(side_effect=torch.OutOfMemoryError("CUDA out of memory.")))
    with pytest.raises(torch.OutOfMemoryError):
        row_scaling_refusal(CPU)


@pytest.mark.parametrize(
    ("recipe", "is_refused"), [("tensorwise", False), *[(it, True) for it in RECIPES[1:]]]
)
def test_only_scaling_by_rows_is_refused_where_it_does_not_work(
    recipe: str, is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensor_cores, "row_scaling_refusal", lambda device: "no kernel image is available.")
    asked = experiment_from({"precision": "fp8", "step": {"fp8_recipe": recipe}})
    with pytest.raises(ProblemError) if is_refused else nullcontext() as caught:
        check_recipe(asked, torch.device("cuda:0"))
    if caught is not None:
        problem = caught.value.problem
        assert problem.key == "step.fp8_recipe" and problem.message.endswith(
            ": no kernel image is available."
        )
