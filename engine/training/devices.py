"""The devices of this machine, as the catalog lists them."""

from __future__ import annotations

import torch

from engine.catalog import DeviceEntry
from engine.training.precision import cpu_precisions, cuda_precisions, other_accelerator_precisions
from engine.training.processor import processor

_TENSOR_CORES_SINCE = (7, 0)


def device_entries() -> tuple[DeviceEntry, ...]:
    """Every device, accelerators first and the CPU last; the first is what `auto` means."""
    return (*_cuda_entries(), *_xpu_entries(), *_mps_entries(), _cpu_entry())


def _cuda_entries() -> tuple[DeviceEntry, ...]:
    if not torch.cuda.is_available():
        return ()
    return tuple(_cuda_entry(index) for index in range(torch.cuda.device_count()))


def _cuda_entry(index: int) -> DeviceEntry:
    properties = torch.cuda.get_device_properties(index)
    capability = (properties.major, properties.minor)
    is_nvidia = torch.version.hip is None
    return DeviceEntry(
        name=f"cuda:{index}",
        title=properties.name,
        memory_mib=properties.total_memory / 2**20,
        tensor_cores=is_nvidia and capability >= _TENSOR_CORES_SINCE,
        precisions=cuda_precisions(capability) if is_nvidia else other_accelerator_precisions(),
    )


def _xpu_entries() -> tuple[DeviceEntry, ...]:
    if not torch.xpu.is_available():
        return ()
    found = [(index, torch.xpu.get_device_properties(index)) for index in range(torch.xpu.device_count())]
    return tuple(
        DeviceEntry(
            name=f"xpu:{index}",
            title=properties.name,
            memory_mib=properties.total_memory / 2**20,
            precisions=other_accelerator_precisions(),
        )
        for index, properties in found
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
        name="cpu",
        title=machine.title,
        memory_mib=machine.memory_mib,
        precisions=cpu_precisions(machine),
    )
