"""Checks of the environment: variables, disks, shared memory, compilers, the C library and the store."""

from __future__ import annotations

import difflib
import json
import os
import platform
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import engine
from engine.experiment.problem import ProblemError
from engine.experiment.value import BYTES_PER_GIB, BYTES_PER_MIB
from engine.installation.builds import libc_problem
from engine.installation.installed import operating_system
from engine.protocol.events import Check
from engine.store.database import older_stores, open_database

_FOLDERS = ("AMMETER_HOME", "AMMETER_DATA", "AMMETER_ENGINE")
_KNOWN = (*_FOLDERS, "AMMETER_ENGINE_PACKAGES", "AMMETER_REMOTE", "AMMETER_UV", "AMMETER_WORKER")


def variable_checks(environment: Mapping[str, str]) -> tuple[Check, ...]:
    """Check Ammeter's variables, and paths that shadow PyTorch's libraries or Ammeter's packages."""
    checks = [
        _folder_check(name, environment[name]) for name in _FOLDERS if environment.get(name, "").strip()
    ]
    unknown = (name for name in sorted(environment) if name.startswith("AMMETER_"))
    checks += [_unknown(name) for name in unknown if name not in _KNOWN]
    if (uv := environment.get("AMMETER_UV")) and not Path(uv).is_file():
        detail = f"AMMETER_UV is {uv}, which is not a file."
        checks.append(Check.problem("Variable", detail, "Correct it, or unset it."))
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        if environment.get(name, "0").strip() in ("", "-1"):
            detail = f"{name} hides all GPUs from PyTorch."
            checks.append(Check.note("Variable", detail, "Unset it to train on a GPU."))
    checks.append(_libraries(environment.get("LD_LIBRARY_PATH", "")))
    checks.append(_packages(environment.get("PYTHONPATH", "")))
    return tuple(check for check in checks if check is not None)


def _folder_check(name: str, value: str) -> Check | None:
    path = Path(value.strip()).expanduser().absolute()
    existing = nearest(path)
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        detail = f"{name} is {path}, where no folder can be written."
        remedy = "Set it to a writable folder, or unset it."
        return Check.problem("Variable", detail, remedy)
    if path != existing:
        detail = f"{name} is {path}, which does not exist yet."
        remedy = "If your data is elsewhere, correct it. Otherwise the folder is created when needed."
        return Check.note("Variable", detail, remedy)
    return None


def _unknown(name: str) -> Check:
    near = difflib.get_close_matches(name, _KNOWN[:3], n=1)
    remedy = f"Did you mean {near[0]}?" if near else "Unset it."
    return Check.note("Variable", f"Ammeter has no variable {name}.", remedy)


_CUDA_LIBRARIES = ("libcudart", "libcublas", "libcudnn", "libnccl", "libnvrtc", "libtorch", "libcusparse")


def _libraries(paths: str) -> Check | None:
    for folder in filter(None, paths.split(":")):
        names = [path.name for kind in _CUDA_LIBRARIES for path in sorted(Path(folder).glob(f"{kind}*.so*"))]
        if names:
            detail = (
                f"LD_LIBRARY_PATH has {folder}, whose {names[0]} may be loaded in place of PyTorch's own."
            )
            remedy = "Unset LD_LIBRARY_PATH for Ammeter. PyTorch includes the CUDA libraries that it needs."
            return Check.note("Libraries", detail, remedy)
    return None


_PACKAGES = ("torch", "torchvision", "numpy", "PySide6", "triton", "nvidia", "pydantic")


def _packages(paths: str) -> Check | None:
    for folder in filter(None, paths.split(os.pathsep)):
        names = [name for name in _PACKAGES if (Path(folder) / name).is_dir()]
        if names:
            detail = f"PYTHONPATH has {folder}, whose {names[0]} is imported in place of Ammeter's own."
            return Check.note("Packages", detail, "Unset PYTHONPATH for Ammeter.")
    return None


_LOW_DISK_BYTES = 2 * BYTES_PER_GIB
_LOW_SHARED_BYTES = BYTES_PER_GIB


