"""The doctor, which checks whether this machine is ready, and the catalog of what it offers."""

from __future__ import annotations

import math

import torch
from torch.nn.functional import cross_entropy

from engine.experiment.checks import Catalog, DeviceEntry
from engine.experiment.experiment import Experiment, Precision
from engine.installation.hardware import Gpu, Vendor, hardware_here
from engine.protocol.events import Check
from engine.training.data.datasets import dataset_entries
from engine.training.failures import problem_of
from engine.training.machine import device_entries, nvidia_driver
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


def examine_torch() -> tuple[Check, ...]:
    """The checks that need torch: the device, its Tensor Cores, BF16, and a step under AMP."""
    device = device_entries()[0]
    return (
        _device_check(device),
        _tensor_core_check(device),
        _precision_check(device, Precision.BF16),
        _step_check(device),
    )


def _device_check(device: DeviceEntry) -> Check:
    memory = f"{device.title}, {memory_text(device.memory_mib)}"
    if device.is_gpu:
        driver = nvidia_driver()
        return Check(name="Device", status="ok", detail=memory + (f", driver {driver}" if driver else ""))
    if (card := _unseen_card()) is not None:
        return Check(
            name="Device",
            status="note",
            detail=f"{memory}; PyTorch does not see the {card.name}, so training runs on the CPU",
            remedy="Restart the computer if its driver was updated; unset CUDA_VISIBLE_DEVICES; start a "
            "container with its graphics cards (--gpus all).",
        )
    return Check(name="Device", status="ok", detail=f"{memory}; no GPU found, so training runs on the CPU")


def _unseen_card() -> Gpu | None:
    """A card of the vendor that this build of torch is for."""
    builds = {
        Vendor.NVIDIA: torch.version.cuda,
        Vendor.AMD: torch.version.hip,
        Vendor.INTEL: torch.version.xpu,
    }
    return next((gpu for gpu in hardware_here().gpus if builds.get(gpu.vendor)), None)


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
        return Check(name=name, status="problem", detail=problem.message, remedy=problem.remedy)
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
