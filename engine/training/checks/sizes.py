"""Sizes of matrix products that are no multiple of 8, which 16-bit Tensor Cores need for full speed.

NVIDIA, Deep Learning Performance Guide, "Tensor Core requirements": cuBLAS and cuDNN pad other sizes, which
costs the share that is padded.
"""

from __future__ import annotations

from collections import defaultdict

from torch import nn

from engine.protocol.findings import Finding, FindingKind, Severity

_MULTIPLE = 8
_LARGE = 1_024
"""From this size on the last layer takes much of the time, as a vocabulary does."""

_Convolution = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


def size_findings(model: nn.Module, batch_size: int) -> list[Finding]:
    """A finding for each odd size of a layer's matrix product, which names the first layer that has it.

    The input of the first layer and the output of the last are given by the data: these are notes.
    """
    products = [(name, module) for name, module in model.named_modules() if _is_product(module)]
    layers: defaultdict[tuple[str, int, Severity], list[str]] = defaultdict(list)
    for place, (name, module) in enumerate(products):
        inputs, outputs = _sizes(module)
        if inputs % _MULTIPLE:
            layers["inputs", inputs, "note" if place == 0 else "warning"].append(name)
        if outputs % _MULTIPLE:
            is_last = place == len(products) - 1 and outputs < _LARGE
            layers["outputs", outputs, "note" if is_last else "warning"].append(name)
    found = [_finding(*key, names) for key, names in layers.items()]
    if batch_size % _MULTIPLE and any(isinstance(module, nn.Linear) for _, module in products):
        found.append(_of_batch(batch_size))
    return found


def _is_product(module: nn.Module) -> bool:
    if isinstance(module, nn.Linear):
        return True
    # a depthwise convolution is no matrix product
    return isinstance(module, _Convolution) and (module.groups == 1 or module.in_channels > module.groups)


def _sizes(module: nn.Module) -> tuple[int, int]:
    if isinstance(module, nn.Linear):
        return module.in_features, module.out_features
    assert isinstance(module, _Convolution)
    return module.in_channels // module.groups, module.out_channels // module.groups


def _finding(side: str, size: int, severity: Severity, names: list[str]) -> Finding:
    more = "" if len(names) == 1 else f", like {len(names) - 1:,} more,"
    return Finding(
        kind=FindingKind.ODD_SIZE,
        severity=severity,
        message=f"The layer {names[0]}{more} has {size:,} {side}, no multiple of {_MULTIPLE}, "
        "so in 16 bits the Tensor Cores compute on padding.",
        remedy=f"Take {_above(size):,} where you can choose it.",
        count=len(names),
    )


def _of_batch(batch_size: int) -> Finding:
    return Finding(
        kind=FindingKind.ODD_SIZE,
        severity="note",
        message=f"The batch of {batch_size:,} is no multiple of {_MULTIPLE}, which products of its size pad.",
        remedy=f"A batch of {_above(batch_size):,} takes hardly more time.",
    )


def _above(size: int) -> int:
    return -(-size // _MULTIPLE) * _MULTIPLE
