"""What a setting is called where runs are compared, away from the groups of the form."""

from __future__ import annotations

import re

from engine.experiment.experiment import Experiment, flattened
from engine.words.names import setting_words
from gui.setup.fields import label_of

_NAMES = {
    "epochs": "Epochs",
    "steps": "Steps",
    "device_name": "Trained on",
    "torch": "torch",
    "cuda": "CUDA",
    "driver": "Driver",
    "step.recipe": "Speed recipe",
    "step.clip_norm": "Clipping",
    "step.gradient_accumulation": "Accumulated batches",
    "step.activation_checkpointing": "Recomputed activations",
    "optimizer.fused": "Fused optimizer",
    "schedule.warmup_steps": "Rate rises over",
    "schedule.final_fraction": "Rate falls to",
    "schedule.rise_fraction": "Rate rises for",
    "schedule.decay_epochs": "Rate falls every",
    "schedule.decay_factor": "Rate falls by",
    "data.augment": "Augmentation",
    "data.skip_broken": "Broken pictures skipped",
    "data.prefetch": "Prefetched batches",
    "data.persistent_workers": "Workers kept",
    "checkpoint.best": "Best saved",
    "checkpoint.last": "Last saved",
    "checkpoint.every": "Saved every",
    "path": "Folder of pictures",
    "scaler.mode": "Loss scaler",
    "scaler.growth_factor": "Scale growth",
    "scaler.backoff_factor": "Scale back-off",
    "scaler.growth_interval": "Scale grows after",
    "measure.warmup_steps": "Warm-up steps",
    "measure.block_steps": "Block steps",
}


def setting_name(key: str) -> str:
    """The name of a setting by its dotted key, or of a fact of the machine."""
    return _NAMES.get(key) or label_of(key)


def spoken(text: str) -> str:
    """A sentence of the engine with its settings by name: "Lower batch_size" as "Lower batch size"."""
    return _KEYS.sub(lambda found: setting_words(found.group()).removesuffix(" gib").lower(), text)


# a key of one plain word is an English word as well
_KEYS = re.compile(
    r"(?<![\w.])(?:"
    + "|".join(re.escape(key) for key in flattened(Experiment()) if "_" in key or "." in key)
    + r")(?![\w])"
)
