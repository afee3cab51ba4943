"""A machine whose speeds are known: its catalog, and workers that are as fast as a script says."""

from __future__ import annotations

import pytest

from engine.experiment.catalog import (
    Catalog,
    DatasetEntry,
    DeviceEntry,
    ModelEntry,
    Precision,
    PrecisionEntry,
)

SLOW = frozenset({Precision.FP16})


@pytest.fixture
def catalog() -> Catalog:
    """A processor that gains from BF16, and a small network with a dataset that a loader brings."""
    precisions = tuple(
        PrecisionEntry(
            precision=precision,
            available=precision is not Precision.TF32,
            reason="Ammeter supports TF32 on NVIDIA GPUs only" if precision is Precision.TF32 else None,
            hardly_faster="FP16 is emulated" if precision in SLOW else None,
        )
        for precision in Precision
    )
    return Catalog(
        devices=(DeviceEntry(name="cpu", title="a processor", memory_mib=8_192, precisions=precisions),),
        models=(ModelEntry(name="small-cnn", task="classification", is_convolutional=True),),
        datasets=(
            DatasetEntry(
                name="synthetic",
                title="Synthetic",
                task="classification",
                image_size=8,
                num_classes=4,
                any_classes=True,
            ),
        ),
    )


WORKER = """
asked = job["experiment"]
recipe, batch = asked["step"]["recipe"], asked["batch_size"]
speed = 1000.0
if asked["precision"] == "bf16": speed *= 1.5
if "channels_last" in recipe: speed *= 1.3
if "fused" in recipe: speed *= 0.9
speed *= min(batch, 64) / 32
count = asked["steps"]
steps = list(range(1, count + 1))
started()
loss = [1.0 / step + 1e-4 * asked["seed"] for step in steps]
say(event="samples", step=steps, seconds=[0.01 * step for step in steps], loss=loss,
    samples_per_second=[speed] * count, learning_rate=[0.1] * count)
say(event="finished", summary=dict(steps=count, samples_per_second=speed, step_ms=1e3 * batch / speed,
    peak_resident_mib=4.0 * batch))
"""
"""BF16 and channels last gain, a fused optimizer loses, and batches gain up to 64."""
