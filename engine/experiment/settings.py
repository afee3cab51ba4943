"""The tables of settings that make up an experiment, frozen and validated."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Annotated, ClassVar, Literal, Self, get_args

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from engine.experiment.catalog import ARRAYS, IMAGE_FOLDER
from engine.experiment.problem import contradiction
from engine.experiment.setting import Flag, FormValues, Group, has, setting
from engine.experiment.value import Bounded, dropping


def none_from_text(value: object) -> object:
    """Return None for "", "none" and "null", which clear a setting. Return other values unchanged."""
    return None if isinstance(value, str) and value.strip().lower() in ("", "none", "null") else value


NoneFromText = BeforeValidator(none_from_text)
Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
CountOrZero = Annotated[int, Field(ge=0, le=1_000_000_000)]
SmallCount = Annotated[int, Field(ge=1, le=1_000_000)]
SmallCountOrZero = Annotated[int, Field(ge=0, le=1_000_000)]


class Part(Bounded, frozen=True, extra="forbid", ser_json_inf_nan="strings", allow_inf_nan=False):
    """Base class of the groups of settings. Instances are immutable, and unknown keys are errors."""

    # of the settings that name none
    group: ClassVar[Group | None] = None


MOST_DEVICES = 64
LEAST_BLOCKS = 5  # fewer do not show how steady a speed is


class Measure(Part):
    """The settings of the throughput measurement: steps of warm-up, and steps in a measured block."""

    group = Group.MACHINE
    warmup_steps: SmallCountOrZero = setting(
        10,
        "Warm-up before measuring",
        "Number of initial steps that are excluded from the measured throughput.",
        unit="steps",
    )
    block_steps: SmallCount = setting(
        10, "Measured block", "Throughput is the median over blocks of this many steps.", unit="steps"
    )

    _drop_removed = dropping("range_every")


class Ranks(Part):
    """The settings of multi-device training: the strategy (DDP or FSDP2), and how gradients are reduced."""

    group = Group.MACHINE
    strategy: Literal["ddp", "fsdp"] = setting(
        "ddp",
        "Strategy",
        "DDP keeps the full model on every device. FSDP2 shards weights, gradients and optimizer "
        "state, which takes less memory and more communication. FSDP2 does not use autocast: it "
        "casts whole blocks, including norms and softmax.",
        words={"ddp": "DDP", "fsdp": "FSDP2"},
        when=FormValues.has_several_devices,
    )
    reduction: Literal["fp32", "bf16", "fp16"] = setting(
        "fp32",
        "Gradient reduction",
        "The format in which devices synchronize gradients (all-reduce). FP32 sends them as they "
        "are. BF16 and FP16 send half as much.",
        words={"fp32": "FP32", "bf16": "BF16", "fp16": "FP16"},
        when=FormValues.has_several_devices,
    )
    bucket_mib: Annotated[float, Field(gt=0, le=100_000)] = setting(
        25.0,
        "Gradient bucket",
        "Gradients are sent in buckets of this size during the backward pass.",
        unit="MiB",
        when=FormValues.uses_ddp,
    )
    static_graph: bool = setting(
        False,
        "Static graph",
        "Declares to PyTorch's DistributedDataParallel that every step uses the same parts of the model.",
        when=FormValues.uses_ddp,
    )
    find_unused_parameters: bool = setting(
        False,
        "Find unused parameters",
        "Lets PyTorch's DistributedDataParallel search each step for parameters without a "
        "gradient. Needed if a step does not use all of the model. A little slower.",
        when=FormValues.uses_ddp,
    )


RecipePart = Literal["channels_last", "fused", "compile", "capture", "host_counters"]
RECIPE_PARTS: tuple[RecipePart, ...] = get_args(RecipePart)
PLAIN, FAST = "plain", "fast"


def joined(names: Iterable[str]) -> str:
    """Return the name of a combination of optimizations: "plain" for none, "fast" for all."""
    wanted = set(names)
    if wanted >= set(RECIPE_PARTS):
        return FAST
    return "+".join(part for part in RECIPE_PARTS if part in wanted) or PLAIN


def parts_of(recipe: str) -> tuple[RecipePart, ...]:
    """Return the optimizations of a combination by its name, in their usual order."""
    if recipe == FAST:
        return RECIPE_PARTS
    return tuple(part for part in RECIPE_PARTS if part in recipe.split("+"))


def _recipe_name(value: object) -> object:
    # parts may come as a list, or joined by "+" or ","
    given = _split_at_commas(value.replace("+", ",")) if isinstance(value, str) else value
    if not isinstance(given, list | tuple) or not all(isinstance(name, str) for name in given):
        return value
    names = [name.strip().lower().replace("-", "_") for name in given]
    if names in ([PLAIN], [FAST]):
        return names[0]
    unknown = next((name for name in names if name not in RECIPE_PARTS), None)
    if unknown is not None:
        allowed = f"plain, fast, or any of {', '.join(RECIPE_PARTS)}"
        raise PydanticCustomError("one_of", "it must be {allowed}", {"allowed": allowed})
    return joined(names)


def _split_at_commas(value: object) -> object:
    if isinstance(value, str):
        return tuple(name.strip() for name in value.split(",") if name.strip())
    return value


CompileMode = Literal["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"]
COMPILE_MODES: tuple[CompileMode, ...] = get_args(CompileMode)
GRAPH_MODES = ("reduce-overhead", "max-autotune")
"""The modes of torch.compile that record CUDA graphs."""
AttentionKernel = Literal["auto", "flash", "efficient", "cudnn", "math"]
NARROW_KERNELS = ("flash", "cudnn")
"""The kernels that need 16-bit inputs on a GPU."""
NO_CHECKPOINTING, SELECTIVE, FULL = "none", "selective", "full"
# as in older settings, which are switches
_SWITCHED = {
    **dict.fromkeys(("true", "on", "yes"), FULL),
    **dict.fromkeys(("false", "off", "no", "", "null"), NO_CHECKPOINTING),
}


def _checkpointing_name(value: object) -> str:
    text = NO_CHECKPOINTING if value is None else str(value).strip().lower()
    name = _SWITCHED.get(text, text)
    if name in (NO_CHECKPOINTING, SELECTIVE, FULL):
        return name
    with suppress(ValueError):
        if 0 <= float(name) <= 1:
            return f"{abs(float(name)):g}"  # -0 is a number, too
    allowed = "none, selective, full, or a budget from 0 to 1"
    raise PydanticCustomError("one_of", "it must be {allowed}", {"allowed": allowed})


UNCAPTURED_STEPS = 3  # before a capture: they leave the optimizer's state and tuned kernels, which it needs


class Step(Part):
    """The training step and its optimizations. `autocast_tf32` applies only to precisions with autocast."""

    recipe: Annotated[str, BeforeValidator(_recipe_name)] = setting(
        PLAIN,
        "Optimizations",
        "Plain: the standard training loop. Fast: all five optimizations. Custom: select some.",
        flag=Flag("--recipe", "NAME", f"One of plain, fast, or any of {'+'.join(RECIPE_PARTS)}."),
        is_picked=True,
    )
    compile_mode: CompileMode = setting(
        "default",
        "Compile mode",
        "The mode of torch.compile. Reduce-overhead records CUDA graphs of the compiled code, and replaces "
        "Capture. Max-autotune also searches for the fastest kernels, which takes minutes.",
        group=Group.FORMATS,
        place=1,
        when=FormValues.compiles,
    )
    compile_dynamic: Annotated[bool | None, NoneFromText] = setting(
        None,
        "Compile for any batch size",
        "On: compiles once for all batch sizes (dynamic=True). Off: compiles again for each size "
        "(dynamic=False). Auto: compiles for one size, and smaller batches run uncompiled.",
        group=Group.FORMATS,
        place=1,
        when=FormValues.compiles,
    )
    gradient_accumulation: SmallCount = setting(
        1,
        "Gradient accumulation",
        "Number of batches whose gradients are added up in each step. It simulates a large batch "
        "in the memory of a small one.",
        unit="batches",
        group=Group.OPTIMIZATION,
        when=lambda chosen: "step" not in chosen.defines,
    )
    clip_norm: Annotated[float | None, Field(gt=0), NoneFromText] = setting(
        None,
        "Clip gradient norm",
        "Maximum gradient norm. Gradients are clipped after unscaling. Empty: no clipping.",
        group=Group.OPTIMIZATION,
        hint="no clipping",
    )
    fp32_modules: Annotated[
        tuple[Annotated[str, Field(min_length=1)], ...], BeforeValidator(_split_at_commas)
    ] = setting(
        (),
        "Modules kept in FP32",
        "Modules that AMP keeps in FP32. Enter names or patterns, separated by commas: fc, "
        "layer4.*. Empty: PyTorch decides.",
        group=Group.FORMATS,
        hint="names or patterns, e.g. layer4.*",
        when=FormValues.uses_autocast,
    )
    fp8_recipe: Literal["tensorwise", "rowwise", "rowwise_with_gw_hp"] = setting(
        "tensorwise",
        "FP8 scaling",
        "How numbers are scaled to the range of FP8. Tensorwise: one scale per tensor, the fastest. Rowwise: "
        "one scale per row, more precise. With weight gradients in BF16, it is the most precise.",
        words={"rowwise_with_gw_hp": "Rowwise, weight gradients in BF16"},
        group=Group.FORMATS,
        when=FormValues.uses_fp8,
    )
    fp8_small_layers: Annotated[bool | None, NoneFromText] = setting(
        None,
        "FP8 in small layers",
        "Also converts linear layers too small to get faster. Auto: only when FP8 is "
        "emulated, because no throughput is measured then.",
        group=Group.FORMATS,
        when=FormValues.uses_fp8,
    )
    activation_checkpointing: Annotated[str, BeforeValidator(_checkpointing_name)] = setting(
        NO_CHECKPOINTING,
        "Activation checkpointing",
        "Recomputes activations in the backward pass instead of storing them. Takes less memory, but steps "
        "are slower. Selective: stores the results of matmuls, convolutions and attention. Full: stores only "
        "the inputs of blocks. A budget from 0 to 1: the compiler stores this share of the activations.",
        words={
            NO_CHECKPOINTING: "None",
            SELECTIVE: "Selective",
            FULL: "Full",
            **{f"{budget:g}": f"Budget {budget:g}" for budget in (0.75, 0.5, 0.25, 0.0)},
        },
        group=Group.FORMATS,
        is_picked=True,
    )
    offload_activations: bool = setting(
        False,
        "Offload activations",
        "Moves activations to system memory until the backward pass needs them. Takes less GPU memory, but "
        "steps are slower.",
        group=Group.FORMATS,
        when=lambda chosen: not chosen.is_on_cpu,
    )
    attention: AttentionKernel = setting(
        "auto",
        "Attention kernel",
        "The kernel of scaled_dot_product_attention. Auto: PyTorch chooses. On a GPU, flash and cuDNN need "
        "16-bit inputs. A CPU has flash and math.",
        words={"cudnn": "cuDNN"},
        group=Group.FORMATS,
    )
    autocast_tf32: bool = setting(
        False,
        "TF32 within AMP",
        "Allows TF32 for operations that AMP keeps in FP32 (NVIDIA Ampere and newer).",
        group=Group.FORMATS,
        when=FormValues.uses_autocast,
    )

    @model_validator(mode="after")
    def _suits_its_graphs(self) -> Self:
        # pytorch/pytorch#169545: the second batch overwrites the gradients of the first
        if self.compiles_graphs and self.gradient_accumulation > 1:
            why = f"is {self.compile_mode}, whose CUDA graphs overwrite accumulated gradients."
            remedy = "Use default or max-autotune-no-cudagraphs, or set gradient accumulation to 1."
            raise contradiction("compile_mode", why, remedy, self.compile_mode)
        if self.compiles_graphs and self.offload_activations:
            why = f"is {self.compile_mode}, whose CUDA graphs keep all activations in GPU memory."
            remedy = "Use default or max-autotune-no-cudagraphs, or turn offloading off."
            raise contradiction("compile_mode", why, remedy, self.compile_mode)
        return self

    @property
    def compiles_graphs(self) -> bool:
        """True if the compiled model makes CUDA graphs of its own, where the device has them."""
        return "compile" in self.parts and self.compile_mode in GRAPH_MODES

    @model_validator(mode="after")
    def _budget_is_compiled(self) -> Self:
        if self.activation_budget is not None and "compile" not in self.parts:
            why = f"is a budget of {self.activation_checkpointing}, which only compiled models support."
            remedy = "Add compile to the optimizations, or set it to selective or full."
            raise contradiction("activation_checkpointing", why, remedy, self.activation_checkpointing)
        return self

    @property
    def recomputes_blocks(self) -> bool:
        """True if the model's blocks are recomputed, and not what a compiler chooses."""
        return self.activation_checkpointing in (SELECTIVE, FULL)

    @property
    def activation_budget(self) -> float | None:
        """The share of the activations that a compiled model stores. None without a budget."""
        has_budget = self.activation_checkpointing not in (NO_CHECKPOINTING, SELECTIVE, FULL)
        return float(self.activation_checkpointing) if has_budget else None

    @property
    def parts(self) -> tuple[RecipePart, ...]:
        """The requested optimizations, in their usual order."""
        return parts_of(self.recipe)

    @property
    def least_warmup_steps(self) -> int:
        """The number of steps until the step has been captured or compiled. 0 without either."""
        # each step before the capture may be followed by an epoch's smaller last one, which counts for none
        if "capture" in self.parts:
            return 2 * UNCAPTURED_STEPS + 1
        # its own CUDA graphs run once uncaptured, and then are recorded
        return 3 if self.compiles_graphs else int("compile" in self.parts)


