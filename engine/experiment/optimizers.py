"""The optimizers to choose from, one entry each, from which form, command line and training are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class OptimizerKind:
    """An optimizer of PyTorch or torchao, with its label, its class and its properties.

    It stores `moments` numbers for each weight, in the weight's own dtype or in `moment_bytes` bytes each.
    Unless it `is_capturable` or fused, it reads the learning rate on the host. With `has_fused`, PyTorch has
    a fused form, which with `fuses_sharded` supports weights sharded by FSDP2. If it has a `rest`, it updates
    only the 2D weights of hidden layers, and the optimizer of that name updates all others.
    """

    label: str
    class_name: str
    library: str = "torch.optim"
    moments: int = 2
    moment_bytes: float | None = None
    has_momentum: bool = False
    decays_by_default: bool = False
    is_capturable: bool = True
    has_fused: bool = True
    fuses_sharded: bool = True
    rest: str | None = None

    @property
    def is_low_bit(self) -> bool:
        """True if its state has fewer than 16 bits, which only torchao provides."""
        return self.library == "torchao.optim"

    @property
    def rounds_stochastically(self) -> bool:
        """True if torchao has it with stochastic rounding of BF16 weights."""
        return self.class_name.startswith("AdamW")


def _low_bit_adamw(bits: str, class_name: str, moment_bytes: float) -> OptimizerKind:
    label = f"AdamW, {bits}"
    return OptimizerKind(
        label, class_name, "torchao.optim", moment_bytes=moment_bytes, decays_by_default=True
    )


OPTIMIZERS: Mapping[str, OptimizerKind] = {
    "adamw": OptimizerKind("AdamW", "AdamW", decays_by_default=True),
    "adam": OptimizerKind("Adam", "Adam"),
    "sgd": OptimizerKind(
        "SGD", "SGD", moments=0, has_momentum=True, is_capturable=False, fuses_sharded=False
    ),
    "muon": OptimizerKind(
        "Muon", "Muon", moments=1, decays_by_default=True, is_capturable=False, has_fused=False, rest="adamw"
    ),
    # torchao adds a scale in FP32 for each block of 256 weights, or of 128 in 4 bits
    "adamw-8bit": _low_bit_adamw("8-bit", "AdamW8bit", 1 + 4 / 256),
    "adamw-4bit": _low_bit_adamw("4-bit", "AdamW4bit", 0.5 + 4 / 128),
    "adamw-fp8": _low_bit_adamw("FP8", "AdamWFp8", 1 + 4 / 256),
}
"""By the names that settings have."""
