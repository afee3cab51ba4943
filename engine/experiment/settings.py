"""The parts of an experiment: number formats, and the tables of settings. Frozen and validated."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Literal, Self, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from engine.experiment.problem import setting_error


class Precision(StrEnum):
    """The number formats a run can train in.

    `FP32` is strict: TF32 is off everywhere. `DEFAULT` leaves PyTorch's own flags alone, which is float32
    with convolutions in TF32 where the device has it. `FP16_UNSCALED` is autocast without a loss scaler.
    """

    FP32 = "fp32"
    TF32 = "tf32"
    DEFAULT = "default"
    FP16 = "fp16"
    BF16 = "bf16"
    FP16_UNSCALED = "fp16-unscaled"

    @property
    def label(self) -> str:
        """The name on screen, such as "FP16 AMP"."""
        return _LABELS[self]

    @property
    def is_autocast(self) -> bool:
        return self in (Precision.FP16, Precision.BF16, Precision.FP16_UNSCALED)


_LABELS = {
    Precision.FP32: "FP32",
    Precision.TF32: "TF32",
    Precision.DEFAULT: "Default FP32",
    Precision.FP16: "FP16 AMP",
    Precision.BF16: "BF16 AMP",
    Precision.FP16_UNSCALED: "FP16 unscaled",
}


def none_from_text(value: object) -> object:
    """Lets a command line say that a setting is to be empty."""
    return None if isinstance(value, str) and value.strip().lower() in ("", "none", "null") else value


NoneFromText = BeforeValidator(none_from_text)
Count = Annotated[int, Field(ge=1, le=1_000_000_000)]


class Part(BaseModel):
    """What every table of settings is: frozen, and closed to keys it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings", allow_inf_nan=False)


LEAST_BLOCKS = 5
"""Fewer whole blocks than this say nothing of how steady a speed is."""


class Measure(Part):
    """How speed is measured: `warmup_steps` are trained but not counted; blocks of `block_steps` are."""

    warmup_steps: int = Field(10, ge=0, le=1_000_000)
    block_steps: int = Field(10, ge=1, le=1_000_000)

    @property
    def least_steps(self) -> int:
        """How long a run must be for a speed: the warm-up and `LEAST_BLOCKS` whole blocks."""
        return self.warmup_steps + LEAST_BLOCKS * self.block_steps


class Optimizer(Part):
    """The optimizer and its settings; `momentum` belongs to SGD alone.

    `fused` of None leaves the choice between the fused form and PyTorch's default one to the recipe.
    """

    name: Literal["adamw", "adam", "sgd"] = "adamw"
    learning_rate: float = Field(1e-3, gt=0, le=1_000)
    weight_decay: float = Field(0.0, ge=0, le=1_000)
    momentum: float = Field(0.0, ge=0, lt=1)
    fused: Annotated[bool | None, NoneFromText] = None

    @model_validator(mode="after")
    def _momentum_is_for_sgd(self) -> Self:
        if self.momentum and self.name != "sgd":
            raise setting_error(
                "momentum",
                f"momentum is for sgd; {self.name} has its own.",
                "Set momentum to 0.",
                self.momentum,
            )
        return self


class Schedule(Part):
    """How the learning rate goes over the run's optimizer steps; `optimizer.learning_rate` is its peak.

    The first `warmup_steps` rise in a straight line. `cosine` then falls to `final_fraction` of the peak at
    the run's last step; `one-cycle` rises over `rise_fraction` of the steps first (it warms up by itself);
    `step` multiplies by `decay_factor` after each `decay_epochs` epochs.
    """

    name: Literal["constant", "cosine", "one-cycle", "step"] = "constant"
    warmup_steps: int = Field(0, ge=0, le=1_000_000_000)
    final_fraction: float = Field(0.0, ge=0, le=1)
    rise_fraction: float = Field(0.3, gt=0, lt=1)
    decay_epochs: int = Field(30, ge=1, le=1_000_000)
    decay_factor: float = Field(0.1, gt=0, le=1)

    @model_validator(mode="after")
    def _one_cycle_has_its_own_rise(self) -> Self:
        if self.name == "one-cycle" and self.warmup_steps:
            raise setting_error(
                "warmup_steps",
                f"warmup_steps is {self.warmup_steps:,}, but one-cycle warms up by itself.",
                "Set warmup_steps to 0, and the rise with rise_fraction.",
                self.warmup_steps,
            )
        return self


