"""The settings of the setup form: their keys, words, tooltips and kinds of field. No Qt."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any


class Shape(Enum):
    """What a person types or picks."""

    WHOLE = auto()
    NUMBER = auto()
    TEXT = auto()
    CHOICE = auto()


@dataclass(frozen=True)
class Option:
    """One setting; `hint` stands in the empty field, `choices` are (value, words).

    A `wide` one takes the whole width of the form.
    """

    key: str
    label: str
    tip: str
    shape: Shape = Shape.NUMBER
    unit: str = ""
    hint: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    wide: bool = False


@dataclass(frozen=True)
class Group:
    """Options that belong together, under one small heading."""

    title: str
    options: tuple[Option, ...]


def switch(key: str, label: str, tip: str) -> Option:
    """A setting that is on or off."""
    return Option(key, label, tip, Shape.CHOICE, choices=(("false", "Off"), ("true", "On")))


def automatic(key: str, label: str, tip: str) -> Option:
    """A setting that is on, off, or left to Ammeter."""
    return Option(key, label, tip, Shape.CHOICE, choices=(("", "Auto"), ("true", "On"), ("false", "Off")))


DATA = Group(
    "Data",
    (
        Option(
            "image_size",
            "Image size",
            "Pixels a side; pictures are resized to it. Empty: the dataset's own.",
            Shape.WHOLE,
            unit="px",
            hint="its own",
        ),
        Option(
            "num_classes",
            "Classes",
            "How many classes, or words in the vocabulary, synthetic samples have. Empty: the usual number.",
            Shape.WHOLE,
            hint="its own",
        ),
        Option(
            "sequence_length",
            "Sequence length",
            "How many tokens make one sample of text.",
            Shape.WHOLE,
            unit="tokens",
        ),
        Option("samples", "Samples", "How many synthetic samples make one epoch.", Shape.WHOLE),
        switch(
            "data.augment",
            "Augment",
            "Shifts and flips the training pictures at random, lest the model learn them by heart.",
        ),
        switch(
            "data.skip_broken",
            "Skip broken",
            "Trains on the next picture in place of one that cannot be read, and names it in the log. Off: "
            "the pictures are opened before the run, and a broken one stops the run.",
        ),
        automatic(
            "data.on_device",
            "Keep on device",
            "Puts the whole dataset into the device's memory once, so that no step waits for it. "
            "Auto: where it is small.",
        ),
        Option(
            "data.workers",
            "Loader workers",
            "How many processes read the samples beside the training; 0: the training reads them itself.",
            Shape.WHOLE,
        ),
        Option(
            "data.prefetch",
            "Prefetch",
            "How many batches are made ready ahead of time.",
            Shape.WHOLE,
            unit="batches",
        ),
        switch(
            "data.pin_memory",
            "Pinned memory",
            "Holds batches where a GPU can fetch them while it computes.",
        ),
        switch(
            "data.persistent_workers",
            "Keep workers",
            "The loader's processes stay from one epoch to the next, instead of starting anew.",
        ),
    ),
)

KEEPING = Group(
    "Validation and checkpoints",
    (
        Option(
            "validation.every",
            "Validate every",
            "How many epochs lie between two validations; 0 is never.",
            Shape.WHOLE,
            unit="epochs",
        ),
        Option(
            "validation.limit",
            "Validate on",
            "The most samples that one validation looks at. Empty: all of them.",
            Shape.WHOLE,
            unit="samples",
            hint="all",
        ),
        switch(
            "checkpoint.best",
            "Save the best",
            "Saves the model's state whenever a validation is the best so far.",
        ),
        switch(
            "checkpoint.last",
            "Save the last",
            "Saves the run's state as it goes, so that it can be resumed after it was stopped.",
        ),
        Option(
            "checkpoint.every",
            "Save every",
            "How many epochs lie between two such checkpoints; one more is saved when the run is stopped.",
            Shape.WHOLE,
            unit="epochs",
        ),
    ),
)

MACHINE = Group(
    "Machine and measuring",
    (
        Option(
            "device", "Device", "Where the run trains. Auto: the first GPU, or else the CPU.", Shape.CHOICE
        ),
        Option(
            "memory_cap_gib",
            "Memory cap",
            "Trains as if the card had only this much memory for tensors: CUDA itself takes some hundred MiB "
            "more of a real one. Empty: all of it.",
            unit="GiB",
            hint="none",
        ),
        Option("seed", "Seed", "Where the random numbers begin; the same seed repeats a run.", Shape.WHOLE),
        Option(
            "on_nan",
            "On NaN",
            "What to do when the loss is no longer a number.",
            Shape.CHOICE,
            choices=(("continue", "Go on"), ("stop", "Stop the run"), ("fail", "Fail the run")),
        ),
        Option(
            "measure.warmup_steps",
            "Warm-up",
            "The first steps are trained but not counted in the speed.",
            Shape.WHOLE,
            unit="steps",
        ),
        Option(
            "measure.block_steps",
            "Block",
            "Speed is the median over blocks of this many steps.",
            Shape.WHOLE,
            unit="steps",
        ),
    ),
)


OPTIMIZER = Group(
    "Optimization",
    (
        Option(
            "optimizer.name",
            "Optimizer",
            "How the weights are changed from the gradients.",
            Shape.CHOICE,
            choices=(("adamw", "AdamW"), ("adam", "Adam"), ("sgd", "SGD")),
        ),
        Option("optimizer.learning_rate", "Learning rate", "How far each step moves the weights."),
        Option("optimizer.weight_decay", "Weight decay", "How strongly the weights are pulled towards zero."),
        Option("optimizer.momentum", "Momentum", "How much of the last step SGD carries into the next."),
        Option(
            "step.gradient_accumulation",
            "Accumulate",
            "Each step adds up the gradients of so many batches: a large batch in the memory of a small one.",
            Shape.WHOLE,
            unit="batches",
        ),
        Option(
            "step.clip_norm",
            "Clip norm",
            "Gradients longer than this are shortened to it, after unscaling. Empty: no clipping.",
            hint="no clipping",
        ),
        Option(
            "label_smoothing",
            "Label smoothing",
            "How much of each label is spread over the other classes, so that the model is less sure of "
            "itself; 0 is none.",
        ),
        automatic(
            "optimizer.fused",
            "Fused",
            "One GPU program changes all the weights at once, and the scaler needs not wait. "
            "Auto: as the speed recipe has it.",
        ),
    ),
)

SCHEDULE = Group(
    "Learning rate over time",
    (
        Option(
            "schedule.name",
            "Schedule",
            "How the learning rate goes over the run. Its peak is the learning rate above.",
            Shape.CHOICE,
            choices=(
                ("constant", "Constant"),
                ("cosine", "Cosine"),
                ("one-cycle", "One cycle"),
                ("step", "In steps"),
            ),
        ),
        Option(
            "schedule.warmup_steps",
            "Rise over",
            "Over so many steps at the start the learning rate rises in a straight line; 0 is not at all.",
            Shape.WHOLE,
            unit="steps",
        ),
        Option(
            "schedule.final_fraction",
            "Falls to",
            "What is left of the learning rate at the last step, as a part of the peak: 0.1 is a tenth.",
            unit="of peak",
        ),
        Option(
            "schedule.rise_fraction",
            "Rises for",
            "The part of the run over which the learning rate rises to its peak; it falls for the rest.",
            unit="of run",
        ),
        Option(
            "schedule.decay_epochs",
            "Falls every",
            "After each so many epochs the learning rate falls.",
            Shape.WHOLE,
            unit="epochs",
        ),
        Option(
            "schedule.decay_factor",
            "Falls by",
            "What the learning rate is multiplied by when it falls.",
            unit="×",
        ),
    ),
)

SCALER = Group(
    "Loss scaling",
    (
        Option(
            "scaler.mode",
            "Scaler",
            "Scales the loss up so that small FP16 gradients do not vanish. Auto: for FP16 AMP only.",
            Shape.CHOICE,
            choices=(("auto", "Auto"), ("on", "On"), ("off", "Off")),
        ),
        Option("scaler.init_scale", "First scale", "The scale that the run begins with."),
        Option("scaler.growth_factor", "Growth", "The scale is multiplied by this after enough clean steps."),
        Option("scaler.backoff_factor", "Back-off", "The scale is multiplied by this after an overflow."),
        Option(
            "scaler.growth_interval",
            "Grow after",
            "How many clean steps in a row before the scale grows.",
            Shape.WHOLE,
            unit="steps",
        ),
    ),
)

FORMATS = Group(
    "Number formats and memory",
    (
        Option(
            "step.fp32_modules",
            "Keep in FP32",
            "Parts of the model that AMP leaves in FP32, by name or pattern, with commas between: "
            "fc, layer4.*. Empty: what PyTorch chooses.",
            Shape.TEXT,
            hint="names or patterns, such as layer4.*",
            wide=True,
        ),
        switch(
            "step.autocast_tf32",
            "TF32 within AMP",
            "Lets what AMP leaves in FP32 use the faster, coarser TF32 of newer NVIDIA cards.",
        ),
        switch(
            "step.activation_checkpointing",
            "Recompute",
            "Forgets the activations in between and computes them again on the way back: less memory, slower "
            "steps. Known as activation checkpointing.",
        ),
    ),
)


LABELS = {
    "preset": "Preset",
    "model": "Model",
    "dataset": "Dataset",
    "path": "Folder",
    "precision": "Precision",
    "batch_size": "Batch size",
    "epochs": "Length",
    "steps": "Length",
    "step.recipe": "Speed recipe",
    "repeat": "Repeat",
}

TIPS = {
    "preset": "A ready-made experiment to begin with. Everything below can still be changed, and saved as a "
    "preset of your own, which then stands here too (Ctrl+S).",
    "model": "The network that is trained. Type a part of a name to search.",
    "dataset": "The pictures, text or numbers it is trained on.",
    "path": "A folder of your own pictures, with one folder in it for each class.",
    "batch_size": "How many samples go through the network at once.",
    "step.recipe": "How a step is made. Plain: the loop as every guide writes it. Fast: everything that "
    "PyTorch has to speed it up. Parts: some of that.",
    "repeat": "How often each precision is trained: in fresh processes, in turns, each time with the next "
    "seed. An interval of the speed-up that one can use needs 3 or more.",
    "length": "How long each run trains, in epochs or in steps.",
    "name": "What the new runs are called in the table. Left empty they are numbered.",
}

GROUPS = (OPTIMIZER, SCHEDULE, SCALER, FORMATS, DATA, KEEPING, MACHINE)
OPTIONS = {option.key: option for group in GROUPS for option in group.options}
WHOLE_KEYS = {key for key, option in OPTIONS.items() if option.shape is Shape.WHOLE} | {
    "batch_size",
    "epochs",
    "steps",
    "repeat",
}
NUMBER_KEYS = WHOLE_KEYS | {key for key, option in OPTIONS.items() if option.shape is Shape.NUMBER}


def label_of(key: str) -> str:
    """What a setting is called in the form; a setting that it does not show keeps its key."""
    if key in OPTIONS:
        return OPTIONS[key].label
    return LABELS.get(key, key)


def words_of(key: str, value: Any) -> str:
    """A value as a person reads it in a field: thousands with commas, nothing for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ", ".join(map(str, value))
    if not isinstance(value, int | float):
        return str(value)
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.12g}"
    return str(value) if key == "seed" else f"{value:,}"
