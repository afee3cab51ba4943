"""The doctor: checks whether the package, the machine and PyTorch are ready, with a fix for each problem."""

from __future__ import annotations

import difflib
import getpass
import json
import os
import platform
import re
import shutil
import socket
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import engine
from engine.doctor.display import display_problem, known_platforms
from engine.experiment.paths import data_folder, store_path
from engine.experiment.problem import Problem, ProblemError
from engine.experiment.value import BYTES_PER_GIB, BYTES_PER_MIB
from engine.installation.builds import builds_for, cpu_problem, driver_problem, gpu_problem, libc_problem
from engine.installation.hardware import Hardware, Vendor, hardware_here
from engine.installation.installed import (
    Engine,
    State,
    engine_here,
    engines_folder,
    operating_system,
    torch_version,
)
from engine.protocol import jobs
from engine.protocol.events import Check, Examined, Failed
from engine.store.database import older_stores, open_database
from engine.worker.launcher import Launcher, iterate

_FOLDERS = ("AMMETER_HOME", "AMMETER_DATA", "AMMETER_ENGINE")
_KNOWN = (*_FOLDERS, "AMMETER_ENGINE_PACKAGES", "AMMETER_REMOTE", "AMMETER_UV", "AMMETER_WORKER")


def variable_checks(environment: Mapping[str, str]) -> tuple[Check, ...]:
    """Check Ammeter's variables, and paths that shadow PyTorch's libraries or Ammeter's packages."""
    checks = [
        _folder_check(name, environment[name]) for name in _FOLDERS if environment.get(name, "").strip()
    ]
    unknown = (name for name in sorted(environment) if name.startswith("AMMETER_"))
    checks += [_unknown_variable_check(name) for name in unknown if name not in _KNOWN]
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


def _unknown_variable_check(name: str) -> Check:
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


_ENGINE_BYTES = 12 * BYTES_PER_GIB  # roughly what downloading and unpacking the largest build needs


def examine(launcher: Launcher) -> tuple[Check, ...]:
    """Run all checks."""
    return (*own_checks(), *worker_checks(launcher))


def own_checks() -> tuple[Check, ...]:
    """Run the checks that need neither torch nor a window."""
    environment, system = os.environ, sys.platform
    engine, hardware = engine_here(), hardware_here()
    shared = Path("/dev/shm")
    room = _ENGINE_BYTES if not engine.is_usable else 0.0
    checks = (
        *package_checks(),
        libc_check(system, platform.libc_ver()),
        *engine_checks(engine, hardware),
        *desktop_checks(environment, system),
        *variable_checks(environment),
        store_check(store_path()),
        disk_check("Disk", data_folder()),
        disk_check("Disk for PyTorch", engines_folder(), room),
        shared_memory_check(shutil.disk_usage(shared).total if shared.is_dir() else None),
        compiler_check(system, environment),
    )
    return tuple(check for check in checks if check is not None)


def worker_checks(launcher: Launcher, is_unwanted: Callable[[], bool] = lambda: False) -> tuple[Check, ...]:
    """Run the checks that need torch, in a worker. None without a usable PyTorch: see `own_checks`.

    The worker is stopped once `is_unwanted`, polled several times a second, returns True.
    """
    if not engine_here().is_usable:
        return ()
    try:
        return _answer(launcher, is_unwanted)
    except ProblemError as error:
        return (Check.of("Worker", error.problem),)


def _answer(launcher: Launcher, is_unwanted: Callable[[], bool]) -> tuple[Check, ...]:
    with closing(launcher.start(jobs.Examine())) as session:
        for event in iterate(session):
            if isinstance(event, Examined):
                return event.checks
            if isinstance(event, Failed):
                raise ProblemError(event.problem, detail=event.detail)
            if is_unwanted():
                session.stop()
    return ()


_SCALES = {
    "QT_SCALE_FACTOR": "which multiplies the desktop's scaling",
    "QT_SCREEN_SCALE_FACTORS": "which replaces the desktop's scaling",
    "QT_AUTO_SCREEN_SCALE_FACTOR": "which was for older versions of Qt and can switch scaling off",
    "QT_ENABLE_HIGHDPI_SCALING": "which can switch scaling off",
    "QT_SCALE_FACTOR_ROUNDING_POLICY": "which may round a fractional scale, such as 150%",
    "QT_FONT_DPI": "which changes the size of all text",
}
"""Variables that often stay set from another program or screen, and their effect."""


def desktop_checks(
    environment: Mapping[str, str],
    system: str,
    platforms: Collection[str] | None = None,
    find_problem: Callable[[Mapping[str, str]], Problem | None] = display_problem,
) -> tuple[Check, ...]:
    """Check the display and its settings. `platforms` are Qt's, by default those of the installed PySide6."""
    checks = []
    if system.startswith("linux"):
        problem = find_problem(environment)
        if problem is not None:
            status = "note" if problem.key == "display" else "problem"
            checks.append(Check(name="Display", status=status, detail=problem.message, remedy=problem.remedy))
        checks += _wayland(environment, known_platforms() if platforms is None else platforms)
    for name, effect in _SCALES.items():
        if value := environment.get(name):
            remedy = "Unset it if text or controls have the wrong size."
            checks.append(Check.note("Scaling", f"{name} is set to {value}, {effect}.", remedy))
    return tuple(checks) or (Check.ok("Display", "a window can be opened"),)


