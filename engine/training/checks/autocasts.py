"""Finds autocast contexts that the code itself enters or turns off, and the share of work in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from engine.experiment.catalog import Precision
from engine.experiment.experiment import Experiment
from engine.protocol.advice import Finding, FindingKind, Severity
from engine.training.checks.places import CodePlace, calling_line, finding_at
from engine.training.models.autocasts import AutocastContexts
from engine.training.precision import autocast_dtype, dtype_name, leaf_tensors

_MATRIX_WORK = frozenset(
    (
        *("linear", "bilinear", "matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "addmm", "baddbmm"),
        *("einsum", "scaled_dot_product_attention", "conv1d", "conv2d", "conv3d"),
        *("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
    )
)
_OF_WORK = "of the FLOPs of matmuls and convolutions"
_TELLING, _LARGE, _ALL = 0.01, 0.1, 0.995  # shares of that work
_FULL = torch.float32


class AutocastWatch(TorchFunctionMode):
    """Finds matmuls that the code's own autocast contexts compute in another dtype than the run's precision.

    Enter it around a forward pass. The pass runs on the CPU, and the findings are for a run on a device of
    type `target`.
    """

    def __init__(self, experiment: Experiment, precision: Precision, target: str) -> None:
        super().__init__()
        self._contexts = AutocastContexts(experiment.own_code)
        self._expected = autocast_dtype(precision) or _FULL
        # a pass may be made in BF16 in place of the experiment's FP16
        stands_for = (
            experiment.precision if precision.is_autocast is experiment.precision.is_autocast else precision
        )
        self._label = stands_for.label
        is_pure = stands_for is Precision.BF16_PURE
        own = torch.bfloat16 if is_pure else autocast_dtype(stands_for)
        self._as_expected = {self._expected, own or _FULL}
        self._target = target
        self._total = 0
        self._noted: Counter[tuple[torch.dtype, CodePlace | None]] = Counter()
        # without a context in the text around it, the first line for all
        self._elsewhere: dict[torch.dtype, CodePlace | None] = {}
        self._without_effect: dict[CodePlace, str] = {}

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        name = getattr(function, "__name__", "")
        # a backward pass has the formats of the forward pass
        if name in _MATRIX_WORK and torch._C._current_graph_task_id() == -1:
            tensors = leaf_tensors((args, kwargs))
            self._note(name, tensors, result)
        return result

    def _note(self, name: str, tensors: list[torch.Tensor], result: Any) -> None:
        if not isinstance(result, torch.Tensor) or not result.dtype.is_floating_point or not tensors:
            return
        work = _multiply_adds(name, tensors, result)
        self._total += work
        dtype, place = self._computed_in(result.dtype)
        if dtype not in self._as_expected:
            self._noted[dtype, place] += work

    def _computed_in(self, dtype: torch.dtype) -> tuple[torch.dtype, CodePlace | None]:
        """The dtype of a matmul on the target, as decided by autocast, and the place that decides it."""
        is_on = torch.is_autocast_enabled("cpu")
        on_cpu = torch.get_autocast_dtype("cpu") if is_on else _FULL
        # a cast of the code's own, or weights in other dtypes, are findings of their own
        if dtype is not on_cpu:
            return self._expected, None
        is_of_cpu = False
        for context in self._contexts.around():
            place = CodePlace(context.file, context.line)
            if context.device not in (None, self._target):
                self._without_effect.setdefault(place, context.device)
                is_of_cpu |= context.device == "cpu"
                continue
            if context.device is None or self._target == "cpu":
                return (self._expected, None) if is_of_cpu else (on_cpu, place)
            if context.is_on is None:
                return self._expected, None
            return ((context.dtype or torch.float16) if context.is_on else _FULL), place
        if is_of_cpu:
            return self._expected, None
        if on_cpu not in self._elsewhere:
            self._elsewhere[on_cpu] = calling_line()
        return on_cpu, self._elsewhere[on_cpu]

    def findings(self, *, counts: bool) -> Iterator[Finding]:
        """Yield a finding for each place. A finding in a pass that the run does not make is a note."""
        for (dtype, place), work in self._noted.items():
            share = work / max(1, self._total)
            if share < _TELLING:
                continue
            what = dtype_name(dtype)
            how_much = f"all {_OF_WORK[3:]}" if share > _ALL else f"{100 * share:.0f}% {_OF_WORK}"
            begin = "Autocast is off here" if dtype is _FULL else "Autocast is entered here"
            remedy = "Remove it. Ammeter enters autocast itself if the precision uses it."
            if dtype is _FULL:
                remedy = "Unless a small part needs float32, leave autocast on or enter train.autocast()."
            is_alarm = counts and share >= _LARGE and (place is None or place.is_users)
            severity: Severity = "warning" if is_alarm else "note"
            message = f"{begin}, so {self._label} computes {how_much} in {what}."
            yield finding_at(place, FindingKind.AUTOCAST, severity, message, remedy)
        for place, device in self._without_effect.items():
            message = f"This autocast is for {device} and has no effect on {self._target}."
            remedy = "Give it the device_type of its input, such as x.device.type."
            yield finding_at(place, FindingKind.AUTOCAST, "note", message, remedy)


def _multiply_adds(name: str, tensors: list[torch.Tensor], result: torch.Tensor) -> int:
    """Estimate the multiply-adds: for each number of the result, the length of its sum."""
    first = tensors[1] if name in ("addmm", "baddbmm") and len(tensors) > 2 else tensors[0]
    if name.startswith("conv_transpose"):
        return first.numel() * tensors[1][0].numel()
    if name.startswith("conv"):
        return result.numel() * tensors[1][0].numel()
    if name == "scaled_dot_product_attention":
        return 2 * result.numel() * tensors[1].shape[-2]
    return result.numel() * (first.shape[-1] if first.dim() else 1)
