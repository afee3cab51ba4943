"""What a trail follows, and what it takes."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engine.training.measuring.memory import _reset_resident_peak, status_bytes
from engine.training.numerics.trail import NonfiniteTracer, finite_range

from .conftest import searched

ATEN = torch.ops.aten
CPU = torch.device("cpu")


@pytest.fixture
def library() -> Iterator[torch.library.Library]:
    with torch.library._scoped_library("ammeter_tests", "FRAGMENT") as made:
        yield made


@pytest.fixture
def attention(library: torch.library.Library) -> None:
    """An attention for the CPU that pads its logsumexp as CUDA's memory-efficient one does.

    With `factor` its gradients are multiplied.
    """

    def forward(x: Tensor, factor: float) -> tuple[Tensor, Tensor]:
        logsumexp = torch.full((-(-x.shape[-2] // 32) * 32,), math.inf)
        logsumexp[: x.shape[-2]] = 0.0
        return x.clone(), logsumexp

    def backward(gradient: Tensor, logsumexp: Tensor, factor: float) -> Tensor:
        return gradient * factor

    def gradient(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor, None]:
        made = torch.ops.ammeter_tests._efficient_attention_backward(gradient, *ctx.saved_tensors, ctx.factor)
        return made, None

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(output[1])
        ctx.factor = inputs[1]

    library.define("_efficient_attention_forward(Tensor x, float factor) -> (Tensor, Tensor)")
    library.define("_efficient_attention_backward(Tensor gradient, Tensor logsumexp, float factor) -> Tensor")
    library.impl("_efficient_attention_forward", forward, "CPU")
    library.impl("_efficient_attention_backward", backward, "CPU")
    torch.library.register_autograd(
        "ammeter_tests::_efficient_attention_forward", gradient, setup_context=keep, lib=library
    )


ATTENDING = """
class Attention(nn.Module):
    def forward(self, x):
        tokens = x[:, None].expand(-1, {tokens}, -1)
        return torch.ops.ammeter_tests._efficient_attention_forward(tokens, {factor})[0].mean(1)

def model():
    root = Do(lambda x: x + torch.sqrt({zero} * torch.relu(x) + {one}))
    return nn.Sequential(nn.Linear(8, 8), Attention(), root, nn.Linear(8, 4))
"""


@pytest.mark.usefixtures("attention")
@pytest.mark.parametrize("tokens", [50, 64])
def test_a_division_after_an_attention_is_named_whatever_the_number_of_tokens(tokens, planted):
    text = ATTENDING.format(tokens=tokens, factor=1.0, zero=0, one=0)
    first = searched(planted(text, precision="fp32", steps=2)).first
    assert first is not None
    assert (first.module, first.operation, first.direction) == ("2", "aten.div", "backward")


@pytest.mark.usefixtures("attention")
def test_an_attention_whose_gradient_overflows_is_named(planted):
    text = ATTENDING.format(tokens=50, factor=1e300, zero=1, one=1)
    first = searched(planted(text, precision="fp32", steps=2)).first
    assert first is not None
    assert (first.module, first.operation) == ("1", "ammeter_tests._efficient_attention_backward")
    assert first.nan == 0 and first.infinite > 0 and first.cause == "overflow"


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("_scaled_dot_product_efficient_attention", False),
        ("_scaled_dot_product_flash_attention_for_cpu", False),
        ("_cudnn_attention_forward", False),
        ("_flash_attn_forward", False),
        ("nll_loss2d_forward", False),
        ("_cudnn_ctc_loss", False),
        ("_scaled_dot_product_efficient_attention_backward", True),
        ("var_mean", True),
    ],
)
def test_only_an_output_that_means_something_can_be_an_origin(name, counts, library):
    library.define(f"{name}(Tensor x) -> (Tensor, Tensor)")
    library.impl(name, lambda x: (x.clone(), torch.full_like(x, math.inf)), "CPU")
    with NonfiniteTracer(nn.Identity(), CPU) as trail:
        first, further = getattr(torch.ops.ammeter_tests, name)(torch.ones(3))
        (overflowing,) = torch._foreach_mul([first], 1e39)
        together = torch.cat([overflowing, further])
        origin = trail.find_origin([together])
    assert origin is not None
    assert origin.operation == (f"ammeter_tests.{name}" if counts else "aten._foreach_mul")


def test_paths_of_no_probability_in_a_ctc_loss_are_no_origin():
    scores = torch.randn(12, 2, 5).log_softmax(-1)
    with NonfiniteTracer(nn.Identity(), CPU) as trail:
        loss, paths = ATEN._ctc_loss.default(scores, torch.ones(2, 4, dtype=torch.long), [12, 12], [4, 4])
        origin = trail.find_origin([paths])
    assert bool(loss.isfinite().all()) and bool(paths.isinf().any())
    assert origin is not None and origin.on_purpose


def test_memory_that_nobody_wrote_is_no_origin(monkeypatch):
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
    torch.use_deterministic_algorithms(True)
    try:
        with NonfiniteTracer(nn.Identity(), CPU) as trail:
            unset = [torch.empty(4), torch.empty_permuted((2, 2), (1, 0)), torch.empty(0).resize_(4)]
            origins = [trail.find_origin([tensor]) for tensor in unset]
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(origin is not None and origin.on_purpose for origin in origins)


def test_the_span_is_that_of_the_finite_values():
    mixed = torch.tensor([math.nan, -3.0, math.inf, 2.0, -math.inf], dtype=torch.float16)
    assert finite_range([mixed, torch.tensor([5, 6]), torch.tensor([0.5])]) == (-3.0, 2.0)
    assert finite_range([torch.tensor([math.nan, math.inf, -math.inf])]) == (None, None)
    assert finite_range([torch.empty(0), torch.tensor([7])]) == (None, None)


@pytest.mark.skipif(sys.platform != "linux", reason="reads the resident peak from /proc")
def test_the_span_of_a_large_activation_takes_a_copy_of_it_at_most():
    activation = torch.full((16, 64, 112, 112), 1.0)
    activation[0, 0, 0, 0] = math.inf
    if not _reset_resident_peak():
        pytest.skip("the resident peak cannot be reset here")
    before = status_bytes("VmHWM")
    assert finite_range([activation]) == (1.0, 1.0)
    after = status_bytes("VmHWM")
    assert before is not None and after is not None and after - before < 2 * activation.nbytes
