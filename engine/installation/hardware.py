"""The hardware that decides which PyTorch build fits: GPUs, drivers and the CPU. Works without torch."""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any


class Vendor(StrEnum):
    """The maker of a GPU."""

    NVIDIA = "NVIDIA"
    AMD = "AMD"
    INTEL = "Intel"
    APPLE = "Apple"


@dataclass(frozen=True)
class Gpu:
    """A GPU. `capability` is NVIDIA's compute capability, `architecture` AMD's ("gfx1100")."""

    vendor: Vendor
    name: str
    capability: tuple[int, int] | None = None
    architecture: str | None = None

    @property
    def text(self) -> str:
        """The name with what decides its build: "NVIDIA L4 (compute capability 8.9)"."""
        kind = self.architecture
        if self.capability is not None:
            kind = "compute capability {}.{}".format(*self.capability)
        return f"{self.name} ({kind})" if kind else self.name


@dataclass(frozen=True)
class Hardware:
    """The hardware of a machine that decides which PyTorch build it needs.

    `system` is sys.platform, `machine` is for example "x86_64". `nvidia_driver` is the driver's version and
    `cuda_of_driver` the newest CUDA version that it supports. Both are None without a driver. `has_avx2` is
    None where it is unknown or does not apply, as on ARM.
    """

    system: str
    machine: str
    processor: str
    gpus: tuple[Gpu, ...] = ()
    nvidia_driver: str | None = None
    cuda_of_driver: tuple[int, int] | None = None
    has_avx2: bool | None = None


@dataclass(frozen=True)
class NvidiaDriver:
    """The NVIDIA driver's version, the newest CUDA that it supports, and its GPUs, as reported by NVML."""

    version: str
    cuda: tuple[int, int]
    gpus: tuple[Gpu, ...]


def output_of(command: Sequence[str]) -> str:
    """Return the output of a system program. It is empty if that is missing, fails or takes too long."""
    with suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(
            command,
            capture_output=True,
            check=True,
            timeout=_PATIENCE_SECONDS,
            encoding="utf-8",
            errors="replace",
            stdin=subprocess.DEVNULL,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        ).stdout
    return ""


