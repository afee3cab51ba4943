"""The optimizers to choose from, one entry each, and the settings of optimizer, schedule and loss scaler.

Form, command line and training are made from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from engine.experiment.problem import contradiction
from engine.experiment.setting import Flag, FormValues, Group, has, setting
from engine.experiment.settings import Count, CountOrZero, NoneFromText, Part, SmallCount


@dataclass(frozen=True)
class OptimizerKind:
    """An optimizer of PyTorch, torchao or Ammeter, with its label, its class and its properties.

    It stores `moments` numbers for each weight, in the weight's own dtype or in `moment_bytes` bytes each.
    Unless it `is_capturable` or fused, it reads the learning rate on the host. With `has_fused`, PyTorch has
    a fused form, which with `fuses_sharded` supports weights sharded by FSDP2.
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

    @property
    def is_low_bit(self) -> bool:
        """True if its state has fewer than 16 bits, which only torchao provides."""
        return self.library == "torchao.optim"

    @property
    def takes_model(self) -> bool:
        """True if it is a class of Ammeter, which takes the model. Exported scripts contain it."""
        return self.library.startswith("engine.")

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
        *("Muon", "MuonAndAdamW", "engine.training.steps.muon"),
        moments=1,
        decays_by_default=True,
        is_capturable=False,
        has_fused=False,
    ),
    # torchao adds a scale in FP32 for each block of 256 weights, or of 128 in 4 bits
    "adamw-8bit": _low_bit_adamw("8-bit", "AdamW8bit", 1 + 4 / 256),
    "adamw-4bit": _low_bit_adamw("4-bit", "AdamW4bit", 0.5 + 4 / 128),
    "adamw-fp8": _low_bit_adamw("FP8", "AdamWFp8", 1 + 4 / 256),
}
"""By the names that settings have."""


class Optimizer(Part):
    """The optimizer. `momentum` is for SGD only. If `fused` is None, `step.recipe` decides."""

    group = Group.OPTIMIZATION
    name: Literal[*OPTIMIZERS] = setting(  # type: ignore[valid-type]
        "adamw",
        "Optimizer",
        "How gradients update the weights. Muon updates the 2D weights of hidden layers, and AdamW the rest. "
        "The 8-bit, 4-bit and FP8 variants are torchao's AdamW, with a smaller state.",
        words={name: kind.label for name, kind in OPTIMIZERS.items()},
        when=FormValues.takes_optimizer,
        flag=Flag("--optimizer", "NAME", f"One of {', '.join(OPTIMIZERS)}."),
    )
    learning_rate: Annotated[float, Field(gt=0, le=1_000)] = setting(
        1e-3,
        "Learning rate",
        "How far each step moves the weights.",
        when=FormValues.takes_optimizer,
        flag=Flag("--lr", "RATE"),
    )
    weight_decay: Annotated[float, Field(ge=0, le=1_000)] = setting(
        0.0, "Weight decay", "How strongly weights are pulled toward zero.", when=FormValues.takes_optimizer
    )
    momentum: Annotated[float, Field(ge=0, lt=1)] = setting(
        0.0,
        "Momentum",
        "The fraction of the last SGD step that is carried into the next.",
        when=lambda chosen: chosen.takes_optimizer() and chosen.has("optimizer.name", "sgd"),
    )
    fused: Annotated[bool | None, NoneFromText] = setting(
        None,
        "Fused optimizer",
        "Updates all weights in a few GPU kernels, without waiting for the loss scaler. Auto: as "
        "set in Optimizations.",
        when=FormValues.takes_optimizer,
        place=1,
    )
    stochastic_rounding: bool = setting(
        False,
        "Stochastic rounding",
        "Rounds pure BF16 weights up or down at random, more often to the nearer value. Small updates then "
        "count on average instead of being lost. Needs torchao's AdamW. Other precisions ignore it.",
        when=lambda chosen: chosen.takes_optimizer() and chosen.rounds_weights(),
        place=1,
    )

    @property
    def kind(self) -> OptimizerKind:
        """The optimizer's class and properties, by its name."""
        return OPTIMIZERS[self.name]

    @model_validator(mode="after")
    def _fits_its_rule(self) -> Self:
        if self.stochastic_rounding and not self.kind.rounds_stochastically:
            why = f"is on, but {self.name} does not support it. Only torchao's AdamW does."
            raise contradiction("stochastic_rounding", why, "Turn it off, or use adamw.", True)
        if self.momentum and not self.kind.has_momentum:
            why = f"is for sgd, not for {self.name}."
            raise contradiction("momentum", why, "Set it to 0.", self.momentum)
        return self


