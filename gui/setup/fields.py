"""The settings of the setup form: their groups, and the kind of field for a setting's type. No Qt."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from engine.experiment.experiment import setting_fields
from engine.experiment.titles import setting_help, setting_title, setting_unit


class Shape(Enum):
    """What the user types or picks."""

    NUMBER = auto()
    TEXT = auto()
    CHOICE = auto()


@dataclass(frozen=True)
class Option:
    """A setting; `hint` is shown in the empty field, `choices` are (value, text).

    A `wide` one takes the full width of the form.
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
    """Options under one heading."""

    title: str
    options: tuple[Option, ...]


_GROUPS = {
    "Model": ("overrides",),
    "Optimization": (
        "optimizer.name",
        "optimizer.learning_rate",
        "optimizer.weight_decay",
        "optimizer.momentum",
        "step.gradient_accumulation",
        "step.clip_norm",
        "label_smoothing",
        "optimizer.fused",
    ),
    "Learning rate over time": (
        "schedule.name",
        "schedule.warmup_steps",
        "schedule.final_fraction",
        "schedule.rise_fraction",
        "schedule.decay_epochs",
        "schedule.decay_factor",
    ),
    "Loss scaling": (
        "scaler.mode",
        "scaler.init_scale",
        "scaler.growth_factor",
        "scaler.backoff_factor",
        "scaler.growth_interval",
    ),
    "Number formats and memory": (
        "step.fp32_modules",
        "step.autocast_tf32",
        "step.activation_checkpointing",
    ),
    "Data": (
        "image_size",
        "num_classes",
        "sequence_length",
        "samples",
        "data.inputs",
        "data.targets",
        "data.augment",
        "data.skip_broken",
        "data.on_device",
        "data.workers",
        "data.prefetch",
        "data.pin_memory",
        "data.persistent_workers",
    ),
    "Validation and checkpoints": (
        "validation.every",
        "validation.limit",
        "checkpoint.best",
        "checkpoint.last",
        "checkpoint.every",
        "checkpoint.rewind_every",
    ),
    "Machine and measuring": (
        "device",
        "memory_cap_gib",
        "seed",
        "on_nan",
        "measure.warmup_steps",
        "measure.block_steps",
        "measure.range_every",
    ),
}

_HINTS = {
    "image_size": "the dataset's",
    "num_classes": "the dataset's",
    "data.inputs": "by its usual names",
    "data.targets": "by its usual names",
    "validation.limit": "all",
    "memory_cap_gib": "none",
    "step.clip_norm": "no clipping",
    "overrides": "the model's own defaults",
    "step.fp32_modules": "names or patterns, such as layer4.*",
}
"""What an empty field means."""

_CHOSEN = ("device",)
"""Text settings that are picked from the catalog."""

_WORDS = {
    "adamw": "AdamW",
    "sgd": "SGD",
    "one-cycle": "One cycle",
    "step": "In steps",
    "stop": "Stop the run",
    "fail": "Fail the run",
}
"""Values that are not shown as they are."""


def _option(key: str) -> Option:
    shape, choices = _shape(setting_fields()[key].annotation)
    if key in _CHOSEN:
        shape = Shape.CHOICE
    hint, is_wide = _HINTS.get(key, ""), shape is Shape.TEXT
    return Option(
        key, setting_title(key), setting_help(key), shape, setting_unit(key), hint, choices, is_wide
    )


def _shape(kind: Any) -> tuple[Shape, tuple[tuple[str, str], ...]]:
    """The kind of field for a type, and its choices."""
    if get_origin(kind) is Annotated:
        return _shape(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        (inner,) = (member for member in get_args(kind) if member is not NoneType)
        if inner is bool:
            return Shape.CHOICE, (("", "Auto"), ("true", "On"), ("false", "Off"))
        return _shape(inner)
    if get_origin(kind) is Literal:
        return Shape.CHOICE, tuple((value, _WORDS.get(value, value.capitalize())) for value in get_args(kind))
    if kind is bool:
        return Shape.CHOICE, (("false", "Off"), ("true", "On"))
    return (Shape.NUMBER if kind in (int, float) else Shape.TEXT), ()


GROUPS = tuple(Group(title, tuple(map(_option, keys))) for title, keys in _GROUPS.items())
OPTIONS = {option.key: option for group in GROUPS for option in group.options}
NUMBER_KEYS = {
    "repeat",
    "within",
    "hours",
    *(key for key, field in setting_fields().items() if _shape(field.annotation)[0] is Shape.NUMBER),
}
_PICKED = ("model", "dataset", "step.recipe", "precision", *_CHOSEN)
"""Text settings that are picked from lists; their names have no commas."""
TEXT_KEYS = {
    key
    for key, field in setting_fields().items()
    if key not in _PICKED and _shape(field.annotation)[0] is Shape.TEXT
}
"""Settings that are typed, in which a comma may be part of a value."""

TIPS = {
    "preset": "A ready-made experiment to begin with. Everything below can still be changed, and saved as "
    "your own preset, which then appears here too (Ctrl+S).",
    "model": f"{setting_help('model')} Type parts of a name to search, or open a Python file of your own; "
    "it can also be dropped on the window.",
    "check": "Looks for mistakes with mixed precision in the model without training it, and shows its "
    "modules.",
    "repeat": "How many times each precision is trained: in turns, in fresh processes, each time with the "
    "next seed. A useful interval for the speed-up takes 3 or more.",
    "within": "How exactly each cell's ratio to its baseline is to be known: the cells with the widest "
    "intervals are repeated until none reaches further than this. Left empty, each is trained as often as "
    "Repeat says.",
    "hours": "Nothing new begins once the sweep has taken this long. Left empty, it goes on to its end.",
    "length": "How long each run trains, in epochs or in steps.",
    "name": "The name of the new runs in the table. Left empty, they are numbered.",
}
"""Tooltips of the fields that are not settings of a run, or say more."""


def words_of(key: str, value: Any) -> str:
    """A value as the text in a field: thousands with commas, nothing for None."""
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
