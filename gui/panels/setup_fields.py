"""The words of the setup form: what each setting is called, and what it does in one plain sentence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gui.panels.setup_option import Shape
from gui.panels.setup_run_options import DATA, KEEPING, MACHINE
from gui.panels.setup_training_options import FORMATS, OPTIMIZER, SCALER, SCHEDULE

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
