"""The names under which curves and figures stand in trackers of experiments: TensorBoard and MLflow."""

from __future__ import annotations

from engine.events import Epoch
from engine.records.record import RunRecord

CURVE_TAGS = {
    "loss": "train/loss",
    "learning_rate": "train/learning_rate",
    "grad_scale": "train/grad_scale",
    "grad_norm": "train/grad_norm",
    "samples_per_second": "speed/samples_per_second",
    "data_wait_ms": "speed/data_wait_ms",
    "allocated_mib": "memory/allocated_mib",
    "reserved_mib": "memory/reserved_mib",
    "device_used_mib": "memory/device_used_mib",
    "resident_mib": "memory/resident_mib",
    "other_programs_mib": "memory/other_programs_mib",
    "gpu_utilization_percent": "device/gpu_utilization_percent",
    "power_watts": "device/power_watts",
    "temperature_celsius": "device/temperature_celsius",
    "clock_mhz": "device/clock_mhz",
}
"""Columns of samples, one value a step."""

_EPOCH_TAGS = {
    "train_loss": "train/epoch_loss",
    "validation_loss": "validation/loss",
    "validation_accuracy": "validation/accuracy",
}


def epoch_values(epoch: Epoch) -> dict[str, float]:
    """What is known of an epoch, by tag; it belongs to the step that ended it."""
    told = {tag: getattr(epoch, name) for name, tag in _EPOCH_TAGS.items()}
    return {tag: value for tag, value in told.items() if value is not None}


def summary_values(run: RunRecord) -> dict[str, float]:
    """The figures of the whole run, by tag; those that do not apply are left out."""
    summary = run.summary or ()
    return {f"summary/{name}": float(value) for name, value in summary if isinstance(value, int | float)}