class Scaler(Part):
    """`torch.amp.GradScaler`. Mode `auto` uses one for fp16 and none otherwise."""

    mode: Literal["auto", "on", "off"] = "auto"
    init_scale: float = Field(65_536.0, gt=0, le=2.0**127)
    growth_factor: float = Field(2.0, gt=1, le=1_024)
    backoff_factor: float = Field(0.5, gt=0, lt=1)
    growth_interval: int = Field(2_000, ge=1, le=1_000_000_000)


RecipePart = Literal["channels_last", "fused", "compile", "capture"]
RECIPE_PARTS: tuple[RecipePart, ...] = get_args(RecipePart)
PLAIN, FAST = "plain", "fast"


def joined(names: Iterable[str]) -> str:
    """The parts of a recipe as its name: "plain" for none of them, "fast" for all."""
    wanted = set(names)
    if wanted >= set(RECIPE_PARTS):
        return FAST
    return "+".join(part for part in RECIPE_PARTS if part in wanted) or PLAIN


def _recipe(value: object) -> object:
    """`plain`, `fast`, or some of its parts joined by "+" in their usual order; a list of parts will do."""
    if isinstance(value, str):
        names = [name.strip() for name in value.lower().replace("+", ",").split(",") if name.strip()]
    elif isinstance(value, list | tuple) and all(isinstance(name, str) for name in value):
        names = [name.strip().lower() for name in value]
    else:
        return value
    names = [name.replace("-", "_") for name in names]
    if names in ([PLAIN], [FAST]):
        return names[0]
    unknown = next((name for name in names if name not in RECIPE_PARTS), None)
    if unknown is not None:
        allowed = f"plain, fast, or some of {', '.join(RECIPE_PARTS)}"
        raise PydanticCustomError("one_of", "it must be {allowed}", {"allowed": allowed})
    return joined(names)


def _patterns(value: object) -> object:
    """Names apart by commas, as a command line has them."""
    if isinstance(value, str):
        return tuple(name.strip() for name in value.split(",") if name.strip())
    return value


class Step(Part):
    """How one optimizer step is made.

    It trains on `gradient_accumulation` batches; the gradient norm is clipped at `clip_norm`, after
    unscaling. `fp32_modules` are names of submodules, or patterns such as `layer4.*`, that run with autocast
    off. `autocast_tf32` lets what an autocast run leaves in float32 use TF32; other precisions ignore it.
    """

    recipe: Annotated[str, BeforeValidator(_recipe)] = PLAIN
    gradient_accumulation: int = Field(1, ge=1, le=1_000_000)
    clip_norm: Annotated[float | None, Field(gt=0), NoneFromText] = None
    fp32_modules: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], BeforeValidator(_patterns)] = ()
    activation_checkpointing: bool = False
    autocast_tf32: bool = False

    @property
    def parts(self) -> tuple[RecipePart, ...]:
        """The parts of the fast recipe that were asked for, in their usual order."""
        if self.recipe == FAST:
            return RECIPE_PARTS
        return tuple(part for part in RECIPE_PARTS if part in self.recipe.split("+"))


class Data(Part):
    """How samples reach the device.

    `on_device` keeps the whole dataset there (None: where it is small); otherwise `workers` processes load
    it (0: the training process itself), `prefetch` batches ahead. `augment` shifts and flips the training
    pictures at random. `skip_broken` trains on the next picture of a folder in place of one that cannot be
    read, and names it; without it the pictures are opened before the run, which a broken one refuses.
    """

    on_device: Annotated[bool | None, NoneFromText] = None
    workers: int = Field(0, ge=0, le=256)
    prefetch: int = Field(2, ge=1, le=64)
    pin_memory: bool = True
    persistent_workers: bool = True
    augment: bool = False
    skip_broken: bool = False


class Validation(Part):
    """When to validate: after each `every` epochs (0 is never), on at most `limit` samples (None is all)."""

    every: int = Field(1, ge=0, le=1_000_000)
    limit: Annotated[int | None, Field(ge=1), NoneFromText] = None


class Checkpoint(Part):
    """What is saved of a run: the state of the `best` validation accuracy, and the `last` one.

    `last` is saved after each `every` epochs and when the run is stopped; a run goes on from it.
    """

    best: bool = False
    last: bool = False
    every: int = Field(1, ge=1, le=1_000_000)
