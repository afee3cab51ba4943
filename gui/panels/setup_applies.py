"""Which settings mean anything beside the others; those that do not are hidden and left at their default."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.catalog import Catalog, DatasetEntry, DeviceEntry
from engine.experiment import Precision

Text = Callable[[str], str]
"""What stands in the field of a key."""


def applies(key: str, text: Text, ticked: Sequence[Precision], catalog: Catalog | None) -> bool:
    """Whether the setting `key` means anything, given the text of the others and the ticked precisions."""
    table = key.partition(".")[0]
    if table == "schedule":
        return _in_schedule(key, text("schedule.name"))
    if key in ("step.fp32_modules", "step.autocast_tf32"):
        return any(precision.is_autocast for precision in ticked)
    if key == "optimizer.momentum":
        return text("optimizer.name") == "sgd"
    if table == "scaler" and key != "scaler.mode":
        return _scales(text("scaler.mode"), ticked)
    if key == "checkpoint.every":
        return text("checkpoint.last") == "true"
    if catalog is None:
        return True
    dataset = catalog.dataset(text("dataset"))
    return dataset is None or _with_dataset(key, text, dataset, catalog.device(text("device")))


def _scales(mode: str, ticked: Sequence[Precision]) -> bool:
    """Whether any of the runs has a loss scaler, as `Experiment.uses_scaler` has it for one."""
    return mode == "on" or (mode == "auto" and Precision.FP16 in ticked)


def _in_schedule(key: str, schedule: str) -> bool:
    shown = {
        "schedule.warmup_steps": schedule != "one-cycle",
        "schedule.final_fraction": schedule == "cosine",
        "schedule.rise_fraction": schedule == "one-cycle",
        "schedule.decay_epochs": schedule == "step",
        "schedule.decay_factor": schedule == "step",
    }
    return shown.get(key, True)


def _with_dataset(key: str, text: Text, dataset: DatasetEntry, device: DeviceEntry | None) -> bool:
    validates = dataset.validation_samples is not None or dataset.needs_path
    # loader processes serve a dataset that is not kept on the device
    loads = dataset.loads and text("data.on_device") != "true"
    shown = {
        "path": dataset.needs_path,
        "image_size": dataset.image_size is not None,
        "num_classes": dataset.any_classes,
        "samples": dataset.train_samples is None and not dataset.needs_path,
        "sequence_length": dataset.task == "language",
        "label_smoothing": dataset.task != "regression",
        "data.augment": dataset.can_augment,
        "data.skip_broken": dataset.needs_path,
        "data.on_device": dataset.loads,
        "data.workers": loads,
        "data.prefetch": loads,
        "data.pin_memory": loads and (device is None or device.is_gpu),
        "data.persistent_workers": loads and text("data.workers").strip() != "0",
        "checkpoint.best": validates and text("validation.every").strip() != "0",
    }
    return shown.get(key, True)
