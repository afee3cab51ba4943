"""Watches a pass call by call: where it waits for the device, and what its loss computes in 16 bits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from engine.protocol.findings import Finding, FindingKind
from engine.training.checks.places import Place, caller
from engine.training.checks.tree import Tree, dtype_text
from engine.training.models.weightless import IN_FLOAT32

_HALF = (torch.float16, torch.bfloat16)
_READS = {
    "item": ".item()",
    "tolist": ".tolist()",
    "cpu": ".cpu()",
    "numpy": ".numpy()",
    "__array__": "numpy.array(tensor)",
    "__float__": "float(tensor)",
    "__int__": "int(tensor)",
    "__index__": "a tensor as an index",
    "__repr__": "print(tensor)",
    "__format__": "a tensor in an f-string",
    "nonzero": ".nonzero()",
    "unique": ".unique()",
    "masked_select": ".masked_select()",
}
"""Calls that bring a tensor's values, or a size that depends on them, to the host."""


class WaitWatch(TorchFunctionMode):
    """Counts, by line, the calls that would make the host wait for an accelerator."""

    def __init__(self) -> None:
        super().__init__()
        self._waits: Counter[tuple[str, Place | None]] = Counter()

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = getattr(function, "__name__", "")
        if name == "__bool__" or name in _READS:
            self._waits[name, caller()] += 1
        return function(*args, **(kwargs or {}))

    def findings(self) -> Iterator[Finding]:
        """A finding for each line of the user's; those in a library are notes."""
        for (name, place), count in self._waits.items():
            if place is None:
                continue
            times = "" if count == 1 else f" {count:,} times in a pass"
            if name == "__bool__":
                kind = FindingKind.BRANCHES
                message = (
                    f"Python decides by a tensor's value{times}: the host waits for the device each time, "
                    "and the step cannot be captured."
                )
                remedy = "Decide on the device, as by torch.where, or by something that is no tensor."
            else:
                kind = FindingKind.WAITS
                message = (
                    f"{_READS[name]} is used{times}: the host waits for the device each time, "
                    "and the step cannot be captured."
                )
                remedy = "Keep the value on the device as a tensor, and read it outside the step."
            yield Finding(
                kind=kind,
                severity="warning" if place.is_users else "note",
                message=message,
                remedy=remedy,
                file=place.file,
                line=place.line,
                count=count,
            )


_SENSITIVE = frozenset(
    [
        *("softmax", "log_softmax", "softmin", "logsumexp", "logaddexp", "log_sigmoid", "logsigmoid"),
        *("exp", "exp_", "expm1", "log", "log_", "log2", "log10", "log1p"),
    ]
)
_REFUSED_ON_CUDA = "binary_cross_entropy"


class LossWatch(TorchFunctionMode):
    """Notes logarithms, exponentials and softmaxes that a loss computes in 16 bits on the device.

    What `tree`'s model computes is left out. Enter it within `AsOnCuda` for CUDA, whose autocast computes
    most of them in float32.
    """

    def __init__(self, tree: Tree, *, is_cuda: bool) -> None:
        super().__init__()
        self._tree = tree
        self._is_cuda = is_cuda
        self._halves: Counter[tuple[str, str, Place | None]] = Counter()
        self._refused: Place | None = None

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name, settings = getattr(function, "__name__", ""), kwargs or {}
        first = args[0] if args else settings.get("input")
        if name in _SENSITIVE and isinstance(first, torch.Tensor) and first.dtype in _HALF:
            is_cast = settings.get("dtype") in (torch.float32, torch.float64)
            is_ours = not is_cast and not self._tree.is_in_forward
            if is_ours and not self._is_in_float32(name, settings):
                self._halves[name.strip("_"), dtype_text(first), caller()] += 1
        if name == _REFUSED_ON_CUDA and self._is_cuda and torch.is_autocast_enabled("cpu"):
            self._refused = caller()
        return function(*args, **settings)

    def _is_in_float32(self, name: str, settings: dict[str, Any]) -> bool:
        is_autocast = self._is_cuda and torch.is_autocast_enabled("cpu")
        return is_autocast and name in IN_FLOAT32 and "out" not in settings

    def findings(self) -> Iterator[Finding]:
        """A finding for each line."""
        for (name, dtype, place), count in self._halves.items():
            yield Finding(
                kind=FindingKind.HALF_IN_LOSS,
                severity="warning",
                message=f"The loss computes {name} in {dtype}, where small differences are lost.",
                remedy=f"Autocast leaves it so: call .float() on the input of {name}.",
                file=None if place is None else place.file,
                line=None if place is None else place.line,
                count=count,
            )
        if self._refused is not None:
            yield Finding(
                kind=FindingKind.RAISES,
                severity="error",
                message="binary_cross_entropy and nn.BCELoss raise an error under CUDA's autocast.",
                remedy="Leave the sigmoid out, and use binary_cross_entropy_with_logits.",
                file=self._refused.file,
                line=self._refused.line,
            )
