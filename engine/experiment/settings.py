"""The tables of settings that make up an experiment, frozen and validated."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, Self, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from engine.experiment.problem import setting_error


def none_from_text(value: object) -> object:
    """None for "", "none" and "null", with which a command line empties a setting."""
    return None if isinstance(value, str) and value.strip().lower() in ("", "none", "null") else value


NoneFromText = BeforeValidator(none_from_text)
Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
SmallCount = Annotated[int, Field(ge=1, le=1_000_000)]


class Part(BaseModel):
    """Base of every table of settings: frozen; unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings", allow_inf_nan=False)


LEAST_BLOCKS = 5
"""Fewer whole blocks do not show how steady a speed is."""


class Measure(Part):
    """How speed is measured."""

    warmup_steps: int = Field(
        10,
        ge=0,
        le=1_000_000,
        title="Warm-up before measuring",
        json_schema_extra={"unit": "steps"},
        description="The first steps are trained but not counted in the speed.",
    )
    block_steps: SmallCount = Field(
        10,
        title="Measured block",
        json_schema_extra={"unit": "steps"},
        description="Speed is the median over blocks of this many steps.",
    )
    range_every: int = Field(
        0,
        ge=0,
        le=1_000_000_000,
        title="Range sampling interval",
        json_schema_extra={"unit": "steps"},
        description="Steps from one look at the ranges of activations, gradients and weights to the next. "
        "No speed counts their time; of the peaks, only a whole run's may count their memory. 0: never.",
    )


class Optimizer(Part):
    """The optimizer and its settings; `momentum` is for SGD only; with `fused` None the recipe decides."""

    name: Literal["adamw", "adam", "sgd"] = Field(
        "adamw", title="Optimizer", description="The rule by which gradients change the weights."
    )
    learning_rate: float = Field(
        1e-3, gt=0, le=1_000, title="Learning rate", description="How far each step moves the weights."
    )
    weight_decay: float = Field(
        0.0, ge=0, le=1_000, title="Weight decay", description="How strongly weights are pulled towards zero."
    )
    momentum: float = Field(
        0.0, ge=0, lt=1, title="Momentum", description="How much of the last step SGD carries into the next."
    )
    fused: Annotated[bool | None, NoneFromText] = Field(
        None,
        title="Fused optimizer",
        description="One GPU program updates all weights at once, and the loss scaler need not wait. "
        "Auto: as the speed recipe says.",
    )

    @model_validator(mode="after")
    def _momentum_is_for_sgd(self) -> Self:
        if self.momentum and self.name != "sgd":
            raise setting_error(
                "momentum", f"is for sgd; {self.name} has its own.", "Set it to 0.", self.momentum
            )
        return self


class Schedule(Part):
    """How the learning rate changes over the optimizer steps; `optimizer.learning_rate` is its peak.

    `cosine` falls to `final_fraction` of the peak; `one-cycle` rises over `rise_fraction` of the steps first
    (it warms up by itself); `step` multiplies by `decay_factor` after each `decay_epochs` epochs.
    """

    name: Literal["constant", "cosine", "one-cycle", "step"] = Field(
        "constant",
        title="Learning rate schedule",
        description="How the learning rate changes; the setting Learning rate is its peak. Cosine, as "
        "CosineAnnealingLR: from the peak after the warm-up to the final learning rate in the last step.",
    )
    warmup_steps: int = Field(
        0,
        ge=0,
        le=1_000_000_000,
        title="Learning rate warm-up",
        json_schema_extra={"unit": "steps"},
        description="Steps at the start in which the learning rate rises, as by LinearLR: the first has "
        "1/(warm-up + 1) of the peak, the step after the warm-up the peak. 0: no warm-up.",
    )
    final_fraction: float = Field(
        0.0,
        ge=0,
        le=1,
        title="Final learning rate",
        json_schema_extra={"unit": "of peak"},
        description="Learning rate at the last step, as a fraction of the peak: 0.1 is a tenth.",
    )
    rise_fraction: float = Field(
        0.3,
        gt=0,
        lt=1,
        title="One-cycle rise",
        json_schema_extra={"unit": "of run"},
        description="Fraction of the run in which the learning rate rises to its peak; then it falls.",
    )
    decay_epochs: SmallCount = Field(
        30,
        title="Decay interval",
        json_schema_extra={"unit": "epochs"},
        description="The learning rate falls whenever this many epochs have passed.",
    )
    decay_factor: float = Field(
        0.1,
        gt=0,
        le=1,
        title="Decay factor",
        json_schema_extra={"unit": "×"},
        description="What the learning rate is multiplied by when it falls.",
    )

    @model_validator(mode="after")
    def _one_cycle_has_its_own_rise(self) -> Self:
        if self.name == "one-cycle" and self.warmup_steps:
            raise setting_error(
                "warmup_steps",
                f"is {self.warmup_steps:,}, but one-cycle warms up by itself.",
                f"Set it to 0. {Schedule.model_fields['rise_fraction'].title} sets for how long.",
                self.warmup_steps,
            )
        return self


