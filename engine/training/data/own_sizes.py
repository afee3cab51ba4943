"""The number of samples in a batch from the user's file, and the shapes of such a batch at another size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from engine.training.data.batches import Batch, has_to_method, tensors_in
from engine.training.models.outputs import describe_value
from engine.training.models.own import OwnFile

BATCH_SIZE = "batch_size"
FEW, MORE = 3, 6  # samples of two batches that together show which dimensions grow with the samples
_SAY = f"define {BATCH_SIZE}(inputs, targets), which returns the number of samples"


def count_samples(
    own: OwnFile, call: str, batch: Batch, wanted: int, again: Callable[[int], Batch] | None
) -> int:
    """Return the number of samples in a batch that `call` made of `wanted` samples. Raises ProblemError.

    The file's `batch_size(inputs, targets)` decides. Else it is `wanted`, whatever dimension the samples are
    in, unless inputs and targets both have fewer. `again` makes a batch of another size.
    """
    _check_parts(own, call, tree_leaves(batch))
    if (count := own.function(BATCH_SIZE)) is not None:
        return _own_count(own, count(*batch))
    lengths = _lengths(batch)
    if set(lengths) <= {wanted} or any(type(side) in (tuple, list) and len(side) == wanted for side in batch):
        return wanted
    smaller = None
    if again is not None:
        other = wanted // 2 or 2
        smaller = again(other)
        if _shapes(smaller) == _shapes(batch):
            name = call.partition("(")[0]
            message = f"returned the same {lengths[0]:,} samples from {call} and {name}({other})"
            raise own.problem(message, f"Return tensors of size samples, or {_SAY}.")
    if len(set(lengths)) > 1 and _differ(batch, smaller, wanted):
        sizes = f"inputs of {lengths[0]:,} samples and targets of {lengths[1]:,}"
        raise own.problem(f"returned {sizes} from {call}", f"Return as many targets as inputs, or {_SAY}.")
    fewest = min(lengths)
    return fewest if len(set(lengths)) == 1 and 1 < fewest < wanted else wanted


def _check_parts(own: OwnFile, call: str, parts: list[Any]) -> None:
    for part in parts:
        if not isinstance(part, Tensor) and not has_to_method(part) and tensors_in(part):
            message = f"returned {describe_value(part)} from {call}, which cannot be moved to a GPU"
            method = f"Give {type(part).__name__} a method to(device) that returns it"
            raise own.problem(message, f"{method}, or return its tensors in a dict.")
    if not any(has_to_method(part) or (isinstance(part, Tensor) and part.dim()) for part in parts):
        raise own.problem(f"returned no tensor from {call}", "Return tensors of all samples.")


def _own_count(own: OwnFile, count: Any) -> int:
    if isinstance(count, Tensor) and count.numel() == 1:
        count = count.item()
    if isinstance(count, int) and count > 0:
        return int(count)
    shown = count if isinstance(count, int | float) else describe_value(count)
    message = f"returned {shown} from {BATCH_SIZE}(inputs, targets), but it must be a positive integer"
    raise own.problem(message, "Return the number of samples in the batch.")


def _lengths(batch: Batch) -> list[int]:
    # of inputs and targets: of both lists, where they are lists of samples, else of their first tensors
    sides = [
        [part for part in tree_leaves(side) if isinstance(part, Tensor) and part.dim()] for side in batch
    ]
    are_lists = all(type(side) in (tuple, list) for side in batch) and len(batch[0]) == len(batch[1])
    if are_lists and len({len(part) for tensors in sides for part in tensors}) > 1:
        return [len(side) for side in batch]
    return [len(tensors[0]) for tensors in sides if tensors]


def _differ(batch: Batch, smaller: Batch | None, wanted: int) -> bool:
    # whether only the inputs or only the targets can belong to so many samples
    if not all(isinstance(side, Tensor) and side.dim() for side in batch):
        return False
    fits = []
    for side, less in zip(batch, smaller or (None, None), strict=True):
        if isinstance(less, Tensor):
            rows = [large for large, small in zip(side.shape, less.shape, strict=False) if large != small]
        else:
            rows = [len(side), *(size for size in side.shape[1:2] if size == wanted)]
        # several rows may belong to each sample, as the frames of a film do
        fits.append(any(size % wanted == 0 for size in rows))
    return len(set(fits)) > 1


def _shapes(batch: Any) -> Any:
    return tree_map(lambda part: part.shape if isinstance(part, Tensor) else part, batch)


def resize_batch(few: Any, more: Any, size: int) -> Any:
    """Return an empty batch of `size` samples, extrapolated from batches of `FEW` and of `MORE`.

    Call it in fake tensor mode.
    """
    if isinstance(more, Tensor):
        return torch.empty(_grown_shape(few.shape, more.shape, size), dtype=more.dtype)
    if isinstance(more, Mapping):
        made: Any = copy(more)
        made.update({name: resize_batch(few[name], part, size) for name, part in more.items()})
        return made
    if isinstance(more, tuple | list):
        if len(few) == len(more):
            parts = [resize_batch(*pair, size) for pair in zip(few, more, strict=True)]
        else:
            # a list of samples
            parts = [resize_batch(more[at % len(more)], more[at % len(more)], size) for at in range(size)]
        return type(more)(*parts) if hasattr(more, "_fields") else type(more)(parts)
    return size if (few, more) == (FEW, MORE) else more


def _grown_shape(few: torch.Size, more: torch.Size, size: int) -> list[int]:
    pairs = list(zip(few, more, strict=True))
    if (FEW, MORE) in pairs:
        samples = pairs.index((FEW, MORE))
        # the others are as long as the longest sample
        return [size if at == samples else max(pair) for at, pair in enumerate(pairs)]
    # the samples lie behind one another
    return [many if one == many else max(1, round(many * size / MORE)) for one, many in pairs]
