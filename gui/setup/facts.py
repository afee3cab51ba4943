"""The facts next to the form's fields, and the choices that depend on the machine. Does not use Qt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.experiment.checks import Catalog, DatasetEntry, most_devices
from engine.experiment.experiment import Precision, setting_title
from engine.experiment.own.code import OWN_DATA
from engine.experiment.settings import MOST_DEVICES, PLAIN
from engine.words.numbers import counted
from gui.setup.draft import Draft
from gui.setup.fields import OPTIONS, clean

_EACH = 8
"""Up to this number of devices, every number is offered. Above, only powers of two."""
Choices = Sequence[tuple[str, str]]


def preset_caption(draft: Draft, catalog: Catalog | None) -> str:
    """Return the text that replaces the preset's title after a change. Empty without changes."""
    return f"Modified: {draft.preset.title}" if draft.is_changed(catalog) else ""


def dataset_words(dataset: DatasetEntry | None, draft: Draft) -> tuple[str, ...]:
    """Describe the dataset's samples at the draft's size and classes: in full, then shorter."""
    if dataset is None or dataset.task == OWN_DATA:
        return ()
    size = clean("image_size", draft.text("image_size")) or dataset.image_size
    classes = clean("num_classes", draft.text("num_classes")) if dataset.any_classes else ""
    classes = classes or str(dataset.num_classes or "")
    if dataset.task == "language":
        tokens = f"{draft.text('sequence_length')} tokens"
        return (f"{tokens}, vocabulary {classes}", tokens) if classes else (tokens,)
    if dataset.needs_path:
        return (f"{size}×{size}",)
    if dataset.image_size is None:
        return ("no images",)
    shape = f"{size}×{size}"
    if dataset.train_samples is not None:
        shape = f"{dataset.train_samples:,} of {shape}"
    return (f"{shape}, {classes} classes", shape) if classes else (shape,)


def batch_words(draft: Draft, catalog: Catalog | None) -> str:
    """Return the samples of one batch on all devices, "256 on 2 devices". Empty unless it is one number."""
    batch, count = (clean(key, draft.text(key)).lower() for key in ("batch_size", "devices"))
    device = None if catalog is None else catalog.device(draft.text("device"))
    if count in ("0", "all") and catalog is not None and device is not None:
        count = str(len(catalog.beginning_at(device)))
    if not (batch.isdecimal() and count.isdecimal()):
        return ""
    return f"{int(batch) * int(count):,} on {counted(int(count), 'device')}"


def dataset_choices(draft: Draft, catalog: Catalog) -> Choices:
    """Return the datasets of the catalog. "The model's own" only if the model provides data."""
    model = catalog.model(draft.text("model").strip())
    brings_data = model is not None and model.task == OWN_DATA
    datasets = (entry for entry in catalog.datasets if entry.name != OWN_DATA or brings_data)
    return [(entry.name, entry.title) for entry in datasets]


def device_choices(catalog: Catalog) -> Choices:
    """Return the devices that a run can train on, with Auto first."""
    return [("auto", "Auto"), *((entry.name, entry.name) for entry in catalog.devices)]


def count_choices(draft: Draft, catalog: Catalog) -> Choices:
    """Return the numbers of devices that can train a run together, starting with the draft's device."""
    device = catalog.device(draft.text("device"))
    most = 1 if device is None else min(MOST_DEVICES, most_devices(device, catalog))
    counts = [str(count) for count in range(1, most + 1) if count <= _EACH or count.bit_count() == 1]
    every = [("all", f"All {most}")] if most > 1 and device is not None and device.is_gpu else []
    return [*zip(counts, counts, strict=True), *every]


def options_summary(draft: Draft) -> str:
    """Summarize the most important settings under "More options" in a short line."""
    names, seed = dict(OPTIONS["optimizer.name"].choices), f"seed {draft.text('seed')}"
    if draft.code is not None and not draft.applies("optimizer.name", None):
        return f"Custom optimizer, {seed}"
    name = draft.text("optimizer.name")
    return f"{names.get(name, name)}, learning rate {draft.text('optimizer.learning_rate')}, {seed}"


def fp8_notes(draft: Draft, catalog: Catalog | None) -> Iterator[str]:
    """Yield the limitations of FP8 for the draft, if FP8 is selected."""
    if Precision.FP8 not in draft.selected or catalog is None:
        return
    model, device = catalog.model(draft.text("model")), catalog.device(draft.text("device"))
    if model is not None and model.is_convolutional:
        yield f"has no effect on {model.name}, because convolutions are not converted"
    elif device is not None and device.is_gpu and draft.text("step.recipe") in ("", PLAIN):
        yield f"is unlikely to be faster without Compile in {setting_title('step.recipe')}"
