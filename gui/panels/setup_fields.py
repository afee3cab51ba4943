"""The words of the setup form: what each setting is called, and what it does in one plain sentence."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any


class Shape(Enum):
    """What a person types or picks."""

    WHOLE = auto()
    NUMBER = auto()
    CHOICE = auto()


@dataclass(frozen=True)
class Option:
    """One setting under "More options"; `hint` stands in the empty field, `choices` are (value, words)."""

    key: str
    label: str
    tip: str
    shape: Shape = Shape.NUMBER
    unit: str = ""
    hint: str = ""
    choices: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Group:
    """Options that belong together, under one small heading."""

    title: str
    options: tuple[Option, ...]


LABELS = {
    "preset": "Preset",
    "model": "Model",
    "dataset": "Dataset",
    "precision": "Precision",
    "batch_size": "Batch size",
    "epochs": "Length",
    "steps": "Length",
}

TIPS = {
    "preset": "A ready-made experiment to begin with. Everything below can still be changed.",
    "model": "The network that is trained. Type a part of a name to search.",
    "dataset": "The pictures or numbers it is trained on.",
    "batch_size": "How many samples go through the network in one step.",
    "length": "How long each run trains, in epochs or in steps.",
    "name": "What the new runs are called in the table. Left empty they are numbered.",
}

OPTIMIZER = Group(
    "Optimization",
    (
        Option(
            "optimizer.name",
            "Optimizer",
            "How the weights are changed from the gradients.",
            Shape.CHOICE,
            choices=(("adamw", "AdamW"), ("sgd", "SGD")),
        ),
        Option("optimizer.learning_rate", "Learning rate", "How far each step moves the weights."),
        Option("optimizer.weight_decay", "Weight decay", "How strongly the weights are pulled towards zero."),
        Option("optimizer.momentum", "Momentum", "How much of the last step SGD carries into the next."),
        Option(
            "step.clip_norm",
            "Clip norm",
            "Gradients longer than this are shortened to it, after unscaling. Empty: no clipping.",
            hint="no clipping",
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
            "How many classes the synthetic pictures have. Empty: the dataset's own number.",
            Shape.WHOLE,
            hint="its own",
        ),
        Option("samples", "Samples", "How many synthetic samples make one epoch.", Shape.WHOLE),
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
            "Trains as if the card had only this much memory. Empty: all of it.",
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

GROUPS = (OPTIMIZER, SCALER, DATA, MACHINE)
OPTIONS = {option.key: option for group in GROUPS for option in group.options}
WHOLE_KEYS = {key for key, option in OPTIONS.items() if option.shape is Shape.WHOLE} | {
    "batch_size",
    "epochs",
    "steps",
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
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.12g}"
    return str(value) if key == "seed" else f"{value:,}"
