"""The engine against the hardware: whether its build of torch fits the card, the driver and the processor."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from engine.installation.installed import Engine, State, torch_version
from engine.installation.machine.builds import builds_for, card_problem, driver_problem, processor_problem
from engine.installation.machine.hardware import Hardware, Vendor
from engine.protocol.events import Check

_CHOOSE = "Install the other build in Help > Engine, or with `ammeter engine install --backend {}`."
_OWN_BUILD = "Install the other build with `uv pip install --reinstall --torch-backend {} torch torchvision`."


def engine_checks(engine: Engine, hardware: Hardware) -> tuple[Check, ...]:
    """The engine, its build, and every mismatch with the hardware."""
    checks = [_engine_check(engine), *_hardware_checks(hardware)]
    if engine.is_usable:
        checks += _build_checks(engine, hardware)
    return tuple(checks)


def _engine_check(engine: Engine) -> Check:
    if engine.problem is not None:
        problem = engine.problem
        return Check(name="Engine", status="problem", detail=problem.message, remedy=problem.remedy)
    backend = backend_of(engine)
    words = [f"PyTorch {torch_version(engine) or 'of unknown version'}"]
    if (vision := _vision(engine)) is not None:
        words.append(f"torchvision {vision}")
    words.append(f"build {backend}" if backend else "a build of unknown kind")
    words.append("in Ammeter's own environment" if engine.state is State.OWN else "installed by Ammeter")
    return Check(name="Engine", status="ok", detail=", ".join(words))


def _vision(engine: Engine) -> str | None:
    if engine.installation is not None:
        return engine.installation.packages.get("torchvision")
    try:
        return version("torchvision")
    except PackageNotFoundError:
        return None


def backend_of(engine: Engine) -> str | None:
    """uv's name of the engine's build, such as "cu130"; None where it is unknown."""
    if engine.installation is not None:
        return engine.installation.backend
    spec = find_spec("torch") if engine.state is State.OWN else None
    return backend_in(Path(spec.origin).with_name("version.py")) if spec and spec.origin else None


_VERSION = re.compile(r"^(cuda|hip|xpu)\b[^=\n]*= *'(\d+)\.(\d+)", re.MULTILINE)


def backend_in(description: Path) -> str | None:
    """uv's name of the build that torch's version.py describes, which is read and not run."""
    try:
        match = _VERSION.search(description.read_text(encoding="utf-8"))
    except OSError:
        return None
    if match is None:
        return "cpu"
    kind, major, minor = match.groups()
    return {"cuda": f"cu{major}{minor}", "hip": f"rocm{major}.{minor}", "xpu": "xpu"}[kind]


def _hardware_checks(hardware: Hardware) -> list[Check]:
    checks = [Check(name="Processor", status="ok", detail=hardware.processor or hardware.machine)]
    if (problem := processor_problem(hardware)) is not None:
        checks = [Check(name="Processor", status="note", detail=problem.message, remedy=problem.remedy)]
    names = [_card(gpu.name, gpu.capability, gpu.architecture) for gpu in hardware.gpus]
    driver = f"; driver {hardware.nvidia_driver}" if hardware.nvidia_driver else ""
    if hardware.cuda_of_driver is not None:
        driver += " for CUDA up to {}.{}".format(*hardware.cuda_of_driver)
    detail = (
        "; ".join(names) + driver if names else "No graphics card was found; training runs on the processor."
    )
    checks.append(Check(name="Graphics card", status="ok" if names else "note", detail=detail))
    nvidia = [gpu.name for gpu in hardware.gpus if gpu.vendor is Vendor.NVIDIA]
    if nvidia and hardware.nvidia_driver is None:
        checks.append(_no_driver(nvidia[0], hardware.system))
    return checks


def _card(name: str, capability: tuple[int, int] | None, architecture: str | None) -> str:
    kind = f"compute capability {capability[0]}.{capability[1]}" if capability else architecture
    return f"{name} ({kind})" if kind else name


def _no_driver(card: str, system: str) -> Check:
    how = (
        "Install NVIDIA's driver from https://www.nvidia.com/drivers, and restart."
        if system == "win32"
        else "Install NVIDIA's driver (Ubuntu: sudo ubuntu-drivers install; Debian: sudo apt install "
        "nvidia-driver), and restart; in a container, start it with the NVIDIA Container Toolkit."
    )
    detail = f"The {card} has no driver that answers: training runs on the processor."
    return Check(name="Driver", status="problem", detail=detail, remedy=how)


_VENDORS = {"cu": Vendor.NVIDIA, "rocm": Vendor.AMD, "xpu": Vendor.INTEL}
"""By the start of a build's name."""


def _build_checks(engine: Engine, hardware: Hardware) -> list[Check]:
    backend, best = backend_of(engine), builds_for(hardware)[0]
    if backend is None:
        return []
    remedy = ""
    if best.fits and best.backend != backend:
        remedy = (_OWN_BUILD if engine.state is State.OWN else _CHOOSE).format(best.backend)
    vendor = next((vendor for start, vendor in _VENDORS.items() if backend.startswith(start)), None)
    cards = [card_problem(backend, gpu, hardware) for gpu in hardware.gpus if gpu.vendor is vendor]
    problems = [] if None in cards else [problem for problem in cards if problem is not None]
    if hardware.nvidia_driver is not None:
        problems = [*filter(None, [driver_problem(backend, hardware)]), *problems]
    if problems:
        detail, remedy = problems[0].message, remedy or problems[0].remedy
    elif backend == "cpu" and remedy:
        detail = f"The processor-only build of PyTorch is installed, although {best.title} fits. {best.why}"
    else:
        return []
    return [Check(name="Build", status="problem", detail=detail, remedy=remedy)]
