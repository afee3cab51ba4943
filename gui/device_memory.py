"""How much of the device's memory is in use, by all programs, read every other second without torch."""

from __future__ import annotations

import logging

import psutil
from PySide6.QtCore import QObject, QTimer, Signal

from engine.catalog import DeviceEntry

_log = logging.getLogger(__name__)
_EVERY_MS = 2_000
_BYTES_PER_GIB = 1024**3


class DeviceMemory(QObject):
    """`read` carries the fraction in use (0 to 1; None where it is unknown) and the words for it.

    A GPU is asked through NVML, a CPU's memory through the system.
    """

    read = Signal(object, str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._device: DeviceEntry | None = None
        self._timer = QTimer(self, interval=_EVERY_MS)
        self._timer.timeout.connect(self._read)

    def start(self, device: DeviceEntry) -> None:
        """Watches this device from now on."""
        self._device = device
        self._read()
        self._timer.start()

    def stop(self) -> None:
        self._timer.stop()

    def _read(self) -> None:
        assert self._device is not None
        used = _gpu_used_bytes(self._device.name) if self._device.is_gpu else _system_used_bytes()
        if used is None:
            self._timer.stop()
            self.read.emit(None, "")
            return
        fraction = used / (self._device.memory_mib * 1024**2)
        self.read.emit(min(fraction, 1.0), f"{used / _BYTES_PER_GIB:.1f} GiB in use")


def _system_used_bytes() -> int:
    memory = psutil.virtual_memory()
    return int(memory.total - memory.available)


def _gpu_used_bytes(name: str) -> int | None:
    kind, _, number = name.partition(":")
    if kind != "cuda":
        return None
    # imported where there is a card to ask: it would be a twentieth of the window's start
    import pynvml

    try:
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(int(number or 0))
        return int(pynvml.nvmlDeviceGetMemoryInfo(handle).used)
    except pynvml.NVMLError as error:
        _log.info("The driver does not say how much memory is in use: %s", error)
        return None
