"""This machine: its devices, its catalog, a run's environment, and the doctor's checks."""

from __future__ import annotations

import contextlib
import math
import os
import platform

import pynvml
import torch
from torch.nn.functional import cross_entropy

from engine import __version__
from engine.experiment.checks import Catalog, DeviceEntry, PrecisionEntry
from engine.experiment.experiment import Experiment, Precision
from engine.experiment.value import BYTES_PER_MIB
from engine.installation.hardware import Vendor, hardware_here
from engine.installation.installed import operating_system
from engine.protocol.events import Check, Environment
from engine.training.data.datasets import dataset_entries
from engine.training.failures import problem_of
from engine.training.measuring.sensors import start_nvml
from engine.training.models.build import SMALL_CNN, build_model, model_entries
from engine.training.models.libraries import library_entries
from engine.training.precision import (
    cpu_precisions,
    cuda_precisions,
    float32_mode,
    has_tensor_cores,
    other_accelerator_precisions,
    processor,
)
from engine.training.steps.recipe import build_step
from engine.words.numbers import memory_text


def environment_of(device: DeviceEntry) -> Environment:
    """Return the machine and its software now. CUDA and driver only if the device has them."""
    on_cuda = device.name.startswith("cuda")
    return Environment(
        device_name=device.title,
        device_memory_mib=device.memory_mib,
        torch=torch.__version__,
        cuda=torch.version.cuda or torch.version.hip if on_cuda else None,
        driver=nvidia_driver() if on_cuda else None,
        python=platform.python_version(),
        os=operating_system(),
        ammeter=__version__,
        # Slurm names it so; several nodes may have the same device
        node=os.environ.get("SLURMD_NODENAME"),
    )


def nvidia_driver() -> str | None:
    """Return the version of NVIDIA's driver. None without one."""
    # a machine without the driver's library is nothing unusual
    with contextlib.suppress(pynvml.NVMLError):
        start_nvml()
        return str(pynvml.nvmlSystemGetDriverVersion())
    return None


def device_entries() -> tuple[DeviceEntry, ...]:
    """Return every device, accelerators first and the CPU last. The first is the one of `auto`."""
    machine, others = processor(), other_accelerator_precisions()
    entries = []
    for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        card = torch.cuda.get_device_properties(index)
        capability, is_nvidia = (card.major, card.minor), torch.version.hip is None
        cores = is_nvidia and has_tensor_cores(card.name, capability)
        precisions = cuda_precisions(capability, card.name) if is_nvidia else others
        entries.append(
            _entry(f"cuda:{index}", card.name, card.total_memory / BYTES_PER_MIB, precisions, cores)
        )
    for index in range(torch.xpu.device_count() if torch.xpu.is_available() else 0):
        unit = torch.xpu.get_device_properties(index)
        entries.append(_entry(f"xpu:{index}", unit.name, unit.total_memory / BYTES_PER_MIB, others))
    if torch.backends.mps.is_available():
        entries.append(_entry("mps", f"{machine.title} GPU", machine.memory_mib, others))
    return (*entries, _entry("cpu", machine.title, machine.memory_mib, cpu_precisions(machine)))


def _entry(
    name: str, title: str, memory_mib: float, precisions: tuple[PrecisionEntry, ...], cores: bool = False
) -> DeviceEntry:
    return DeviceEntry(
        name=name, title=title, memory_mib=memory_mib, precisions=precisions, tensor_cores=cores
    )


def read_catalog() -> Catalog:
    """Return this machine's devices, and all models and datasets. Builds and downloads nothing."""
    return Catalog(
        devices=device_entries(),
        models=model_entries(),
        library_models=library_entries(),
        datasets=dataset_entries(),
        cores=os.cpu_count(),
    )


def examine_torch() -> tuple[Check, ...]:
    """Return the checks that need torch: the device, its Tensor Cores, BF16, and a step under AMP."""
    device = device_entries()[0]
    bf16 = device.precision(Precision.BF16)
    remark = bf16.reason or bf16.note
    cores = Check.note("Tensor Cores", "none, so mixed precision gains less")
    if device.tensor_cores:
        cores = Check.ok("Tensor Cores", "available for 16-bit matmuls")
    in_bf16 = remark or f"supported by {device.title}"
    return (
        _device_check(device),
        cores,
        Check(name="BF16", status="note" if remark else "ok", detail=in_bf16),
        _step_check(device),
    )


def _device_check(device: DeviceEntry) -> Check:
    memory = f"{device.title}, {memory_text(device.memory_mib)}"
    if device.is_gpu:
        driver = nvidia_driver()
        return Check.ok("Device", memory + (f", driver {driver}" if driver else ""))
    # a GPU of the vendor that this build of torch is for
    version = torch.version
    builds = {Vendor.NVIDIA: version.cuda, Vendor.AMD: version.hip, Vendor.INTEL: version.xpu}
    unseen = next((gpu for gpu in hardware_here().gpus if builds.get(gpu.vendor)), None)
    if unseen is None:
        return Check.ok("Device", f"{memory}. No GPU was found, so training runs on the CPU.")
    detail = f"{memory}. PyTorch does not detect the {unseen.name}, so training runs on the CPU."
    remedy = (
        "Restart the computer if its driver was updated. Unset CUDA_VISIBLE_DEVICES. Start a container "
        "with its GPUs (--gpus all)."
    )
    return Check.note("Device", detail, remedy)


def _step_check(entry: DeviceEntry) -> Check:
    precision = Precision.FP16 if entry.is_gpu else Precision.BF16
    name = f"A step under {precision.label}"
    try:
        loss = _one_step(torch.device(entry.name), precision)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong here is what the doctor is asked for
        return Check.of(name, problem_of(error))
    if not math.isfinite(loss):
        return Check.problem(name, f"completed, but the loss was {loss}")
    return Check.ok(name, f"forward and backward pass ran on {entry.name}")


def _one_step(device: torch.device, precision: Precision) -> float:
    experiment = Experiment(precision=precision)
    model = build_model(SMALL_CNN, image_size=28, channels=1, num_classes=10, seed=0)
    step = build_step(model, cross_entropy, experiment, device, is_convolutional=True)
    pictures = torch.randn(8, 1, 28, 28, device=device)
    labels = torch.arange(8, device=device)
    with float32_mode(precision):
        return float(step([(pictures, labels)])[0])