class Data(Part):
    """The settings of data loading.

    Settings of the loader are ignored if the dataset is kept on the device.
    """

    group = Group.DATA
    on_device: Annotated[bool | None, NoneFromText] = setting(
        None,
        "Dataset on device",
        "Keeps the entire dataset in device memory, so no step waits for it. Auto: if it is small.",
        when=FormValues.loads,
    )
    inputs: Annotated[str, Field(max_length=4_096)] = setting(
        "",
        "Input array",
        "The array or column of your file with the inputs. Empty: one with a usual name, such as "
        "x, inputs or images.",
        hint="found by its usual name",
        when=has("dataset", ARRAYS),
        place=-1,
    )
    targets: Annotated[str, Field(max_length=4_096)] = setting(
        "",
        "Target array",
        "The array or column of your file with the targets. Empty: one with a usual name, such "
        "as y, targets or labels.",
        hint="found by its usual name",
        when=has("dataset", ARRAYS),
        place=-1,
    )
    workers: Annotated[int, Field(ge=0, le=256)] = setting(
        0,
        "Loader workers",
        "Number of extra processes that load samples. 0: the training process loads them.",
        when=FormValues.uses_loader,
    )
    prefetch: Annotated[int, Field(ge=1, le=64)] = setting(
        2, "Prefetch", "Batches that each worker prepares ahead.", unit="batches", when=FormValues.uses_loader
    )
    pin_memory: bool = setting(
        True,
        "Pinned memory",
        "Puts batches in page-locked memory, from which a GPU can copy them while it computes.",
        when=lambda chosen: chosen.uses_loader() and not chosen.is_on_cpu,
    )
    persistent_workers: bool = setting(
        True,
        "Persistent workers",
        "Keeps loader processes between epochs instead of restarting them.",
        when=lambda chosen: chosen.uses_loader() and not chosen.has("data.workers", "0"),
    )
    augment: bool = setting(
        False,
        "Augmentation",
        "Shifts and flips training images at random, which reduces overfitting.",
        when=FormValues.loads,
    )
    skip_broken: bool = setting(
        False,
        "Skip broken images",
        "Replaces an unreadable image with the next one and lists it in the log. Off: all images "
        "are opened before the run, and a broken one stops it.",
        when=has("dataset", IMAGE_FOLDER),
    )


