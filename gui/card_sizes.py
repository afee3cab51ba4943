"""Which cards a search for the largest batch is offered for: smaller ones than the device. No Qt."""

from __future__ import annotations

from engine.catalog import DeviceEntry

_GPU_SIZES = (2.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 48.0, 80.0)
_CPU_SIZES = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""A CPU has no card: these are limits for the worker, up to half the machine's memory."""
_USUAL_CPU_GIB = 1.0
_MOST = 6


def offered_gib(device: DeviceEntry) -> tuple[float, ...]:
    """The sizes in GiB that make sense on the device, smallest first."""
    gib = device.memory_mib / 1024
    if device.is_gpu:
        return tuple(size for size in _GPU_SIZES if size < gib)[-_MOST:]
    return tuple(size for size in _CPU_SIZES if size <= gib / 2)[:_MOST] or (round(gib / 2, 2),)


def usual_gib(device: DeviceEntry | None) -> float | None:
    """The limit where none was chosen; None for a device whose own memory is one."""
    if device is None or device.name != "cpu":
        return None
    sizes = offered_gib(device)
    return next((size for size in reversed(sizes) if size <= _USUAL_CPU_GIB), sizes[0])