class Scaler(Part):
    """`torch.amp.GradScaler`. Mode `auto` uses one for fp16 and none otherwise."""

    mode: Literal["auto", "on", "off"] = Field(
        "auto",
        title="Loss scaler",
        description="Scales the loss up so that small FP16 gradients do not vanish. Auto: for FP16 AMP only.",
    )
    init_scale: float = Field(
        65_536.0, gt=0, le=2.0**127, title="Initial loss scale", description="The scale at the run's start."
    )
    growth_factor: float = Field(
        2.0,
        gt=1,
        le=1_024,
        title="Scale growth factor",
        description="Multiplies the scale after enough clean steps.",
    )
    backoff_factor: float = Field(
        0.5, gt=0, lt=1, title="Scale backoff factor", description="Multiplies the scale after an overflow."
    )
    growth_interval: Count = Field(
        2_000,
        title="Scale growth interval",
        json_schema_extra={"unit": "steps"},
        description="How many clean steps in a row it takes for the scale to grow.",
    )


RecipePart = Literal["channels_last", "fused", "compile", "capture"]
RECIPE_PARTS: tuple[RecipePart, ...] = get_args(RecipePart)
PLAIN, FAST = "plain", "fast"


def joined(names: Iterable[str]) -> str:
    """The name of the recipe with these parts: "plain" for none, "fast" for all."""
    wanted = set(names)
    if wanted >= set(RECIPE_PARTS):
        return FAST
    return "+".join(part for part in RECIPE_PARTS if part in wanted) or PLAIN


def _recipe_name(value: object) -> object:
    """Takes "plain", "fast", or parts as a list or joined by "+" or ","; gives the recipe's name."""
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


def _at_commas(value: object) -> object:
    if isinstance(value, str):
        return tuple(name.strip() for name in value.split(",") if name.strip())
    return value


UNCAPTURED_STEPS = 3
"""A capture needs the optimizer's state and tuned kernels, which as many steps before it leave."""


class Step(Part):
    """How one optimizer step is made. Precisions without autocast ignore `autocast_tf32`."""

    recipe: Annotated[str, BeforeValidator(_recipe_name)] = Field(
        PLAIN,
        title="Speed recipe",
        description="How a step is made. Plain: the loop as every guide writes it. Fast: everything "
        "PyTorch offers to speed it up. Parts: some of that.",
    )
    gradient_accumulation: SmallCount = Field(
        1,
        title="Gradient accumulation",
        json_schema_extra={"unit": "batches"},
        description="Each step adds up the gradients of this many batches: a large batch in the "
        "memory of a small one.",
    )
    clip_norm: Annotated[float | None, Field(gt=0), NoneFromText] = Field(
        None,
        title="Clip gradient norm",
        description="Gradients longer than this are shortened to it, after unscaling. Empty: no clipping.",
    )
    fp32_modules: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], BeforeValidator(_at_commas)] = (
        Field(
            (),
            title="Modules kept in FP32",
            description="Parts of the model that AMP leaves in FP32, as names or patterns with commas "
            "between them: fc, layer4.*. Empty: what PyTorch chooses.",
        )
    )
    activation_checkpointing: bool = Field(
        False,
        title="Activation checkpointing",
        description="Recomputes activations instead of keeping them: less memory, slower steps.",
    )
    autocast_tf32: bool = Field(
        False,
        title="TF32 within AMP",
        description="Lets what AMP leaves in FP32 use the faster, coarser TF32 of newer NVIDIA cards.",
    )

    @property
    def parts(self) -> tuple[RecipePart, ...]:
        """The parts of the fast recipe that were asked for, in their usual order."""
        if self.recipe == FAST:
            return RECIPE_PARTS
        return tuple(part for part in RECIPE_PARTS if part in self.recipe.split("+"))

    @property
    def least_warmup_steps(self) -> int:
        """The first steps within which the recipe captures, or else compiles; 0 for other recipes."""
        # each step before the capture may be followed by an epoch's smaller last one, which counts for none
        return 2 * UNCAPTURED_STEPS + 1 if "capture" in self.parts else int("compile" in self.parts)


