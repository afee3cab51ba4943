"""The doctor: checks whether the package, the machine and PyTorch are ready, with a fix for each problem."""

from __future__ import annotations

import getpass
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

from engine.doctor.display import display_problem, known_platforms
from engine.doctor.surroundings import (
    compiler_check,
    disk_check,
    libc_check,
    package_checks,
    shared_memory_check,
    store_check,
    variable_checks,
)
from engine.experiment.paths import data_folder, store_path
from engine.experiment.problem import Problem, ProblemError
from engine.experiment.value import BYTES_PER_GIB
from engine.installation.builds import builds_for, cpu_problem, driver_problem, gpu_problem
from engine.installation.hardware import Hardware, Vendor, hardware_here
from engine.installation.installed import Engine, State, engine_here, engines_folder, torch_version
from engine.protocol import jobs
from engine.protocol.events import Check, Examined, Failed
from engine.worker.launcher import Launcher, iterate

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
    names = [_gpu_text(gpu.name, gpu.capability, gpu.architecture) for gpu in hardware.gpus]
    driver = f", driver {hardware.nvidia_driver}" if hardware.nvidia_driver else ""
    if hardware.cuda_of_driver is not None:
        driver += " for CUDA up to {}.{}".format(*hardware.cuda_of_driver)
    detail = ", ".join(names) + driver if names else "No GPU was found. Training uses the CPU."
    checks.append(Check(name="GPU", status="ok" if names else "note", detail=detail))
    nvidia = [gpu.name for gpu in hardware.gpus if gpu.vendor is Vendor.NVIDIA]
    if nvidia and hardware.nvidia_driver is None:
        checks.append(_no_driver(nvidia[0], hardware.system))
    return checks


def _gpu_text(name: str, capability: tuple[int, int] | None, architecture: str | None) -> str:
    kind = f"compute capability {capability[0]}.{capability[1]}" if capability else architecture
    return f"{name} ({kind})" if kind else name


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
        hidden = (_without(text, private).replace("|", "\\|") for text in words)
        lines.append("| " + " | ".join(" ".join(text.split()) for text in hidden) + " |")
    return "\n".join(lines) + "\n"


_PATH = re.compile(
    r"(?<![\w:/.~])(?:/[\w.+@%~-]+(?:/[\w.+@%~-]+)+/?|[A-Za-z]:[\\/][^\s'\"|;,]+|\\\\[^\s'\"|;,]+)"
)
_BELOW_HOME = re.compile(r"~[\\/][^\s'\"|;,]*")


def _without(text: str, private: Private) -> str:
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
