"""The scaling that FP8's recipe chooses, and what is lost after it, beside a count by hand."""

from __future__ import annotations

from contextlib import closing

import pytest
import torch
from torch import Tensor, nn

from engine.experiment.catalog import Precision
from engine.experiment.settings import Step
from engine.protocol.ranges import LayerCast
from engine.training.models.recompute import checkpoint_activations
from engine.training.models.tensor_cores import convert, linear_layers
from engine.training.numerics.ranges import Fp8CastRecorder, measure_ranges
from engine.training.precision import autocast

from .conftest import own_settings, part_of
from .test_precision_map import BLOCKS

pytest.importorskip("torchao")
CPU = torch.device("cpu")
BOTH_E4M3 = ("float8_e4m3fn", 448.0)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.inner(x)
        return output


def passed(
    recipe: str, inputs: Tensor, *, recomputed: bool = False
) -> tuple[dict[str, LayerCast], Tensor, Tensor]:
    """The casts of a layer by their titles, its weight, and the gradient of its output."""
    torch.manual_seed(0)
    model = nn.Sequential(Block(), Block(), nn.Linear(32, 4))
    if recomputed:
        assert checkpoint_activations(model)
    settings, gradient = Step(fp8_recipe=recipe), torch.randn(len(inputs), 32).bfloat16()
    convert(model, linear_layers(model, settings, {}, is_emulated=True), settings, CPU, is_emulated=True)
    gradient[1] *= 2.0**-34
    with closing(Fp8CastRecorder(model)) as watch, autocast(Precision.FP8, CPU):
        model[0](inputs.requires_grad_()).backward(gradient)
    model(inputs)  # which is no longer watched
    return {cast.title: cast for cast in watch.measured()}, model[0].inner.weight.detach(), gradient


def by_hand(
    numbers: Tensor, largest: float, along: int | None, *, power_of_2: bool
) -> tuple[float, float, int]:
    """The least and the largest scale, and how many numbers other than 0 round to 0.

    What is below half of the smallest number does, and exactly half of it too, to the even neighbour."""
    wide = numbers.double()
    slices = [wide] if along is None else list(wide.unbind(along))
    half, scales, zeros = {448.0: 2.0**-10, 57_344.0: 2.0**-17}[largest], [], 0
    for part in slices:
        scale = torch.tensor(largest / max(float(part.abs().max()), 1e-12)).float()
        scale = torch.exp2(scale.log2().floor()) if power_of_2 else scale
        scales.append(float(scale))
        zeros += int(((part.float() * scale).abs() <= half).logical_and(part != 0).sum())
    return min(scales), max(scales), zeros


def outlying() -> Tensor:
    torch.manual_seed(1)
    inputs = torch.randn(16, 32)
    inputs[2] *= 2.0**-20
    inputs[3, 5], inputs[4] = 0.0, 0.0
    return inputs


TITLES = {
    "tensorwise": {"input": None, "weight": None, "output gradient": None},
    "rowwise": {
        "input for output": 0,
        "weight for output": 0,
        "output gradient for input gradient": 0,
        "weight for input gradient": 1,
        "output gradient for weight gradient": 1,
        "input for weight gradient": 1,
    },
    "rowwise_with_gw_hp": {
        "input for output": 0,
        "weight for output": 0,
        "output gradient for input gradient": 0,
        "weight for input gradient": None,
    },
}


@pytest.mark.parametrize("recipe", TITLES)
def test_scales_and_zeros_are_those_counted_by_hand(recipe: str) -> None:
    inputs = outlying()
    casts, weight, gradient = passed(recipe, inputs.clone())
    numbers = {"input": inputs.bfloat16(), "weight": weight, "output gradient": gradient}
    for title, dim in TITLES[recipe].items():
        cast, operand = casts[title], numbers[casts[title].operand]
        form = (
            ("float8_e5m2", 57_344.0) if (recipe, title) == ("tensorwise", "output gradient") else BOTH_E4M3
        )
        assert (cast.module, cast.dtype, cast.saturated) == ("0.inner", form[0], 0)
        found = (cast.least_scale, cast.most_scale, cast.became_zero)
        assert found == by_hand(operand, form[1], dim, power_of_2=recipe != "tensorwise"), title
        assert cast.scales == (1 if dim is None else operand.shape[dim])
        assert cast.exponents.total == operand.numel()
    assert casts.keys() - TITLES[recipe].keys() == (
        {"input for weight gradient", "output gradient for weight gradient"} if "gw_hp" in recipe else set()
    )
    # one scale for all numbers loses a row far below the others, a scale of its own keeps it
    lost = next(cast.became_zero for title, cast in casts.items() if title.startswith("input"))
    assert (lost > 20) == (recipe == "tensorwise")


def test_what_stays_in_bf16_is_not_scaled_and_loses_nothing() -> None:
    cast = passed("rowwise_with_gw_hp", outlying())[0]["input for weight gradient"]
    assert (cast.dtype, cast.scales, cast.scale_text, cast.became_zero) == ("bfloat16", 0, "", 0)
    assert cast.exponents.total == 16 * 32 and "stays in BF16" in cast.sentence


def test_a_number_that_is_not_finite_counts_as_saturated_and_takes_its_row_along() -> None:
    inputs = outlying()
    inputs[7, 7] = torch.inf
    cast = passed("rowwise", inputs)[0]["input for output"]
    assert (cast.saturated, cast.became_zero) == (1, 31)


def test_a_recomputed_layer_is_counted_once_in_each_direction() -> None:
    casts = passed("tensorwise", outlying(), recomputed=True)[0]
    assert {title: cast.exponents.total for title, cast in casts.items()} == {
        "input": 512,
        "weight": 1_024,
        "output gradient": 512,
    }


def test_ranges_of_a_run_in_fp8_have_the_casts_of_its_converted_layers_and_no_other_has(make_bench, tmp_path):
    own = own_settings(tmp_path, BLOCKS)
    ranges = part_of(make_bench(**own, precision="fp8"), measure_ranges)
    assert [(cast.module, cast.title) for cast in ranges.casts] == [
        ("1", "input"),
        ("1", "weight"),
        ("1", "output gradient"),
    ]
    assert any("After FP8 scaling" in note for note in ranges.notes)
    assert not any("would underflow" in note and "FP8" in note for note in ranges.notes)
    for precision in ("bf16", "bf16-pure", "fp32"):
        assert not part_of(make_bench(**own, precision=precision), measure_ranges).casts