def disk_check(name: str, folder: Path, least_bytes: float = _LOW_DISK_BYTES) -> Check:
    """Check the free space of the disk that `folder` is, or will be, on."""
    free = shutil.disk_usage(nearest(folder)).free
    amount = f"{free / BYTES_PER_GIB:,.1f} GiB"
    if free >= least_bytes:
        return Check.ok(name, f"{amount} free at {folder}")
    detail = f"Only {amount} are free at {folder}."
    remedy = f"Free some space. At least {least_bytes / BYTES_PER_GIB:,.0f} GiB are recommended."
    return Check.note(name, detail, remedy)


def shared_memory_check(total_bytes: int | None) -> Check | None:
    """Check shared memory, often too small in a container. `total_bytes` is the size of /dev/shm."""
    if total_bytes is None or total_bytes >= _LOW_SHARED_BYTES:
        return None
    detail = f"/dev/shm has only {total_bytes / BYTES_PER_MIB:,.0f} MiB, which data loaders use for batches."
    remedy = "Start the container with --shm-size=8g or --ipc=host, or set data.workers to 0."
    return Check.note("Shared memory", detail, remedy)


_COMPILERS = {"win32": ("cl",)}
_GET_COMPILER = {
    "win32": "Install the Build Tools for Visual Studio with the workload for C++.",
    "darwin": "Install one with `xcode-select --install`.",
    "linux": "Install one (Debian, Ubuntu: sudo apt install g++, Fedora: sudo dnf install gcc-c++).",
}


def compiler_check(system: str, environment: Mapping[str, str]) -> Check | None:
    """Check for a C++ compiler on the PATH or in CXX, which torch.compile needs."""
    names = (*filter(None, [environment.get("CXX")]), *_COMPILERS.get(system, ("g++", "clang++", "c++")))
    if any(shutil.which(name, path=environment.get("PATH", "")) for name in names):
        return None
    detail = "No C++ compiler was found, so runs skip torch.compile."
    return Check.note("Compiler", detail, _GET_COMPILER.get(system, _GET_COMPILER["linux"]))


def libc_check(system: str, libc: tuple[str, str]) -> Check | None:
    """Check for glibc, which PyTorch needs on Linux. `libc` is name and version of the C library."""
    if not system.startswith("linux") or (problem := libc_problem(libc)) is None:
        return None
    return Check.of("C library", problem)


def store_check(path: Path) -> Check:
    """Check that the saved runs at `path` can be read and written."""
    if not path.exists() and os.access(nearest(path), os.W_OK):
        # a new store is made by whoever saves the first run
        return Check.ok("Saved runs", f"none yet at {path}")
    try:
        opened = open_database(path)
    except ProblemError as error:
        return Check.of("Saved runs", error.problem)
    opened.connection.close()
    if opened.unwritable is not None:
        return Check.of("Saved runs", opened.unwritable)
    notes = [*filter(None, [opened.moved]), *opened.notes]
    older = [f"of an older version: {place}" for place in older_stores(path)]
    detail = " ".join(notes) or ", ".join([str(path), *older])
    return Check(name="Saved runs", status="note" if notes else "ok", detail=detail)


def nearest(path: Path) -> Path:
    """Return the path itself, or the nearest folder above it that exists."""
    return next(folder for folder in (path, *path.parents) if folder.exists())


_KINDS = {
    "deb": "the .deb package",
    "run": "the single file",
    "flatpak": "the Flatpak",
    "windows": "the Windows installer",
    "macos": "the macOS application",
}
"""The kinds of package, as named in `package.json` next to the interpreter."""


def package_here(folder: Path = Path(engine.__file__).parents[1], prefix: Path = Path(sys.prefix)) -> str:
    """Return how Ammeter in `folder` was installed, for users. `prefix` is the interpreter's."""
    if (folder / "pyproject.toml").exists():
        return "a source checkout"
    try:
        name = str(json.loads((prefix / "package.json").read_text(encoding="utf-8"))["package"])
    except (OSError, ValueError, KeyError, TypeError):
        is_tool = any((prefix / receipt).exists() for receipt in ("uv-receipt.toml", "pipx_metadata.json"))
        return "a Python package installed by uv or pipx" if is_tool else "a Python package"
    return _KINDS.get(name, f"a package for {name}")


def package_checks() -> tuple[Check, ...]:
    """Report the package, the interpreter and the system."""
    python = f"Python {platform.python_version()}"
    return (
        Check.ok("Ammeter", f"{engine.__version__}, from {package_here()}"),
        Check.ok("System", f"{operating_system()}, {platform.machine()}, {python}"),
    )
