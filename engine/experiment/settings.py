"""The tables of settings that make up an experiment, frozen and validated."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, ClassVar, Literal, Self, get_args

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from engine.experiment.bounded import Bounded
from engine.experiment.catalog import ARRAYS, IMAGE_FOLDER
from engine.experiment.problem import contradiction
from engine.experiment.setting import Chosen, Flag, Group, has, setting


def none_from_text(value: object) -> object:
    """None for "", "none" and "null", with which a command line empties a setting."""
    return None if isinstance(value, str) and value.strip().lower() in ("", "none", "null") else value


NoneFromText = BeforeValidator(none_from_text)
Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
CountOrZero = Annotated[int, Field(ge=0, le=1_000_000_000)]
SmallCount = Annotated[int, Field(ge=1, le=1_000_000)]
SmallCountOrZero = Annotated[int, Field(ge=0, le=1_000_000)]


class Part(Bounded, frozen=True, extra="forbid", ser_json_inf_nan="strings", allow_inf_nan=False):
    """Base of every table of settings: frozen; unknown keys are refused."""

    # of the settings that name none
    group: ClassVar[Group | None] = None


MOST_DEVICES = 64
LEAST_BLOCKS = 5  # fewer do not show how steady a speed is


class Measure(Part):
    """The measurement of speed."""

    group = Group.MACHINE
    warmup_steps: SmallCountOrZero = setting(
        10,
        "Warm-up before measuring",
        "The first steps are trained but not counted in the speed.",
        unit="steps",
    )
    block_steps: SmallCount = setting(
        10, "Measured block", "Speed is the median over blocks of this many steps.", unit="steps"
    )
    range_every: CountOrZero = setting(
        0,
        "Range sampling interval",
        "Steps from one sample of the ranges of activations, gradients and weights to the next. Its time "
        "counts in no speed; its memory only in the peak of a whole run. 0: never.",
        unit="steps",
    )


class Ranks(Part):
    """What several devices that train a run together share, and how."""

    group = Group.MACHINE
    strategy: Literal["ddp", "fsdp"] = setting(
        "ddp",
        "Strategy",
        "DDP keeps the whole model on every device. FSDP2 keeps a part of the weights, gradients and "
        "optimizer state on each, which takes less memory and more communication. In place of autocast it "
        "casts whole blocks to the precision, with their norms and softmax.",
        words={"ddp": "DDP", "fsdp": "FSDP2"},
        when=Chosen.has_several_devices,
    )
    reduction: Literal["fp32", "bf16", "fp16"] = setting(
        "fp32",
        "Gradient reduction",
        "The format in which devices send each other their gradients: FP32 sends them as they are, BF16 "
        "and FP16 send half as much.",
        words={"fp32": "FP32", "bf16": "BF16", "fp16": "FP16"},
        when=Chosen.has_several_devices,
    )
    bucket_mib: Annotated[float, Field(gt=0, le=100_000)] = setting(
        25.0,
        "Gradient bucket",
        "Gradients are sent in buckets of this size, while the backward pass goes on.",
        unit="MiB",
        when=Chosen.uses_ddp,
    )
    static_graph: bool = setting(
        False,
        "Static graph",
        "Tells PyTorch's DistributedDataParallel that every step uses the same parts of the model.",
        when=Chosen.uses_ddp,
    )
    find_unused_parameters: bool = setting(
        False,
        "Find unused parameters",
        "Lets PyTorch's DistributedDataParallel search each step for parameters that get no gradient. Needed "
        "where a step leaves parts of the model unused, and a little slower.",
        when=Chosen.uses_ddp,
    )


class Optimizer(Part):
    """The optimizer and its settings; `momentum` is for SGD only; with `fused` None the recipe decides."""

    group = Group.OPTIMIZATION
    name: Literal["adamw", "adam", "sgd", "adamw-8bit", "adamw-4bit", "adamw-fp8"] = setting(
        "adamw",
        "Optimizer",
        "The rule by which gradients change the weights. AdamW in 8 bits, 4 bits and FP8 are torchao's: the "
        "same rule, its state in so many bits.",
        words={
            "adamw": "AdamW",
            "sgd": "SGD",
            "adamw-8bit": "AdamW, 8 bits",
            "adamw-4bit": "AdamW, 4 bits",
            "adamw-fp8": "AdamW, FP8",
        },
        when=Chosen.takes_optimizer,
        flag=Flag("--optimizer", "NAME", "One of adamw, adam, sgd, adamw-8bit, adamw-4bit, adamw-fp8."),
    )
    learning_rate: Annotated[float, Field(gt=0, le=1_000)] = setting(
        1e-3,
        "Learning rate",
        "How far each step moves the weights.",
        when=Chosen.takes_optimizer,
        flag=Flag("--lr", "RATE"),
    )
    weight_decay: Annotated[float, Field(ge=0, le=1_000)] = setting(
        0.0, "Weight decay", "How strongly weights are pulled towards zero.", when=Chosen.takes_optimizer
    )
    momentum: Annotated[float, Field(ge=0, lt=1)] = setting(
        0.0,
        "Momentum",
        "How much of the last step SGD carries into the next.",
        when=lambda chosen: chosen.takes_optimizer() and chosen.has("optimizer.name", "sgd"),
    )
    fused: Annotated[bool | None, NoneFromText] = setting(
        None,
        "Fused optimizer",
        "One GPU kernel updates all weights at once, without waiting for the loss scaler. Auto: the speed "
        "recipe decides.",
        when=Chosen.takes_optimizer,
        place=1,
    )
    stochastic_rounding: bool = setting(
        False,
        "Stochastic rounding",
        "Rounds a pure BF16 weight up or down at random, more often to the nearer, so that small updates "
        "count on average instead of being lost. torchao's AdamW does it; other precisions ignore it.",
        when=lambda chosen: chosen.takes_optimizer() and chosen.rounds_weights(),
        place=1,
    )

    @property
    def is_adam(self) -> bool:
        """True for Adam and all forms of AdamW, which keep two numbers for each weight."""
        return self.name != "sgd"

    @property
    def has_few_bits(self) -> bool:
        """True for the forms of AdamW that keep these in fewer than 16 bits."""
        return self.name in ("adamw-8bit", "adamw-4bit", "adamw-fp8")

    @model_validator(mode="after")
    def _fits_its_rule(self) -> Self:
        if self.stochastic_rounding and not self.name.startswith("adamw"):
            why = f"is on, but {self.name} has none: only torchao's AdamW has."
            raise contradiction("stochastic_rounding", why, "Switch it off, or choose adamw.", True)
        if self.momentum and self.name != "sgd":
            raise contradiction(
                "momentum", f"is for sgd; {self.name} has its own.", "Set it to 0.", self.momentum
            )
        return self


class Schedule(Part):
    """The learning rate over the optimizer steps; `optimizer.learning_rate` is its peak."""

    group = Group.SCHEDULE
    name: Literal["constant", "cosine", "one-cycle", "step"] = setting(
        "constant",
        "Learning rate schedule",
        "How the learning rate changes; Learning rate is its peak. Cosine, as CosineAnnealingLR: from the "
        "peak after the warm-up to the final learning rate at the last step.",
        words={"one-cycle": "One cycle", "step": "In steps"},
    )
    warmup_steps: CountOrZero = setting(
        0,
        "Learning rate warm-up",
        "Steps at the start in which the learning rate rises, as by LinearLR: the first has "
        "1/(warm-up + 1) of the peak, the step after the warm-up the peak. 0: no warm-up.",
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
        "Fraction of the run in which the learning rate rises to its peak; then it falls.",
        unit="of run",
        when=has("schedule.name", "one-cycle"),
    )
    decay_epochs: SmallCount = setting(
        30,
        "Decay interval",
        "Epochs after which the learning rate falls, again and again.",
        unit="epochs",
        when=has("schedule.name", "step"),
    )
    decay_factor: Annotated[float, Field(gt=0, le=1)] = setting(
        0.1,
        "Decay factor",
        "Multiplies the learning rate whenever it falls.",
        unit="×",
        when=has("schedule.name", "step"),
    )

    @model_validator(mode="after")
    def _one_cycle_has_its_own_rise(self) -> Self:
        if self.name == "one-cycle" and self.warmup_steps:
            why = f"is {self.warmup_steps:,}, but one-cycle warms up by itself."
            remedy = "Set it to 0. One-cycle rise sets for how long."
            raise contradiction("warmup_steps", why, remedy, self.warmup_steps)
        return self


class Scaler(Part):
    """`torch.amp.GradScaler`. Mode `auto` uses one for fp16 and none otherwise."""

    group = Group.SCALER
    mode: Literal["auto", "on", "off"] = setting(
        "auto",
        "Loss scaler",
        "Scales the loss up so that small FP16 gradients do not vanish. Auto: for FP16 AMP only.",
    )
    init_scale: Annotated[float, Field(gt=0, le=2.0**127)] = setting(
        65_536.0, "Initial loss scale", "The scale at the run's start.", when=Chosen.uses_scaler
    )
    growth_factor: Annotated[float, Field(gt=1, le=1_024)] = setting(
        2.0, "Scale growth factor", "Multiplies the scale after enough clean steps.", when=Chosen.uses_scaler
    )
    backoff_factor: Annotated[float, Field(gt=0, lt=1)] = setting(
        0.5, "Scale backoff factor", "Multiplies the scale after an overflow.", when=Chosen.uses_scaler
    )
    growth_interval: Count = setting(
        2_000,
        "Scale growth interval",
        "Clean steps in a row before the scale grows.",
        unit="steps",
        when=Chosen.uses_scaler,
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
    # parts may come as a list, or joined by "+" or ","
    given = _at_commas(value.replace("+", ",")) if isinstance(value, str) else value
    if not isinstance(given, list | tuple) or not all(isinstance(name, str) for name in given):
        return value
    names = [name.strip().lower().replace("-", "_") for name in given]
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


UNCAPTURED_STEPS = 3  # before a capture: they leave the optimizer's state and tuned kernels, which it needs


class Step(Part):
    """The optimizer step. Precisions without autocast ignore `autocast_tf32`."""

    recipe: Annotated[str, BeforeValidator(_recipe_name)] = setting(
        PLAIN,
        "Speed recipe",
        "Plain: the standard loop. Fast: every PyTorch optimization. Parts: choose some.",
        flag=Flag("--recipe", "NAME", "One of plain, fast, or parts: channels_last+fused+compile+capture."),
        is_picked=True,
    )
    gradient_accumulation: SmallCount = setting(
        1,
        "Gradient accumulation",
        "Each step adds up the gradients of this many batches: a large batch in the memory of a small one.",
        unit="batches",
        group=Group.OPTIMIZATION,
        when=lambda chosen: "step" not in chosen.defines,
    )
    clip_norm: Annotated[float | None, Field(gt=0), NoneFromText] = setting(
        None,
        "Clip gradient norm",
        "Longer gradients are shortened to this norm, after unscaling. Empty: no clipping.",
        group=Group.OPTIMIZATION,
        hint="no clipping",
    )
    fp32_modules: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], BeforeValidator(_at_commas)] = (
        setting(
            (),
            "Modules kept in FP32",
            "Modules that AMP leaves in FP32, as names or patterns with commas between them: fc, layer4.*. "
            "Empty: PyTorch decides.",
            group=Group.FORMATS,
            hint="names or patterns, such as layer4.*",
            when=Chosen.uses_autocast,
        )
    )
    fp8_recipe: Literal["tensorwise", "rowwise", "rowwise_with_gw_hp"] = setting(
        "tensorwise",
        "FP8 scaling",
        "How numbers are scaled into FP8's range. Tensorwise: one scale for a tensor, the fastest. Rowwise: "
        "one for each row, more exact; most exact with the gradients of weights in BF16.",
        words={"rowwise_with_gw_hp": "Rowwise, weight gradients in BF16"},
        group=Group.FORMATS,
        when=Chosen.uses_fp8,
    )
    fp8_small_layers: Annotated[bool | None, NoneFromText] = setting(
        None,
        "FP8 in small layers",
        "Converts linear layers too small to gain time, too. Auto: only where FP8 is emulated, which tells "
        "no speed.",
        group=Group.FORMATS,
        when=Chosen.uses_fp8,
    )
    activation_checkpointing: bool = setting(
        False,
        "Activation checkpointing",
        "Recomputes activations instead of keeping them: less memory, slower steps.",
        group=Group.FORMATS,
    )
    autocast_tf32: bool = setting(
        False,
        "TF32 within AMP",
        "Lets what AMP leaves in FP32 use the faster, coarser TF32 of newer NVIDIA cards.",
        group=Group.FORMATS,
        when=Chosen.uses_autocast,
    )

    @property
    def parts(self) -> tuple[RecipePart, ...]:
        """The requested parts of the fast recipe, in their usual order."""
        if self.recipe == FAST:
            return RECIPE_PARTS
        return tuple(part for part in RECIPE_PARTS if part in self.recipe.split("+"))

    @property
    def least_warmup_steps(self) -> int:
        """Steps until the recipe has captured, or else compiled; 0 for other recipes."""
        # each step before the capture may be followed by an epoch's smaller last one, which counts for none
        return 2 * UNCAPTURED_STEPS + 1 if "capture" in self.parts else int("compile" in self.parts)


class Data(Part):
    """Loading of samples; the loader's settings matter only if the dataset is not kept on the device."""

    group = Group.DATA
    on_device: Annotated[bool | None, NoneFromText] = setting(
        None,
        "Dataset on device",
        "Keeps the whole dataset in the device's memory, so that no step waits for it. Auto: if it is small.",
        when=Chosen.loads,
    )
    inputs: Annotated[str, Field(max_length=4_096)] = setting(
        "",
        "Input array",
        "The array or column of your file that the model sees. Empty: one with a usual name, such as x, "
        "inputs or images.",
        hint="by its usual names",
        when=has("dataset", ARRAYS),
        place=-1,
    )
    targets: Annotated[str, Field(max_length=4_096)] = setting(
        "",
        "Target array",
        "The array or column of your file that the model learns. Empty: one with a usual name, such as y, "
        "targets or labels.",
        hint="by its usual names",
        when=has("dataset", ARRAYS),
        place=-1,
    )
    workers: Annotated[int, Field(ge=0, le=256)] = setting(
        0,
        "Loader workers",
        "Extra processes that load samples. 0: the training process loads them.",
        when=Chosen.uses_loader,
    )
    prefetch: Annotated[int, Field(ge=1, le=64)] = setting(
        2, "Prefetch", "Batches prepared ahead of time.", unit="batches", when=Chosen.uses_loader
    )
    pin_memory: bool = setting(
        True,
        "Pinned memory",
        "Holds batches where a GPU can fetch them while it computes.",
        when=lambda chosen: chosen.uses_loader() and not chosen.is_on_cpu,
    )
    persistent_workers: bool = setting(
        True,
        "Persistent workers",
        "Loader processes stay from one epoch to the next instead of starting again.",
        when=lambda chosen: chosen.uses_loader() and not chosen.has("data.workers", "0"),
    )
    augment: bool = setting(
        False,
        "Augmentation",
        "Shifts and flips training pictures at random, so that the model learns none by heart.",
        when=Chosen.loads,
    )
    skip_broken: bool = setting(
        False,
        "Skip broken pictures",
        "Replaces a picture that cannot be read by the next one, and names it in the log. Off: the "
        "pictures are opened before the run, and a broken one stops it.",
        when=has("dataset", IMAGE_FOLDER),
    )