class Schedule(Part):
    """The learning rate schedule over the optimizer steps. Its peak is `optimizer.learning_rate`."""

    group = Group.SCHEDULE
    name: Literal["constant", "cosine", "one-cycle", "step"] = setting(
        "constant",
        "Learning rate schedule",
        "How the learning rate changes during the run. Learning rate is the peak. Cosine works like "
        "CosineAnnealingLR: it falls from the peak to the final learning rate at the last step.",
        words={"one-cycle": "One cycle", "step": "In steps"},
    )
    warmup_steps: CountOrZero = setting(
        0,
        "Learning rate warm-up",
        "Number of initial steps in which the learning rate rises, as in LinearLR. The first step has "
        "1/(warm-up + 1) of the peak, the step after the warm-up the full peak. 0: no warm-up.",
        unit="steps",
        when=lambda chosen: not chosen.has("schedule.name", "one-cycle"),
    )
    final_fraction: Annotated[float, Field(ge=0, le=1)] = setting(
        0.0,
        "Final learning rate",
        "Learning rate at the last step, as a fraction of the peak: 0.1 is a tenth.",
        unit="of peak",
        when=has("schedule.name", "cosine"),
    )
    rise_fraction: Annotated[float, Field(gt=0, lt=1)] = setting(
        0.3,
        "One-cycle rise",
        "Fraction of the run in which the learning rate rises to its peak. Then it falls.",
        unit="of run",
        when=has("schedule.name", "one-cycle"),
    )
    decay_epochs: SmallCount = setting(
        30,
        "Decay interval",
        "Number of epochs between two drops of the learning rate.",
        unit="epochs",
        when=has("schedule.name", "step"),
    )
    decay_factor: Annotated[float, Field(gt=0, le=1)] = setting(
        0.1,
        "Decay factor",
        "The learning rate is multiplied by this at each drop.",
        unit="×",
        when=has("schedule.name", "step"),
    )

    @model_validator(mode="after")
    def _one_cycle_has_its_own_rise(self) -> Self:
        if self.name == "one-cycle" and self.warmup_steps:
            why = f"is {self.warmup_steps:,}, but one-cycle warms up by itself."
            remedy = "Set it to 0. One-cycle rise sets the length of the rise."
            raise contradiction("warmup_steps", why, remedy, self.warmup_steps)
        return self


class Scaler(Part):
    """The loss scaler (`torch.amp.GradScaler`). Mode `auto` uses it for FP16 AMP and no other precision."""

    group = Group.SCALER
    mode: Literal["auto", "on", "off"] = setting(
        "auto",
        "Loss scaler",
        "Scales the loss so that small FP16 gradients do not underflow. Auto: for FP16 AMP only.",
    )
    init_scale: Annotated[float, Field(gt=0, le=2.0**127)] = setting(
        65_536.0, "Initial loss scale", "The loss scale at the start of the run.", when=FormValues.uses_scaler
    )
    growth_factor: Annotated[float, Field(gt=1, le=1_024)] = setting(
        2.0,
        "Scale growth factor",
        "The loss scale is multiplied by this after enough steps without overflow.",
        when=FormValues.uses_scaler,
    )
    backoff_factor: Annotated[float, Field(gt=0, lt=1)] = setting(
        0.5,
        "Scale backoff factor",
        "The loss scale is multiplied by this after an overflow.",
        when=FormValues.uses_scaler,
    )
    growth_interval: Count = setting(
        2_000,
        "Scale growth interval",
        "Number of steps in a row without overflow before the loss scale grows.",
        unit="steps",
        when=FormValues.uses_scaler,
    )
