"""Backward passes whose errors name the line of the user's forward pass that made the failing operation."""

from __future__ import annotations

import re
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
from torch import Tensor

from engine.training.models.libraries import is_out_of_memory
from engine.training.models.outputs import no_gradient_error
from engine.training.models.own import FORWARD_FRAMES, is_own_file, own_frames
from engine.training.ranks.rank import current_rank

_Result = TypeVar("_Result")
_LINE = re.compile(r'\s*File "(.+)", line (\d+), in (.+)')


def run_backward(loss: Tensor, backward: Callable[[], object]) -> None:
    """Call `backward` of the loss. Its error is marked, in anomaly mode with lines of the forward pass."""
    if not loss.requires_grad:
        raise no_gradient_error()
    begun: list[Any] = []
    if torch.is_anomaly_enabled():
        for node in _nodes(loss.grad_fn):
            node.register_prehook(lambda _, node=node: begun.append(node))
    try:
        backward()
    except Exception as error:
        # an operation of the user's own is known by its frames; a second pass is the caller's mistake
        is_known = own_frames(error) or is_out_of_memory(error) or "a second time" in str(error)
        if not is_known:
            setattr(error, FORWARD_FRAMES, _frames(begun[-1]) if begun else [])
        raise


def with_forward_line(work: Callable[[], _Result]) -> _Result:
    """Return the result of `work`. If its backward pass fails, repeat it once to learn the forward line."""
    try:
        return work()
    except Exception as error:
        is_known = getattr(error, FORWARD_FRAMES, None) != [] or torch.is_anomaly_enabled()
        # what breaks a capture breaks it again
        is_ready = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        is_captured = is_ready and torch.cuda.is_current_stream_capturing()
        # other processes would wait for a repeated pass
        if is_known or is_captured or current_rank().count > 1:
            raise
        failure = error
    # outside the except block, which would make the first error the context of the next
    try:
        with warnings.catch_warnings(action="ignore"), torch.autograd.set_detect_anomaly(True, False):
            work()
    except Exception as again:  # noqa: BLE001 - it may fail in any other way
        setattr(failure, FORWARD_FRAMES, getattr(again, FORWARD_FRAMES, []))
    raise failure


def is_repeated() -> bool:
    """Return True while `with_forward_line` repeats its work, in which NaN is not searched for."""
    return torch.is_anomaly_enabled() and not torch.is_anomaly_check_nan_enabled()


def _nodes(first: Any) -> Iterator[Any]:
    seen, waiting = set(), [first]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            yield node
            waiting += [following for following, _ in node.next_functions]


def _frames(node: Any) -> list[traceback.FrameSummary]:
    # the user's, in which anomaly mode saw the operation made
    found = (_LINE.match(line) for line in node.metadata.get("traceback_", ()))
    places = (place.groups() for place in found if place is not None)
    return [traceback.FrameSummary(file, int(line), name) for file, line, name in places if is_own_file(file)]