def nvidia_driver_here() -> NvidiaDriver | None:
    """Return the NVIDIA driver and its GPUs. None without a working driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    try:
        cuda = pynvml.nvmlSystemGetCudaDriverVersion_v2()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        gpus = tuple(
            Gpu(
                Vendor.NVIDIA,
                str(pynvml.nvmlDeviceGetName(handle)),
                capability=pynvml.nvmlDeviceGetCudaComputeCapability(handle),
            )
            for handle in handles
        )
        # as in CUDA's headers: 12040 is 12.4
        return NvidiaDriver(pynvml.nvmlSystemGetDriverVersion(), (cuda // 1000, cuda % 1000 // 10), gpus)
    except pynvml.NVMLError:
        return None
    finally:
        pynvml.nvmlShutdown()


@dataclass(frozen=True)
class Sources:
    """The system interfaces that `hardware_here` reads. Tests replace them to simulate other machines."""

    system: str = sys.platform
    machine: str = platform.machine()
    root: Path = Path("/")
    nvidia: Callable[[], NvidiaDriver | None] = nvidia_driver_here
    output: Callable[[Sequence[str]], str] = output_of


def hardware_here(sources: Sources = Sources()) -> Hardware:
    """Return the GPUs and the CPU of this machine. Takes up to a few seconds on Windows."""
    if sources.system == "darwin":
        return _mac(sources)
    nvidia = sources.nvidia()
    processor, has_avx2, others = _windows(sources) if sources.system == "win32" else _linux(sources)
    if nvidia is not None and nvidia.gpus:
        others = [gpu for gpu in others if gpu.vendor is not Vendor.NVIDIA]
    return Hardware(
        system=sources.system,
        machine=sources.machine,
        processor=processor or sources.machine,
        gpus=(*(nvidia.gpus if nvidia else ()), *others),
        nvidia_driver=nvidia.version if nvidia else None,
        cuda_of_driver=nvidia.cuda if nvidia else None,
        has_avx2=has_avx2,
    )


_PATIENCE_SECONDS = 20.0
_VENDORS = {0x10DE: Vendor.NVIDIA, 0x1002: Vendor.AMD, 0x8086: Vendor.INTEL}
_DISPLAYS = 0x03  # PCI's class of display controllers: GPUs with and without a display output
_Reading = tuple[str, bool | None, list[Gpu]]


def _linux(sources: Sources) -> _Reading:
    processor, has_avx2 = "", None
    with suppress(OSError):
        text = (sources.root / "proc/cpuinfo").read_text("utf-8", errors="replace")
        fields = dict(re.findall(r"^(model name|flags)\s*: (.*)$", text, re.MULTILINE))
        processor = fields.get("model name", "")
        has_avx2 = "avx2" in fields["flags"].split() if "flags" in fields else None
    return processor, has_avx2, list(_pci_gpus(sources.root))


def _pci_gpus(root: Path) -> Iterator[Gpu]:
    architectures = _amd_architectures(root)
    for device in sorted((root / "sys/bus/pci/devices").glob("*")):
        with suppress(OSError, ValueError):
            kind, vendor, model = (
                int((device / name).read_text(), 16) for name in ("class", "vendor", "device")
            )
            if kind >> 16 == _DISPLAYS and vendor in _VENDORS:
                name = _pci_name(root, vendor, model) or f"GPU {vendor:04x}:{model:04x}"
                yield Gpu(_VENDORS[vendor], name, architecture=architectures.get((vendor, model)))


def _amd_architectures(root: Path) -> dict[tuple[int, int], str]:
    architectures = {}
    for file in (root / "sys/class/kfd/kfd/topology/nodes").glob("*/properties"):
        with suppress(OSError, KeyError, ValueError):
            values = dict(line.split() for line in file.read_text().splitlines())
            version = int(values["gfx_target_version"])
            if version:  # the CPU is a node too
                # 90010 is gfx90a, 110000 is gfx1100
                name = f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"
                architectures[int(values["vendor_id"]), int(values["device_id"])] = name
    return architectures


def _pci_name(root: Path, vendor: int, model: int) -> str | None:
    for place in ("usr/share/misc/pci.ids", "usr/share/hwdata/pci.ids"):
        with suppress(OSError):
            text = (root / place).read_text("utf-8", errors="replace")
            vendors = re.search(rf"^{vendor:04x}  .*\n((?:[\t#].*\n)*)", text, re.MULTILINE)
            entry = re.search(rf"^\t{model:04x}  (.*)$", vendors[1], re.MULTILINE) if vendors else None
            if entry:
                marketed = re.search(r"\[(.+)\]", entry[1])
                return marketed[1] if marketed else entry[1]
    return None


_CIM = (
    "ConvertTo-Json -Compress @{"
    "gpus=@(Get-CimInstance Win32_VideoController|Select-Object Name,PNPDeviceID);"
    "processor=(Get-CimInstance Win32_Processor|Select-Object -First 1).Name}"
)
_PF_AVX2_INSTRUCTIONS_AVAILABLE = 40


def _windows(sources: Sources) -> _Reading:
    has_avx2 = None
    if sys.platform == "win32" and sources.machine.lower() in ("amd64", "x86_64"):
        import ctypes

        has_avx2 = bool(ctypes.windll.kernel32.IsProcessorFeaturePresent(_PF_AVX2_INSTRUCTIONS_AVAILABLE))
    said: dict[str, Any] = {}
    with suppress(ValueError):
        said = json.loads(sources.output(["powershell", "-NoProfile", "-NonInteractive", "-Command", _CIM]))
    gpus = []
    for card in said.get("gpus", []):
        vendor = re.search(r"VEN_([0-9A-F]{4})", str(card.get("PNPDeviceID")), re.IGNORECASE)
        if vendor and (known := _VENDORS.get(int(vendor[1], 16))):
            gpus.append(Gpu(known, str(card.get("Name"))))
    return str(said.get("processor") or "").strip(), has_avx2, gpus


def _mac(sources: Sources) -> Hardware:
    processor = sources.output(["sysctl", "-n", "machdep.cpu.brand_string"]).strip()
    is_apple = sources.machine == "arm64"
    features = "" if is_apple else sources.output(["sysctl", "-n", "machdep.cpu.leaf7_features"])
    return Hardware(
        system=sources.system,
        machine=sources.machine,
        processor=processor or sources.machine,
        gpus=(Gpu(Vendor.APPLE, processor or "Apple GPU"),) if is_apple else (),
        has_avx2="AVX2" in features.split() if features else None,
    )