class Validation(Part):
    """The settings of validation: how often, and on how many samples."""

    group = Group.SAVING
    every: SmallCountOrZero = setting(
        1, "Validation interval", "Number of epochs between two validations. 0: never.", unit="epochs"
    )
    limit: Annotated[int | None, Field(ge=1), NoneFromText] = setting(
        None,
        "Validation samples",
        "Maximum number of samples in a validation. Empty: all.",
        unit="samples",
        hint="all",
    )


class Checkpoint(Part):
    """The settings of checkpoints: the checkpoints to save, and how often."""

    group = Group.SAVING
    best: bool = setting(
        False,
        "Save best checkpoint",
        "Saves the model whenever a validation is the best so far.",
        when=FormValues.is_validated,
    )
    last: bool = setting(
        False, "Save last checkpoint", "Saves the training state, so that a stopped run can be resumed."
    )
    every: SmallCount = setting(
        1,
        "Checkpoint interval",
        "Number of epochs between two saves of the last checkpoint. Stopping the run also saves it.",
        unit="epochs",
        when=has("checkpoint.last", "true"),
    )
    rewind_every: SmallCountOrZero = setting(
        0,
        "Keep state for Find it",
        "Keep a copy of the training state every N steps. If the loss becomes NaN, or every step "
        "is skipped, Find it starts from the newest copy. 0: keep none.",
        unit="steps",
    )