_XWAYLAND = " The window uses XWayland, where a fractional scale looks blurred."


def _wayland(environment: Mapping[str, str], platforms: Collection[str]) -> list[Check]:
    is_wayland = environment.get("XDG_SESSION_TYPE") == "wayland" or bool(environment.get("WAYLAND_DISPLAY"))
    chosen = environment.get("QT_QPA_PLATFORM", "")
    if not is_wayland:
        return []
    if platforms and "wayland" not in platforms:
        detail = "This is a Wayland session, but Qt has no plugin for Wayland."
        remedy = "Install it (Debian, Ubuntu: sudo apt install qt6-wayland), or log in to an X11 session."
        if environment.get("DISPLAY"):
            detail += _XWAYLAND
        status = "note" if environment.get("DISPLAY") else "problem"
        return [Check(name="Wayland", status=status, detail=detail, remedy=remedy)]
    if chosen.startswith("xcb") or (not chosen and not environment.get("WAYLAND_DISPLAY")):
        reason = f"QT_QPA_PLATFORM is {chosen}" if chosen else "WAYLAND_DISPLAY is not set"
        detail = f"This is a Wayland session, but {reason}.{_XWAYLAND}"
        remedy = (
            "Unset QT_QPA_PLATFORM." if chosen else "Start Ammeter from the desktop, or set WAYLAND_DISPLAY."
        )
        return [Check.note("Wayland", detail, remedy)]
    return []


_CHOOSE = "Change the build in Help > PyTorch, or with `ammeter engine install --backend {}`."
_OWN_BUILD = "Change the build with `uv pip install --reinstall --torch-backend {} torch torchvision`."


def engine_checks(engine: Engine, hardware: Hardware) -> tuple[Check, ...]:
    """Check PyTorch, its build, and every mismatch with the hardware."""
    checks = [_engine_check(engine), *_hardware_checks(hardware)]
    if engine.is_usable:
        checks += _build_checks(engine, hardware)
    return tuple(checks)


def _engine_check(engine: Engine) -> Check:
    if engine.problem is not None:
        return Check.of("PyTorch", engine.problem)
    backend = backend_of(engine)
    words = [f"PyTorch {torch_version(engine) or 'of unknown version'}"]
    if (vision := _vision(engine)) is not None:
        words.append(f"torchvision {vision}")
    words.append(f"build {backend}" if backend else "a build of unknown kind")
    words.append("in Ammeter's own environment" if engine.state is State.OWN else "installed by Ammeter")
    return Check.ok("PyTorch", ", ".join(words))


def _vision(engine: Engine) -> str | None:
    if engine.installation is not None:
        return engine.installation.packages.get("torchvision")
    try:
        return version("torchvision")
    except PackageNotFoundError:
        return None


def backend_of(engine: Engine) -> str | None:
    """Return uv's name of the PyTorch build, such as "cu130". None if unknown."""
    if engine.installation is not None:
        return engine.installation.backend
    spec = find_spec("torch") if engine.state is State.OWN else None
    return backend_in(Path(spec.origin).with_name("version.py")) if spec and spec.origin else None


_VERSION = re.compile(r"^(cuda|hip|xpu)\b[^=\n]*= *'(\d+)\.(\d+)", re.MULTILINE)


def backend_in(description: Path) -> str | None:
    """Return uv's name of the build that the file torch/version.py describes, without running the file."""
    try:
        match = _VERSION.search(description.read_text(encoding="utf-8"))
    except OSError:
        return None
    if match is None:
        return "cpu"
    kind, major, minor = match.groups()
    return {"cuda": f"cu{major}{minor}", "hip": f"rocm{major}.{minor}", "xpu": "xpu"}[kind]


def _hardware_checks(hardware: Hardware) -> list[Check]:
    checks = [Check.ok("CPU", hardware.processor or hardware.machine)]
    if (problem := cpu_problem(hardware)) is not None:
        checks = [Check.note("CPU", problem.message, problem.remedy)]
    names = [gpu.text for gpu in hardware.gpus]
    driver = f", driver {hardware.nvidia_driver}" if hardware.nvidia_driver else ""
    if hardware.cuda_of_driver is not None:
        driver += " for CUDA up to {}.{}".format(*hardware.cuda_of_driver)
    detail = ", ".join(names) + driver if names else "No GPU was found. Training uses the CPU."
    checks.append(Check(name="GPU", status="ok" if names else "note", detail=detail))
    nvidia = [gpu.name for gpu in hardware.gpus if gpu.vendor is Vendor.NVIDIA]
    if nvidia and hardware.nvidia_driver is None:
        checks.append(_no_driver(nvidia[0], hardware.system))
    return checks


