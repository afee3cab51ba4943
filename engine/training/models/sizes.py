"""Sizes of matmuls that are not a multiple of 8, which is less efficient on 16-bit Tensor Cores.

NVIDIA, Matrix Multiplication Background, "Tensor Core Requirements": cuBLAS and cuDNN use Tensor Cores for
any size, most efficiently for multiples of 8.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Literal

from torch import nn

from engine.protocol.advice import Finding, FindingKind, Severity

_MULTIPLE = 8
_LARGE = 1_024  # from here on the last layer takes much of the time, as a vocabulary does

_Convolution = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


@dataclass(frozen=True)
class OddSize:
    """A size of the matmuls of `layers` that is not a multiple of 8: less efficient on Tensor Cores.

    `is_given` is True if the data determines the size, such as the number of classes.
    """

    side: Literal["inputs", "outputs"]
    size: int
    is_given: bool
    layers: tuple[str, ...]

    @property
    def even(self) -> int:
        """The next larger multiple of 8."""
        return _above(self.size)


def odd_sizes(model: nn.Module) -> list[OddSize]:
    """Return the odd sizes of a model's layers, in the model's order."""
    products = _products(model)
    layers: defaultdict[tuple[Literal["inputs", "outputs"], int, bool], list[str]] = defaultdict(list)
    for place, (name, module) in enumerate(products):
        inputs, outputs = _sizes(module)
        if inputs % _MULTIPLE:
            layers["inputs", inputs, place == 0].append(name)
        if outputs % _MULTIPLE:
            layers["outputs", outputs, place == len(products) - 1 and outputs < _LARGE].append(name)
    return [OddSize(*key, tuple(names)) for key, names in layers.items()]


def size_findings(model: nn.Module, batch_size: int) -> list[Finding]:
    """Return a finding for each odd size of a layer's matmul. Sizes given by the data are only notes."""
    found = []
    for odd in odd_sizes(model):
        first, *others = odd.layers
        more = f", like {len(others):,} more," if others else ""
        has = f"The layer {first}{more} has {odd.size:,} {odd.side}, not a multiple of {_MULTIPLE}"
        message = f"{has}, which is slower on Tensor Cores."
        severity: Severity = "note" if odd.is_given else "warning"
        found.append(_finding(severity, message, f"Use {odd.even:,} if you can.", len(odd.layers)))
    if batch_size % _MULTIPLE and any(isinstance(module, nn.Linear) for _, module in _products(model)):
        size = f"{batch_size:,} is not a multiple of {_MULTIPLE}"
        remedy = f"A batch of {_above(batch_size):,} takes barely more time."
        found.append(_finding("note", f"The batch size of {size}, which is slower on Tensor Cores.", remedy))
    return found


def _finding(severity: Severity, message: str, remedy: str, count: int = 1) -> Finding:
    return Finding(kind=FindingKind.ODD_SIZE, severity=severity, message=message, remedy=remedy, count=count)


def _products(model: nn.Module) -> list[tuple[str, nn.Module]]:
    # a depthwise convolution is none
    return [
        (name, it)
        for name, it in model.named_modules()
        if isinstance(it, nn.Linear)
        or (isinstance(it, _Convolution) and (it.groups == 1 or it.in_channels > it.groups))
    ]


def _sizes(module: nn.Module) -> tuple[int, int]:
    if isinstance(module, nn.Linear):
        return module.in_features, module.out_features
    assert isinstance(module, _Convolution)
    return module.in_channels // module.groups, module.out_channels // module.groups


def _above(size: int) -> int:
    return -(-size // _MULTIPLE) * _MULTIPLE
