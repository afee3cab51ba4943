"""The doctor, which checks whether this machine is ready, and the catalog of what it offers."""

from __future__ import annotations

import math
import platform
import shutil
from pathlib import Path

import torch
import torchvision
from torch.nn.functional import cross_entropy

from engine import __version__
from engine.experiment.checks import Catalog, DeviceEntry
from engine.experiment.experiment import Experiment, Precision
from engine.experiment.paths import data_folder
from engine.experiment.value import BYTES_PER_GIB
from engine.protocol.events import Check
from engine.training.data.datasets import dataset_entries
from engine.training.failures import problem_of
from engine.training.machine import device_entries, nvidia_driver, operating_system
from engine.training.models.build import SMALL_CNN, build_model, model_entries
from engine.training.models.libraries.names import library_entries
from engine.training.precision import float32_mode
from engine.training.steps.recipe import build_step
from engine.words.numbers import memory_text


def read_catalog() -> Catalog:
    """This machine's devices, and all models and datasets. Builds and downloads nothing."""
    return Catalog(
        devices=device_entries(),
        models=model_entries(),
        library_models=library_entries(),
        datasets=dataset_entries(),
    )


_LOW_DISK_GIB = 2.0


def examine() -> tuple[Check, ...]:
    """The doctor's report: versions, device, Tensor Cores, BF16, a real step under AMP, and the disk."""
    device = device_entries()[0]
    return (
        Check(name="Ammeter", status="ok", detail=f"{__version__}, Python {platform.python_version()}"),
        Check(name="System", status="ok", detail=operating_system()),
        Check(
            name="PyTorch",
            status="ok",
            detail=f"{torch.__version__}, torchvision {torchvision.__version__}",
        ),
        _device_check(device),
        _tensor_core_check(device),
        _precision_check(device, Precision.BF16),
        _step_check(device),
        _disk_check(data_folder()),
    )


def _device_check(device: DeviceEntry) -> Check:
    memory = f"{device.title}, {memory_text(device.memory_mib)}"
    if device.is_gpu:
        driver = nvidia_driver()
        return Check(name="Device", status="ok", detail=memory + (f", driver {driver}" if driver else ""))
    return Check(name="Device", status="note", detail=f"{memory}; no GPU found, so training runs on the CPU")


def _tensor_core_check(device: DeviceEntry) -> Check:
    if device.tensor_cores:
        return Check(name="Tensor Cores", status="ok", detail="available: 16-bit products run on them")
    return Check(name="Tensor Cores", status="note", detail="none: expect less from mixed precision")


def _precision_check(device: DeviceEntry, precision: Precision) -> Check:
    entry = device.precision(precision)
    remark = entry.reason or entry.note
    return Check(
        name=precision.value.upper(),
        status="note" if remark else "ok",
        detail=remark or f"{device.title} computes in it",
    )


def _step_check(entry: DeviceEntry) -> Check:
    precision = Precision.FP16 if entry.is_gpu else Precision.BF16
    name = f"A step under {precision.label}"
    try:
        loss = _one_step(torch.device(entry.name), precision)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong here is what the doctor is asked for
        problem = problem_of(error)
        return Check(name=name, status="problem", detail=f"{problem.message} {problem.remedy}")
    if not math.isfinite(loss):
        return Check(name=name, status="problem", detail=f"it ran, but its loss was {loss}")
    return Check(name=name, status="ok", detail=f"forward and backward ran on {entry.name}")


def _one_step(device: torch.device, precision: Precision) -> float:
    experiment = Experiment(precision=precision)
    model = build_model(SMALL_CNN, image_size=28, channels=1, num_classes=10, seed=0)
    step = build_step(model, cross_entropy, experiment, device, is_convolutional=True)
    pictures = torch.randn(8, 1, 28, 28, device=device)
    labels = torch.arange(8, device=device)
    with float32_mode(precision):
        return float(step([(pictures, labels)])[0])


def _disk_check(folder: Path) -> Check:
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free_gib = shutil.disk_usage(existing).free / BYTES_PER_GIB
    is_low = free_gib < _LOW_DISK_GIB
    return Check(
        name="Disk", status="note" if is_low else "ok", detail=f"{free_gib:.1f} GiB free at {folder}"
    )