def _no_driver(gpu: str, system: str) -> Check:
    how = (
        "Install the NVIDIA driver from https://www.nvidia.com/drivers, and restart."
        if system == "win32"
        else "Install the NVIDIA driver (Ubuntu: sudo ubuntu-drivers install, Debian: sudo apt install "
        "nvidia-driver), and restart. Start a container with the NVIDIA Container Toolkit."
    )
    detail = f"No working driver was found for the {gpu}. Training uses the CPU."
    return Check.problem("Driver", detail, how)


_VENDORS = {"cu": Vendor.NVIDIA, "rocm": Vendor.AMD, "xpu": Vendor.INTEL}  # by the start of a build's name


def _build_checks(engine: Engine, hardware: Hardware) -> list[Check]:
    backend, best = backend_of(engine), builds_for(hardware)[0]
    if backend is None:
        return []
    remedy = ""
    if best.fits and best.backend != backend:
        remedy = (_OWN_BUILD if engine.state is State.OWN else _CHOOSE).format(best.backend)
    vendor = next((vendor for start, vendor in _VENDORS.items() if backend.startswith(start)), None)
    unsupported = [gpu_problem(backend, gpu, hardware) for gpu in hardware.gpus if gpu.vendor is vendor]
    problems = [] if None in unsupported else [problem for problem in unsupported if problem is not None]
    if hardware.nvidia_driver is not None:
        problems = [*filter(None, [driver_problem(backend, hardware)]), *problems]
    if problems:
        detail, remedy = problems[0].message, remedy or problems[0].remedy
    elif backend == "cpu" and remedy:
        detail = f"The CPU build of PyTorch is installed, although {best.title} fits. {best.why}"
    else:
        return []
    return [Check.problem("Build", detail, remedy)]


_MARKS = {"ok": "ok", "note": "note", "problem": "**problem**"}
_HIDDEN = "…"
_COMMON = frozenset({"root", "user", "users", "admin", "ammeter", "localhost", "home", "linux", "python"})
"""Names that identify nobody, and occur in sentences."""
_SYSTEM = ("/usr/", "/lib", "/dev/", "/etc/", "/bin", "/sbin", "/proc/", "/sys/")


@dataclass(frozen=True)
class Private:
    """The texts to hide in a report: the home folder, the user's and machine's names, and private paths."""

    home: str
    names: tuple[str, ...]
    paths: tuple[str, ...]


def private_here(environment: Mapping[str, str] = os.environ) -> Private:
    """Return the private text of this user on this machine."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a container's user without an entry
        user = ""
    host = socket.gethostname()
    values = (part for value in environment.values() for part in value.split(os.pathsep))
    own = (sys.prefix, sys.base_prefix, Path(__file__).parents[2], engines_folder(), data_folder())
    paths = (*values, *map(str, own))
    return Private(str(Path.home()), (user, host, host.partition(".")[0]), tuple(map(str.strip, paths)))


def report_text(checks: Sequence[Check], private: Private | None = None) -> str:
    """Return the checks as Markdown, without the user's names and paths."""
    private = private or private_here()
    lines = ["| Check | | Found | What to do |", "| --- | --- | --- | --- |"]
    for check in checks:
        words = (check.name, _MARKS[check.status], check.detail, check.remedy)
        hidden = (_without_private(text, private).replace("|", "\\|") for text in words)
        lines.append("| " + " | ".join(" ".join(text.split()) for text in hidden) + " |")
    return "\n".join(lines) + "\n"


_PATH = re.compile(
    r"(?<![\w:/.~])(?:/[\w.+@%~-]+(?:/[\w.+@%~-]+)+/?|[A-Za-z]:[\\/][^\s'\"|;,]+|\\\\[^\s'\"|;,]+)"
)
_BELOW_HOME = re.compile(r"~[\\/][^\s'\"|;,]*")


def _without_private(text: str, private: Private) -> str:
    for path in _longest_first(path for path in private.paths if _is_private(path)):
        text = text.replace(path, _HIDDEN if not path.startswith(private.home) else "~")
    text = text.replace(private.home, "~") if len(private.home) > 1 else text
    text = _BELOW_HOME.sub("~", text)
    text = _PATH.sub(lambda match: match[0] if not _is_private(match[0]) else _HIDDEN, text)
    for name in _longest_first(private.names):
        if len(name) > 1 and name.lower() not in _COMMON:
            text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", _HIDDEN, text, flags=re.IGNORECASE)
    return text


def _is_private(path: str) -> bool:
    is_path = path.startswith("/") or bool(re.match(r"[A-Za-z]:[\\/]|\\\\", path))
    return is_path and len(path) > 3 and not path.startswith(_SYSTEM)


def _longest_first(texts: Iterable[str]) -> list[str]:
    return sorted(texts, key=len, reverse=True)
