"""The FLOPs of operations, each beside a count by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.training.measuring.flops import FlopCounter, Flops, flops_of

N = 2
"""Samples of a batch."""

ATEN = torch.ops.aten


def tensor(*shape: int, dtype: torch.dtype = torch.float32, grad: bool = False) -> Tensor:
    return torch.empty(shape, dtype=dtype, device="meta", requires_grad=grad)


def counted(model: Callable[[Tensor], Tensor], inputs: Tensor) -> tuple[float, float]:
    """The FLOPs of the forward and of the backward pass."""
    with FlopCounter() as counter:
        outputs = model(inputs)
        forward = counter.flops
        outputs.abs().sum().backward()
    return forward, counter.flops - forward


# each weight is used at every place of the output, of a transposed convolution at every place of the input
@pytest.mark.parametrize(
    ("model", "inputs", "multiply_adds"),
    [
        (nn.Conv2d(8, 12, 3, padding=1), (8, 10, 10), 12 * 8 * 9 * 10 * 10),
        (nn.Conv2d(8, 12, 3, padding=1, groups=4), (8, 10, 10), 12 * 2 * 9 * 10 * 10),
        (nn.Conv2d(8, 8, 3, padding=1, groups=8), (8, 10, 10), 8 * 1 * 9 * 10 * 10),
        (nn.Conv2d(8, 16, 5, padding=2, groups=8), (8, 10, 10), 16 * 1 * 25 * 10 * 10),
        (nn.Conv2d(8, 12, 3, dilation=2, groups=2), (8, 10, 10), 12 * 4 * 9 * 6 * 6),
        (nn.Conv2d(8, 12, 3, stride=2, padding=1, groups=2), (8, 10, 10), 12 * 4 * 9 * 5 * 5),
        (nn.Conv2d(8, 12, (1, 7), padding="same", groups=4), (8, 10, 10), 12 * 2 * 7 * 10 * 10),
        (nn.Conv1d(8, 8, 31, padding=15, groups=8), (8, 40), 8 * 1 * 31 * 40),
        (nn.Conv3d(4, 8, 3, padding=1, groups=2), (4, 6, 6, 6), 8 * 2 * 27 * 216),
        (nn.ConvTranspose2d(8, 12, 3, stride=2), (8, 5, 5), 8 * 12 * 9 * 5 * 5),
        (nn.ConvTranspose2d(8, 12, 3, stride=2, groups=4), (8, 5, 5), 8 * 3 * 9 * 5 * 5),
        (nn.ConvTranspose1d(8, 8, 4, stride=2, groups=8), (8, 20), 8 * 1 * 4 * 20),
    ],
    ids=str,
)
def test_convolutions(model, inputs, multiply_adds):
    model.to("meta")
    forward = 2 * N * multiply_adds
    # a gradient of the weights and one of the inputs cost as much as the forward pass each
    assert counted(model, tensor(N, *inputs, grad=True)) == (forward, 2 * forward)
    assert counted(model, tensor(N, *inputs)) == (forward, forward)
    model.requires_grad_(False)
    assert counted(model, tensor(N, *inputs, grad=True)) == (forward, forward)


@pytest.mark.parametrize(
    ("function", "shapes", "multiply_adds"),
    [
        (torch.mm, [(3, 4), (4, 5)], 3 * 4 * 5),
        (torch.bmm, [(2, 3, 4), (2, 4, 5)], 2 * 3 * 4 * 5),
        (torch.addmm, [(3, 5), (3, 4), (4, 5)], 3 * 4 * 5),
        (torch.baddbmm, [(2, 3, 5), (2, 3, 4), (2, 4, 5)], 2 * 3 * 4 * 5),
        (torch.addbmm, [(3, 5), (2, 3, 4), (2, 4, 5)], 2 * 3 * 4 * 5),
        (torch.mv, [(3, 4), (4,)], 3 * 4),
        (torch.addmv, [(3,), (3, 4), (4,)], 3 * 4),
        (torch.Tensor.addmm_, [(3, 5), (3, 4), (4, 5)], 3 * 4 * 5),
        (functional.linear, [(2, 3, 4), (5, 4)], 2 * 3 * 4 * 5),
        (functional.embedding, [(2, 3), (5, 4)], 0),
    ],
)
def test_products(function, shapes, multiply_adds):
    whole = torch.int64 if function is functional.embedding else torch.float32
    first, *rest = (
        tensor(*shape, dtype=whole if i == 0 else torch.float32) for i, shape in enumerate(shapes)
    )
    with FlopCounter() as counter:
        function(first, *rest)
    assert counter.flops == 2 * multiply_adds


def test_a_complex_multiply_add_is_eight_and_zeros_of_a_sparse_matrix_are_none():
    with FlopCounter() as complex_numbers:
        tensor(3, 4, dtype=torch.complex64) @ tensor(4, 5, dtype=torch.complex64)
    with FlopCounter() as sparse:
        torch.sparse.mm(torch.eye(50).to_sparse(), torch.ones(50, 3))
    assert (complex_numbers.flops, sparse.flops) == (8 * 3 * 4 * 5, 2 * 50 * 3)


@pytest.mark.parametrize(
    ("shapes", "multiply_adds"),
    [
        ([(16, 8), (2, 8, 4)], 16 * 8 * 4),  # the rows of two groups
        ([(2, 3, 8), (8, 16)], 3 * 8 * 16),  # their columns
        ([(3, 16), (16, 4)], 3 * 16 * 4),  # the sums of the weights' gradients
    ],
)
def test_groups_of_experts_count_each_token_once(shapes, multiply_adds):
    left, right = (tensor(*shape, dtype=torch.bfloat16) for shape in shapes)
    found = flops_of(ATEN._grouped_mm.default, (left, right, tensor(2, dtype=torch.int32)), {}, None)
    assert found == Flops(2 * multiply_adds, 2 * multiply_adds)


def test_products_in_fp8():
    scale = tensor()
    left, right = tensor(16, 32, dtype=torch.float8_e4m3fn), tensor(32, 64, dtype=torch.float8_e4m3fn)
    found = flops_of(ATEN._scaled_mm.default, (left, right, scale, scale), {}, None)
    assert found == Flops(2 * 16 * 32 * 64, 2 * 16 * 32 * 64)


LONG, WIDE, HEADS = 16, 8, 4
PRODUCT = 2 * N * HEADS * LONG * LONG * WIDE
"""Every head of the queries with every position of the keys."""


@pytest.mark.parametrize("device", ["meta", "cpu"])
@pytest.mark.parametrize(
    "settings", [{}, {"is_causal": True}, {"dropout_p": 0.1}, {"enable_gqa": True}], ids=str
)
def test_attention_is_two_products_forward_and_four_backward(settings, device):
    key_heads = HEADS // 2 if "enable_gqa" in settings else HEADS
    query = torch.empty(N, HEADS, LONG, WIDE, device=device, requires_grad=True)
    key, value = (torch.empty(N, key_heads, LONG, WIDE, device=device, requires_grad=True) for _ in range(2))
    found = counted(lambda _: functional.scaled_dot_product_attention(query, key, value, **settings), query)
    assert found == (2 * PRODUCT, 4 * PRODUCT)


def called(operator: Any, **given: Any) -> tuple[Any, dict[str, Any]]:
    """An operator's arguments in order, those without a value as None, and the keyword arguments."""
    args = tuple(given.get(known.name) for known in operator._schema.arguments if not known.kwarg_only)
    return args, {}


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(
    "name",
    [
        "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_efficient_attention",
        "_scaled_dot_product_cudnn_attention",
        "_scaled_dot_product_flash_attention_for_cpu",
        "_flash_attention_forward",
        "_efficient_attention_forward",
    ],
)
def test_kernels_of_attention_skip_what_is_masked_and_compute_the_scores_twice(name, is_causal):
    heads_first = name.startswith("_scaled")
    query, key, value = (
        tensor(N, heads, LONG, WIDE) if heads_first else tensor(N, LONG, heads, WIDE)
        for heads in (HEADS, HEADS // 2, HEADS // 2)
    )
    share = (LONG + 1) / 2 / LONG if is_causal else 1.0
    given = {
        "query": query,
        "key": key,
        "value": value,
        "is_causal": is_causal,
        "custom_mask_type": is_causal,
    }
    forward = getattr(ATEN, name).default
    assert flops_of(forward, *called(forward, **given), None) == Flops(2 * PRODUCT, share * 2 * PRODUCT)
    backward = getattr(ATEN, name.removesuffix("_forward") + "_backward").default
    assert flops_of(backward, *called(backward, **given), None) == Flops(4 * PRODUCT, share * 5 * PRODUCT)


def test_packed_sequences_attend_to_their_own_only():
    starts = torch.tensor([0, 3, 10])
    packed = [tensor(10, HEADS, WIDE)] * 3
    given = dict(zip(("query", "key", "value"), packed, strict=True), cum_seq_q=starts, cum_seq_k=starts)
    forward = ATEN._flash_attention_forward.default
    products = 2 * 2 * HEADS * WIDE * (3 * 3 + 7 * 7)
    assert flops_of(forward, *called(forward, **given), None) == Flops(products, products)
