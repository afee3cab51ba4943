"""This machine: the devices of the catalog, and the environment of a run.

The environment is the device, and the versions of the driver, the system and the libraries.
"""

from __future__ import annotations

import contextlib
import platform

import pynvml
import torch

from engine import __version__
from engine.experiment.checks import DeviceEntry
from engine.experiment.value import BYTES_PER_MIB
from engine.installation.installed import operating_system
from engine.protocol.events import Environment
from engine.training.precision import (
    cpu_precisions,
    cuda_precisions,
    has_tensor_cores,
    other_accelerator_precisions,
    processor,
)


def environment_of(device: DeviceEntry) -> Environment:
    """The machine and its software now; CUDA and driver only where the device has them."""
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
    )


def nvidia_driver() -> str | None:
    """The version of NVIDIA's driver; None without one."""
    # a machine without the driver's library is nothing unusual
    with contextlib.suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        try:
            return str(pynvml.nvmlSystemGetDriverVersion())
        finally:
            pynvml.nvmlShutdown()
    return None


def device_entries() -> tuple[DeviceEntry, ...]:
    """Every device, accelerators first and the CPU last; the first is what `auto` means."""
    return (*_cuda_entries(), *_xpu_entries(), *_mps_entries(), _cpu_entry())


def _cuda_entries() -> tuple[DeviceEntry, ...]:
    if not torch.cuda.is_available():
        return ()
    return tuple(_cuda_entry(index) for index in range(torch.cuda.device_count()))


def _cuda_entry(index: int) -> DeviceEntry:
    properties = torch.cuda.get_device_properties(index)
    name, capability = properties.name, (properties.major, properties.minor)
    is_nvidia = torch.version.hip is None
    return DeviceEntry(
        name=f"cuda:{index}",
        title=name,
        memory_mib=properties.total_memory / BYTES_PER_MIB,
        tensor_cores=is_nvidia and has_tensor_cores(name, capability),
        precisions=cuda_precisions(capability, name) if is_nvidia else other_accelerator_precisions(),
    )


def _xpu_entries() -> tuple[DeviceEntry, ...]:
    if not torch.xpu.is_available():
        return ()
    devices = [(index, torch.xpu.get_device_properties(index)) for index in range(torch.xpu.device_count())]
    return tuple(
        DeviceEntry(
            name=f"xpu:{index}",
            title=properties.name,
            memory_mib=properties.total_memory / BYTES_PER_MIB,
            precisions=other_accelerator_precisions(),
        )
        for index, properties in devices
    )


def _mps_entries() -> tuple[DeviceEntry, ...]:
    if not torch.backends.mps.is_available():
        return ()
    machine = processor()
    entry = DeviceEntry(
        name="mps",
        title=f"{machine.title} GPU",
        memory_mib=machine.memory_mib,
        precisions=other_accelerator_precisions(),
    )
    return (entry,)


def _cpu_entry() -> DeviceEntry:
    machine = processor()
    return DeviceEntry(
        name="cpu", title=machine.title, memory_mib=machine.memory_mib, precisions=cpu_precisions(machine)
    )
