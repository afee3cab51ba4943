"""The PyTorch builds for this machine, and why each fits or not. uv decides, and this module explains.

Which builds a release of PyTorch has and which GPUs they support: the "PyTorch CUDA Support Matrix" in
https://github.com/pytorch/pytorch/blob/main/RELEASE.md, for 2.11 to 2.15 as in the issues 172663, 178665,
190355 and 190385 there. Its "+PTX", which newer GPUs could translate, is not in releases (pull request
188914 there), also of PyPI's 2.15.0 for x86-64 and for ARM. Which drivers and AMD GPUs uv accepts for which
build: LINUX_CUDA_DRIVERS, WINDOWS_CUDA_VERSIONS and LINUX_AMD_GPU_DRIVERS in
https://github.com/astral-sh/uv/blob/main/crates/uv-torch/src/backend.rs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from engine.experiment.problem import Kind, Problem, request_problem
from engine.installation.hardware import Gpu, Hardware, Vendor
from engine.installation.request import AUTOMATIC


@dataclass(frozen=True)
class Build:
    """A build of PyTorch, such as for CUDA 13.0, and why it is compatible with this machine or not.

    `backend` is uv's name of it ("cu130"). `download_bytes` is a rough size, or None if unknown. The exact
    size is in the plan of an installation.
    """

    backend: str
    title: str
    why: str
    fits: bool
    download_bytes: int | None = None


@dataclass(frozen=True)
class _Cuda:
    """A build of PyTorch for one CUDA version.

    `on_x86` and `on_arm` are the compute capabilities of its kernels. A GPU runs kernels of its own major
    version and the same or a lower minor version. `last_torch` is the last release with this build.
    `download_bytes` is the size of the download on Linux x86-64 with all required packages (PyTorch 2.7.1,
    2.9.1, 2.11.0 and 2.15.0).
    """

    backend: str
    on_x86: tuple[tuple[int, int], ...]
    on_arm: tuple[tuple[int, int], ...]
    download_bytes: int
    last_torch: str | None = None

    def capabilities(self, hardware: Hardware) -> tuple[tuple[int, int], ...]:
        """Return the compute capabilities of the build for that machine, ascending."""
        return self.on_arm if _machine(hardware) == "aarch64" else self.on_x86


_MAXWELL_TO_HOPPER = ((5, 0), (6, 0), (7, 0), (7, 5), (8, 0), (8, 6), (9, 0))
_TURING_TO_BLACKWELL = ((7, 5), (8, 0), (8, 6), (9, 0), (10, 0), (12, 0))
_AMPERE_TO_HOPPER = ((8, 0), (9, 0))
_AMPERE_TO_BLACKWELL = ((8, 0), (9, 0), (10, 0), (12, 0))
_WITH_THOR = ((8, 0), (9, 0), (10, 0), (11, 0), (12, 0))
_CUDA = {
    build.backend: build
    for build in (
        _Cuda("cu132", _TURING_TO_BLACKWELL, _WITH_THOR, 3_030_000_000),
        _Cuda("cu130", _TURING_TO_BLACKWELL, _WITH_THOR, 2_750_000_000),
        _Cuda("cu128", _TURING_TO_BLACKWELL, _AMPERE_TO_BLACKWELL, 4_100_000_000, last_torch="2.11"),
        _Cuda("cu126", _MAXWELL_TO_HOPPER, _AMPERE_TO_HOPPER, 3_030_000_000, last_torch="2.14"),
    )
}
"""Newest first."""

_LEAST_DRIVERS = {12: {"linux": "525.60.13", "win32": "528.33"}, 13: {"linux": "580", "win32": "580"}}
"""By CUDA's major version: its minor versions run on the same drivers ("CUDA Minor Version Compatibility" in
https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/)."""

_ROCM = "rocm7.2"
_ROCM_ARCHITECTURES = {
    f"gfx{name}"
    for name in "900 906 908 90a 942 950 1030 1100 1101 1102 1150 1151 1200 1201".split()  # noqa: SIM905
}
_XPU_NAMES = re.compile(r"\bArc\b|Data Center GPU Max|Ponte Vecchio", re.IGNORECASE)
"""https://docs.pytorch.org/docs/stable/notes/get_start_xpu.html; torch.xpu warns of other GPUs."""

_CPU_BYTES = {"linux": 205_000_000, "win32": 130_000_000, "darwin": 95_000_000}
"""torch 2.13.0+cpu for Linux, and PyPI's 2.11.0 for Windows and macOS, with all that they require."""


