"""What a run was measured on: the device, and the versions of all that took part."""

from __future__ import annotations

import contextlib
import platform

import pynvml
import torch

from engine import __version__
from engine.catalog import DeviceEntry
from engine.events import Environment


def environment_of(device: DeviceEntry) -> Environment:
    """The machine and the software, as of now; CUDA and driver only where the device has them."""
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
    # A machine without the driver's library is ordinary, and the answer is then that there is none.
    with contextlib.suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        try:
            return str(pynvml.nvmlSystemGetDriverVersion())
        finally:
            pynvml.nvmlShutdown()
    return None


def operating_system() -> str:
    """The operating system's name and version, such as "Ubuntu 24.04.1 LTS" or "Windows 11"."""
    if platform.system() == "Linux":
        with contextlib.suppress(OSError):
            return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    if platform.system() == "Darwin":
        return f"macOS {platform.mac_ver()[0]}"
    return f"{platform.system()} {platform.release()}"
