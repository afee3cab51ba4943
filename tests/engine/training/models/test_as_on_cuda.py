"""The CPU's autocast, dropout and attention, made those of CUDA."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch.nn import functional

from engine.training.models.weightless import (
    CPU_LISTS,
    CUDA_LISTS,
    IN_FLOAT32,
    IN_HALF,
    PROMOTED,
    CudaSemantics,
)

HALF = torch.ones(4, 8, dtype=torch.bfloat16)


@pytest.mark.parametrize(
    "made",
    [
        lambda: functional.softmax(HALF, dim=-1), lambda: HALF.softmax(dim=-1),
        lambda: torch.softmax(HALF, dim=-1), lambda: functional.log_softmax(HALF, dim=-1),
        lambda: functional.layer_norm(HALF, (8,)), lambda: functional.group_norm(HALF, 2),
        lambda: functional.cross_entropy(HALF, torch.zeros(4, dtype=torch.int64)), lambda: HALF.pow(2),
        lambda: HALF.sum(), lambda: HALF**2, lambda: HALF.tan(), lambda: torch.linalg.vector_norm(HALF),
        # the widest of its inputs
        lambda: HALF.scatter_add(1, torch.zeros(4, 8, dtype=torch.int64), torch.ones(4, 8)),
        lambda: torch.atan2(HALF, torch.ones(4, 8)),
    ],
)  # fmt: skip
def test_under_autocast_these_are_float32_on_cuda(made):
    with torch.autocast("cpu", dtype=torch.bfloat16), CudaSemantics():
        assert made().dtype is torch.float32


PICTURES = torch.ones(1, 2, 4, 4, dtype=torch.bfloat16)


@pytest.mark.parametrize(
    "made",
    [
        lambda: functional.linear(torch.ones(2, 8), torch.ones(3, 8)),
        lambda: torch.mv(torch.ones(4, 8), torch.ones(8)),
        lambda: torch.einsum("ij->i", torch.ones(4, 8)),
        # what only the CPU's autocast casts to float32
        lambda: functional.pad(PICTURES, (1, 1, 1, 1), mode="reflect"),
        lambda: functional.max_pool3d(PICTURES[None], 2),
        lambda: functional.grid_sample(PICTURES, PICTURES.view(1, 4, 4, 2), align_corners=False),
        lambda: torch.trace(HALF),
    ],
)
def test_under_autocast_these_have_16_bits_on_cuda(made):
    with torch.autocast("cpu", dtype=torch.bfloat16), CudaSemantics():
        assert made().dtype is torch.bfloat16


_BENEATH_A_CALL = {"_cudnn_rnn", "_scaled_dot_product_flash_attention", "_thnn_fused_gru_cell"}
_BENEATH_A_CALL |= {"_thnn_fused_lstm_cell", "convolution", "cudnn_convolution", "native_layer_norm"}
_BENEATH_A_CALL |= {"cudnn_convolution_transpose"}


def test_the_policies_cover_all_that_pytorchs_list_for_cuda_has_beyond_the_cpus():
    listed = {name for name in CUDA_LISTS - CPU_LISTS if "upsample" not in name}
    assert listed - _BENEATH_A_CALL <= IN_FLOAT32 | IN_HALF | PROMOTED


@contextmanager
def kept_tensors() -> Iterator[list[torch.Tensor]]:
    """The tensors that forward passes in this context keep for the backward pass."""
    kept: list[torch.Tensor] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        yield kept


def test_dropout_keeps_a_mask_of_bytes_in_training_only():
    with CudaSemantics(), kept_tensors() as kept:
        functional.dropout(torch.ones(64, requires_grad=True), 0.5, training=True).sum().backward()
    assert [tensor.dtype for tensor in kept] == [torch.bool]
    with CudaSemantics():
        assert torch.equal(functional.dropout(HALF, 0.5, training=False), HALF)


@pytest.mark.parametrize(("half", "keeps"), [(False, True), (True, False)])
def test_only_in_float32_attention_with_fewer_keys_keeps_the_weights_of_all_pairs(half: bool, keeps: bool):
    query = torch.rand(1, 4, 64, 8, requires_grad=True)
    key, value = torch.rand(1, 2, 64, 8), torch.rand(1, 2, 64, 8)
    with CudaSemantics(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=half), kept_tensors() as kept:
        functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
    assert any(tensor.numel() >= 4 * 64 * 64 for tensor in kept) is keeps