class Validation(Part):
    """The interval of validations, and their samples."""

    group = Group.SAVING
    every: SmallCountOrZero = setting(
        1, "Validation interval", "Epochs from one validation to the next. 0: never.", unit="epochs"
    )
    limit: Annotated[int | None, Field(ge=1), NoneFromText] = setting(
        None,
        "Validation samples",
        "The most samples that a validation uses. Empty: all of them.",
        unit="samples",
        hint="all",
    )


class Checkpoint(Part):
    """The states of a run to save."""

    group = Group.SAVING
    best: bool = setting(
        False,
        "Save best checkpoint",
        "Saves the model's state whenever a validation is the best so far.",
        when=Chosen.is_validated,
    )
    last: bool = setting(
        False, "Save last checkpoint", "Saves the state during the run, so that a stopped run can be resumed."
    )
    every: SmallCount = setting(
        1,
        "Checkpoint interval",
        "Epochs between two saves of the last checkpoint; stopping the run saves it once more.",
        unit="epochs",
        when=has("checkpoint.last", "true"),
    )
    rewind_every: SmallCountOrZero = setting(
        0,
        "Keep state for Find it",
        "Steps between two copies of the state in memory. The newest is saved when the loss is not finite "
        "or step after step is skipped: Find it in Numerics begins there. 0: none.",
        unit="steps",
    )