def builds_for(hardware: Hardware) -> tuple[Build, ...]:
    """Return all builds for this system: compatible builds first, the best at the top, then the CPU build,
    then incompatible builds.
    """
    system, is_x86 = hardware.system, _machine(hardware) == "x86_64"
    gpu_builds: list[Build] = []
    if system == "linux" or (system == "win32" and is_x86):
        gpu_builds += _cuda_builds(hardware)
    if system == "linux" and is_x86:
        gpu_builds.append(_build_of(_ROCM, Vendor.AMD, hardware))
    if system in ("linux", "win32") and is_x86:
        gpu_builds.append(_build_of("xpu", Vendor.INTEL, hardware))
    fitting = [build for build in gpu_builds if build.fits]
    return (*fitting, _cpu_build(hardware, fitting), *(build for build in gpu_builds if not build.fits))


def automatic_backend(hardware: Hardware, environment: Mapping[str, str] = os.environ) -> str:
    """Return the backend to request from uv by default: "auto", except where that would not use the GPU.

    uv checks the NVIDIA driver but not the GPU, treats every Intel display as one that XPU supports, and
    finds AMD GPUs only where the ROCm tools are installed.
    """
    if "UV_CUDA_DRIVER_VERSION" in environment or "UV_AMD_GPU_ARCHITECTURE" in environment:
        return AUTOMATIC
    best = builds_for(hardware)[0].backend
    return AUTOMATIC if best == _choice_of_uv(hardware) else best


def driver_problem(backend: str, hardware: Hardware) -> Problem | None:
    """Return the problem of an NVIDIA GPU or driver missing or too old for the build. None without CUDA."""
    cuda = _cuda_version(backend)
    if cuda is None or not (least := _LEAST_DRIVERS.get(cuda[0], {}).get(hardware.system)):
        return None
    gpus = [gpu.name for gpu in hardware.gpus if gpu.vendor is Vendor.NVIDIA]
    if not gpus:
        return request_problem("No NVIDIA GPU was found.", "Choose another build.")
    needs = f"{build_title(backend)} needs NVIDIA driver {least} or newer"
    if hardware.nvidia_driver is None:
        return request_problem(
            f"{needs}, and no driver was found for the {gpus[0]}.",
            "Install the NVIDIA driver, or choose the CPU build.",
        )
    if _version(hardware.nvidia_driver) >= _version(least):
        return None
    return request_problem(
        f"{needs}. Version {hardware.nvidia_driver} is installed.",
        "Update the NVIDIA driver, or choose a build for an older CUDA or the CPU build.",
    )


def gpu_problem(backend: str, gpu: Gpu, hardware: Hardware) -> Problem | None:
    """Return the problem if the build has no kernels for the GPU. None where that is unknown."""
    if gpu.vendor is Vendor.NVIDIA and (build := _CUDA.get(backend)) and gpu.capability is not None:
        return _capability_problem(build, gpu, gpu.capability, build.capabilities(hardware))
    if gpu.vendor is Vendor.AMD and backend == _ROCM and gpu.architecture not in _ROCM_ARCHITECTURES:
        if gpu.architecture is None:
            return request_problem(
                f"The AMD driver does not report the architecture of the {gpu.name}.",
                "Load the kernel driver amdgpu, or choose the CPU build.",
            )
        return request_problem(
            f"PyTorch for {build_title(backend)} has no kernels for the {gpu.text}.",
            "Choose the CPU build.",
        )
    if gpu.vendor is Vendor.INTEL and backend == "xpu" and not _XPU_NAMES.search(gpu.name):
        return request_problem(
            f"PyTorch for {build_title(backend)} supports Intel Arc and newer GPUs, and the {gpu.name} is "
            "not known to be one.",
            "Choose the CPU build.",
        )
    return None


def _capability_problem(
    build: _Cuda, gpu: Gpu, capability: tuple[int, int], known: tuple[tuple[int, int], ...]
) -> Problem | None:
    if any(major == capability[0] and minor <= capability[1] for major, minor in known):
        return None
    first, last = known[0], known[-1]
    relation, remedy = "not among", "Choose another build."
    if capability < first:
        relation, remedy = "older than", "Choose a build for an older CUDA, or the CPU build."
    elif capability > last:
        relation = "newer than"
        remedy = "Choose a build for a newer CUDA. Update the driver if that build needs it."
    return request_problem(
        f"The {gpu.text} is {relation} the GPUs that PyTorch for {build_title(build.backend)} supports "
        f"({_dotted(first)} to {_dotted(last)}).",
        remedy,
    )


def cpu_problem(hardware: Hardware) -> Problem | None:
    """Return the problem if the CPU does not support AVX2."""
    if hardware.has_avx2 is not False:
        return None
    return Problem(
        kind=Kind.REQUEST,
        message=f"The CPU {hardware.processor} does not support AVX2, which parts of PyTorch need.",
        remedy="Training may be slow or end with an illegal instruction. If so, use a newer machine.",
    )


