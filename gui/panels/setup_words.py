"""The small facts beside the form's fields: how large a model is, what a dataset holds."""

from __future__ import annotations

from collections.abc import Sequence

from engine.catalog import Catalog, DatasetEntry, ModelEntry
from engine.picture_folders import Count
from gui.panels.setup_draft import Draft, plain

_SCALES = ((1_000_000_000, "B", ".1f"), (1_000_000, "M", ".1f"), (10_000, "k", ".0f"))


def parameters_words(model: ModelEntry | None) -> str:
    """A model's size as "25.6 M parameters"."""
    return "" if model is None else f"{_size(model)} parameters"


def model_groups(models: Sequence[ModelEntry]) -> list[tuple[str, list[tuple[str, str]]]]:
    """The models by family, the smallest first, as ("ResNet", [("resnet18", "11.7 M"), ...])."""
    families: dict[str, list[ModelEntry]] = {}
    for model in models:
        families.setdefault(model.family, []).append(model)
    return [
        (family, [(model.name, _size(model)) for model in sorted(members, key=lambda one: one.parameters)])
        for family, members in families.items()
    ]


def _size(model: ModelEntry) -> str:
    for scale, letter, form in _SCALES:
        if model.parameters >= scale:
            divisor = 1_000 if letter == "k" else scale
            return f"{model.parameters / divisor:{form}} {letter}"
    return f"{model.parameters:,}"


def preset_caption(draft: Draft, catalog: Catalog | None) -> str:
    """What stands for the preset's title where its settings no longer hold; empty where they do."""
    return f"Changed from {draft.preset.title}" if draft.is_changed(catalog) else ""


def dataset_words(dataset: DatasetEntry | None, draft: Draft) -> tuple[str, ...]:
    """What the dataset's samples are, at the draft's size and classes: in full, then shorter."""
    if dataset is None:
        return ()
    size = plain("image_size", draft.text("image_size")) or dataset.image_size
    classes = plain("num_classes", draft.text("num_classes")) if dataset.any_classes else ""
    classes = classes or str(dataset.num_classes or "")
    if dataset.task == "language":
        tokens = f"{draft.text('sequence_length')} tokens"
        return (f"{tokens}, vocabulary {classes}", tokens) if classes else (tokens,)
    if dataset.needs_path:
        return (f"{size}×{size}",)
    if dataset.image_size is None:
        return ("no pictures",)
    pictures = f"{size}×{size}"
    if dataset.train_samples is not None:
        pictures = f"{dataset.train_samples:,} of {pictures}"
    return (f"{pictures}, {classes} classes", pictures) if classes else (pictures,)


def folder_words(count: Count | None, is_counting: bool) -> str:
    """What the chosen folder holds: "1,200 pictures, 3 classes"; empty while nothing is known."""
    if count is None:
        return "counting…" if is_counting else ""
    total = count.train + count.validation
    if not total:
        return "no pictures in folders of classes"
    pictures = f"{total:,} picture" + ("s" if total != 1 else "")
    return f"{pictures}, {count.classes:,} class" + ("es" if count.classes != 1 else "")


SUMMARY_LINES = 3


def option_lines(draft: Draft) -> tuple[str, ...]:
    """The settings under "More options" that matter most, in three short lines."""
    names = {"adamw": "AdamW", "adam": "Adam", "sgd": "SGD"}
    optimizer = names.get(draft.text("optimizer.name"), draft.text("optimizer.name"))
    clip, cap = draft.text("step.clip_norm"), draft.text("memory_cap_gib")
    accumulated = plain("step.gradient_accumulation", draft.text("step.gradient_accumulation"))
    clipping = f"clip norm {clip}" if clip else "no clipping"
    return (
        f"{optimizer} · learning rate {draft.text('optimizer.learning_rate')} · {clipping}",
        f"accumulation {accumulated} · scaler {draft.text('scaler.mode')} · seed {draft.text('seed')}",
        f"device {draft.text('device')} · " + (f"memory cap {cap} GiB" if cap else "no memory cap"),
    )
