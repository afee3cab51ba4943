"""Exceptions that mean that memory ran out."""

from __future__ import annotations

import re

import torch

# On a CPU under a cap each library of a step has its own message for running out; on CUDA cuBLAS and cuDNN
# have statuses of their own for what they allocate beside PyTorch.
_OUT_OF_MEMORY = re.compile(
    r"out of memory|can't allocate memory|cannot allocate memory|not enough memory|bad_alloc"
    r"|could not create a primitive|could not create a memory|ALLOC(ATION)?_FAILED",
    re.IGNORECASE,
)


def is_out_of_memory(error: BaseException) -> bool:
    """True if memory ran out, on a device or in the host."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and _OUT_OF_MEMORY.search(str(error)) is not None