class Data(Part):
    """How samples reach the device; the loader's settings matter only if the dataset is not kept there."""

    on_device: Annotated[bool | None, NoneFromText] = Field(
        None,
        title="Dataset on device",
        description="Keeps the whole dataset in the device's memory, so that no step waits for it. Auto: if "
        "it is small.",
    )
    inputs: Annotated[str, Field(max_length=4_096)] = Field(
        "",
        title="Input array",
        description="The array or column of your file that the model sees. Empty: the usual names, such as "
        "x, inputs or images, decide.",
    )
    targets: Annotated[str, Field(max_length=4_096)] = Field(
        "",
        title="Target array",
        description="The array or column of your file that the model learns. Empty: the usual names, such as "
        "y, targets or labels, decide.",
    )
    workers: int = Field(
        0,
        ge=0,
        le=256,
        title="Loader workers",
        description="How many extra processes load samples. 0: the training process loads them.",
    )
    prefetch: int = Field(
        2,
        ge=1,
        le=64,
        title="Prefetch",
        json_schema_extra={"unit": "batches"},
        description="How many batches are prepared ahead of time.",
    )
    pin_memory: bool = Field(
        True, title="Pinned memory", description="Holds batches where a GPU can fetch them while it computes."
    )
    persistent_workers: bool = Field(
        True,
        title="Persistent workers",
        description="Loader processes stay from one epoch to the next instead of starting again.",
    )
    augment: bool = Field(
        False,
        title="Augmentation",
        description="Shifts and flips training pictures at random, so that the model learns none by heart.",
    )
    skip_broken: bool = Field(
        False,
        title="Skip broken pictures",
        description="Trains on the next picture instead of one that cannot be read, which the log names. "
        "Off: the pictures are opened before the run, and a broken one stops it.",
    )


class Validation(Part):
    """When to validate, and on how many samples."""

    every: int = Field(
        1,
        ge=0,
        le=1_000_000,
        title="Validation interval",
        json_schema_extra={"unit": "epochs"},
        description="Epochs from one validation to the next. 0: never.",
    )
    limit: Annotated[int | None, Field(ge=1), NoneFromText] = Field(
        None,
        title="Validation samples",
        json_schema_extra={"unit": "samples"},
        description="The most samples that a validation uses. Empty: all of them.",
    )


class Checkpoint(Part):
    """Which states of a run are saved: that of the `best` validation accuracy, the `last`, and with
    `rewind_every` that from before its loss became NaN."""

    best: bool = Field(
        False,
        title="Save best checkpoint",
        description="Saves the model's state whenever a validation is the best so far.",
    )
    last: bool = Field(
        False,
        title="Save last checkpoint",
        description="Saves the state during the run, so that a stopped run can be resumed.",
    )
    every: SmallCount = Field(
        1,
        title="Checkpoint interval",
        json_schema_extra={"unit": "epochs"},
        description="Epochs between two saves of the last checkpoint; stopping the run saves it once more.",
    )
    rewind_every: int = Field(
        0,
        ge=0,
        le=1_000_000,
        title="Keep state for Find it",
        json_schema_extra={"unit": "steps"},
        description="Steps between two copies of the state in memory. The newest is saved when the loss is "
        "not finite or step after step is skipped: Find it in Numerics begins there. 0: none.",
    )
