"""The floating-point numbers of tensors of every dtype and layout, as plain tensors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves


def floating(tensors: Iterable[Tensor]) -> Iterator[Tensor]:
    """Yield the parts of tensors that can hold NaN and Inf, strided, real and in the tensors' own memory.

    A complex tensor has its real and imaginary parts, a sparse or nested one its values.
    """
    for tensor in tensors:
        for part in _parts(tensor.detach()):
            holds_numbers = part.layout is torch.strided and part.numel() and not part.is_meta
            if holds_numbers and part.is_floating_point():
                yield part


def legible(tensor: Tensor) -> Tensor:
    """Return the tensor, converted to float32 if it is in FP8, for which torch lacks most operations."""
    return tensor.float() if tensor.itemsize == 1 else tensor


def are_finite(value: Any) -> bool:
    """Return True if no number in nested tensors, lists and dicts is NaN or Inf. Waits for the device."""
    leaves = tree_leaves(value)
    tensors = floating(leaf for leaf in leaves if isinstance(leaf, Tensor))
    return all(bool(legible(part).isfinite().all()) for part in tensors) and all(
        math.isfinite(leaf) for leaf in leaves if isinstance(leaf, float)
    )


def _parts(tensor: Tensor) -> Iterator[Tensor]:
    if is_traceable_wrapper_subclass(tensor):
        for name in tensor.__tensor_flatten__()[0]:
            yield from _parts(getattr(tensor, name))
    elif tensor.layout is torch.sparse_coo:
        yield from _parts(tensor._values())
    elif tensor.layout in _COMPRESSED or tensor.is_nested:
        yield from _parts(tensor.values())
    elif tensor.is_complex():
        # the conjugate of a conjugate is the tensor as it lies in memory
        yield torch.view_as_real(tensor.conj() if tensor.is_conj() else tensor)
    else:
        yield tensor


_COMPRESSED = frozenset((torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc))