_LEAST_GLIBC = (2, 28)


def libc_problem(libc: tuple[str, str]) -> Problem | None:
    """Return the problem if the C library `libc` (name, version) is too old for PyTorch, or not glibc."""
    name, found = libc
    numbers = tuple(int(part) for part in found.split(".")[:2] if part.isdigit())
    if name == "glibc" and numbers >= _LEAST_GLIBC:
        return None
    has = f"glibc {found}" if name == "glibc" else "a C library other than glibc"
    needed = ".".join(map(str, _LEAST_GLIBC))
    return Problem(
        kind=Kind.REQUEST,
        message=f"PyTorch needs glibc {needed} or newer. This system has {has}.",
        remedy="Use a newer system (Debian 10, Ubuntu 20.04, RHEL 8 or later), or a container with one.",
    )


def _choice_of_uv(hardware: Hardware) -> str:
    if hardware.system != "darwin" and hardware.nvidia_driver is not None:
        for backend in _CUDA:
            if driver_problem(backend, hardware) is None:
                return backend
        return "cpu"
    has_xpu = hardware.system in ("linux", "win32")
    return "xpu" if has_xpu and any(gpu.vendor is Vendor.INTEL for gpu in hardware.gpus) else "cpu"


def _cuda_builds(hardware: Hardware) -> list[Build]:
    gpus = [gpu for gpu in hardware.gpus if gpu.vendor is Vendor.NVIDIA]
    builds = []
    for backend, cuda in _CUDA.items():
        served = [gpu for gpu in gpus if gpu_problem(backend, gpu, hardware) is None]
        problem = driver_problem(backend, hardware)
        if problem is None and not served:
            problem = gpu_problem(backend, gpus[0], hardware)
        why = problem.message if problem else _why_cuda(cuda, served[0], hardware)
        size = cuda.download_bytes if hardware.system == "linux" else None
        builds.append((len(served), Build(backend, build_title(backend), why, problem is None, size)))
    return [build for _, build in sorted(builds, key=lambda entry: -entry[0])]


def _why_cuda(cuda: _Cuda, gpu: Gpu, hardware: Hardware) -> str:
    title = build_title(cuda.backend)
    why = f"Driver {hardware.nvidia_driver} runs {title}, and the build supports the {gpu.text}."
    return why if cuda.last_torch is None else f"{why} PyTorch {cuda.last_torch} is the last release with it."


def _build_of(backend: str, vendor: Vendor, hardware: Hardware) -> Build:
    gpus = [gpu for gpu in hardware.gpus if gpu.vendor is vendor]
    if not gpus:
        return Build(backend, build_title(backend), f"No {vendor} GPU was found.", False)
    for gpu in gpus:
        if (problem := gpu_problem(backend, gpu, hardware)) is None:
            return Build(backend, build_title(backend), f"The build supports the {gpu.text}.", True)
    assert problem is not None
    return Build(backend, build_title(backend), problem.message, False)


def _cpu_build(hardware: Hardware, fitting: list[Build]) -> Build:
    fits, title = True, "CPU only"
    if hardware.system == "darwin":
        title = "Apple GPU and CPU"
        fits = _machine(hardware) == "aarch64"
        why = f"Uses the GPU of the {hardware.processor} through MPS, and the CPU."
        if not fits:
            why = "PyTorch 2.2 was the last release for Intel Macs. Ammeter needs 2.11."
    elif fitting:
        why = "Runs everywhere, but does not use the GPU."
    else:
        why = "No GPU was found that PyTorch supports. Training uses the CPU."
        if hardware.gpus:
            why = "No PyTorch build supports the GPU of this machine. Training uses the CPU."
    return Build("cpu", title, why, fits, _CPU_BYTES.get(hardware.system))


def build_title(backend: str) -> str:
    """Return the build's name within a sentence: "CUDA 13.0", "the CPU"."""
    if cuda := _cuda_version(backend):
        return f"CUDA {cuda[0]}.{cuda[1]}"
    if backend.startswith("rocm"):
        return f"ROCm {backend.removeprefix('rocm')}"
    return {"xpu": "Intel XPU", "cpu": "the CPU"}.get(backend, backend)


def _cuda_version(backend: str) -> tuple[int, int] | None:
    """cu132 is 13.2."""
    match = re.fullmatch(r"cu(\d{2})(\d)", backend)
    return (int(match[1]), int(match[2])) if match else None


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text))


def _machine(hardware: Hardware) -> str:
    machine = hardware.machine.lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)
