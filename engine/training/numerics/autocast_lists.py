"""Differences between autocast on a CPU and on CUDA, for the operators that a model has.

From `autocast_mode.h` and `autocast_mode.cpp` of PyTorch 2.15's ATen. Operators have the names by which they
reach the device: softmax runs as `_softmax`. Left out are those that only bring inputs of several formats to
the widest, which all devices do, and those of linear algebra and Fourier transforms, which hardly any device
computes in 16 bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from engine.protocol.numerics.precision_map import Operation

Policy = Literal["FP32", "16 bits", "the format of the inputs"]
_KEEPS: Policy = "the format of the inputs"
_HALF = {"float16", "bfloat16"}


@dataclass(frozen=True)
class Difference:
    """Operators that autocast computes in one format on a CPU and in another on CUDA.

    `operators` maps their names to those that PyTorch lists them under.
    """

    cpu: Policy
    cuda: Policy
    operators: Mapping[str, str]

    def sentence(self, listed: Iterable[str]) -> str:
        """The difference, for operators by their listed names."""
        return (
            f"{', '.join(sorted(listed))}: on CUDA, autocast computes in {self.cuda}, on a CPU in {self.cpu}."
        )

    def concerns(self, operation: Operation, is_cpu: bool) -> bool:
        """True if the operation would have another format on the other device."""
        here, there = (self.cpu, self.cuda) if is_cpu else (self.cuda, self.cpu)
        in_half = not _HALF.isdisjoint(operation.inputs)
        return in_half == (there == "FP32" if here == _KEEPS else here == "16 bits")


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


DIFFERENCES = (
    Difference(
        cpu=_KEEPS,
        cuda="FP32",
        operators={
            "_log_softmax": "log_softmax",
            "_softmax": "softmax",
            "native_group_norm": "group_norm",
            "native_layer_norm": "layer_norm",
            **_same("acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log1p", "log2"),
            **_same("pow", "reciprocal", "rsqrt", "sinh", "softplus", "tan"),
            **_same("cumprod", "cumsum", "dist", "linalg_vector_norm", "logsumexp", "renorm", "sum"),
            **_same("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"),
            **_same("_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d"),
            **_same("upsample_linear1d", "upsample_bilinear2d", "upsample_bicubic2d", "upsample_trilinear3d"),
        },
    ),
    Difference(cpu=_KEEPS, cuda="16 bits", operators=_same("addmv", "addr", "mv")),
    Difference(
        cpu="FP32",
        cuda=_KEEPS,
        operators={
            "_adaptive_avg_pool3d": "adaptive_avg_pool3d",
            "max_pool3d_with_indices": "max_pool3d",
            **_same("adaptive_max_pool3d", "avg_pool3d", "fractional_max_pool2d", "fractional_max_pool3d"),
            **_same("grid_sampler_2d", "grid_sampler_3d", "max_unpool2d", "max_unpool3d"),
            **_same("reflection_pad1d", "reflection_pad2d"),
            **_same("replication_pad1d", "replication_pad2d", "replication_pad3d"),
        },
    ),
)

_REFUSED = "binary_cross_entropy"
_CROSS_ENTROPY = {"aten.nll_loss_forward", "aten.nll_loss2d_forward"}


def device_notes(operations: Iterable[Operation], device_type: str) -> tuple[str, ...]:
    """Sentences on what differs between CPU and CUDA among operations that ran under autocast."""
    if device_type not in ("cpu", "cuda"):
        return ()
    return tuple(_notes([row for row in operations if row.direction == "forward"], device_type == "cpu"))


def _notes(operations: list[Operation], is_cpu: bool) -> Iterator[str]:
    # a CPU lists cross-entropy as a whole
    with_loss = {row.module for row in operations if row.name in _CROSS_ENTROPY}
    for difference in DIFFERENCES:
        listed = {
            difference.operators[name]
            for row in operations
            if (name := row.name.removeprefix("aten.")) in difference.operators
            and difference.concerns(row, is_cpu)
            and not (name == "_log_softmax" and row.module in with_loss)
        }
        if listed:
            yield difference.sentence(listed)
    if any(row.name == f"aten.{_REFUSED}" for row in operations):
        yield f"{_REFUSED}: on CUDA, autocast refuses it; {_REFUSED}_with_logits works on both."
