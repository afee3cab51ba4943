"""The CPU's autocast, dropout and attention, made those of CUDA."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from engine.training.models.weightless import AsOnCuda

HALF = torch.ones(4, 8, dtype=torch.bfloat16)


@pytest.mark.parametrize(
    "made",
    [
        lambda: functional.softmax(HALF, dim=-1), lambda: HALF.softmax(dim=-1),
        lambda: torch.softmax(HALF, dim=-1), lambda: functional.log_softmax(HALF, dim=-1),
        lambda: functional.layer_norm(HALF, (8,)), lambda: functional.group_norm(HALF, 2),
        lambda: functional.cross_entropy(HALF, torch.zeros(4, dtype=torch.int64)), lambda: HALF.pow(2),
        lambda: HALF.sum(),
    ],
)  # fmt: skip
def test_under_autocast_these_are_float32_on_cuda(made):
    with torch.autocast("cpu", dtype=torch.bfloat16), AsOnCuda():
        assert made().dtype is torch.float32


def test_products_stay_in_half():
    with torch.autocast("cpu", dtype=torch.bfloat16), AsOnCuda():
        assert functional.linear(torch.ones(2, 8), torch.ones(3, 8)).dtype is torch.bfloat16
    with AsOnCuda():
        assert functional.softmax(HALF, dim=-1).dtype is torch.bfloat16


def test_dropout_keeps_a_mask_of_bytes_in_training_only():
    inputs = torch.ones(64, requires_grad=True)
    saved: list[torch.Tensor] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        saved.append(tensor)
        return tensor

    with AsOnCuda(), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        dropped = functional.dropout(inputs, 0.5, training=True)
        dropped.sum().backward()
    assert [tensor.dtype for tensor in saved] == [torch.bool]
    with AsOnCuda():
        assert torch.equal(functional.dropout(HALF, 0.5, training=False), HALF)


@pytest.mark.parametrize(("half", "keeps"), [(False, True), (True, False)])
def test_only_in_float32_attention_with_fewer_keys_keeps_the_weights_of_all_pairs(half: bool, keeps: bool):
    query = torch.rand(1, 4, 64, 8, requires_grad=True)
    key, value = torch.rand(1, 2, 64, 8), torch.rand(1, 2, 64, 8)
    kept: list[torch.Size] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor.shape)
        return tensor

    saved = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
    with AsOnCuda(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=half), saved:
        functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
    assert any(shape.numel() >= 4 * 64 * 64 for shape in kept) is keeps
