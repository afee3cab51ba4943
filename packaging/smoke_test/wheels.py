"""The wheels that are fetched: small ones, which lead to this checkout's torch, or real ones."""

from __future__ import annotations

import os
import re
import sysconfig
from importlib.metadata import Distribution, PathDistribution, version
from pathlib import Path

from smoke_test.package import INSTALLED
from smoke_test.steps import SmokeError, check
from tests.wheel_index import stand_in_wheel

BACKEND = "cpu"
"""The build that uv finds for a machine without a graphics card."""
_ENGINE = ("torch", "torchvision")
_STAND_IN = """\
'''Leads to the real package, outside the root: the way of a wheel is tested, not its content.'''
import importlib, pathlib, sys

here = str(pathlib.Path(__file__).parents[1])
sys.path[sys.path.index(here)] = {outside!r}
del sys.modules[__name__]
importlib.invalidate_caches()
importlib.import_module(__name__)
"""
_PAYLOAD_BYTES = 48_000_000
"""Gives the stand-ins of torch something to fetch, to cut, and to unpack."""


def checkout_packages(python: str) -> Path:
    """The folder of this checkout's torch, for the package's Python. Raises SmokeError if that is another."""
    here = sysconfig.get_python_version()
    check(
        here == python,
        f"the package has Python {python} and this is {here}, whose torch it cannot use; give real wheels by "
        "--wheels FOLDER",
    )
    return Path(sysconfig.get_path("platlib"))


def stand_ins(folder: Path, python: str) -> None:
    """Wheels of torch and torchvision that lead to this checkout's."""
    files = {"__init__.py": _STAND_IN.format(outside=str(checkout_packages(python)))}
    builds = folder / BACKEND
    for name in _ENGINE:
        content: dict[str, str | bytes] = {f"{name}/{path}": text for path, text in files.items()}
        if name == "torch":
            content["torch/payload.bin"] = os.urandom(_PAYLOAD_BYTES)
        requires = ("sympy",) if name == "torch" else ("torch", "numpy", "pillow")
        stand_in_wheel(builds, name, f"{version(name).partition('+')[0]}+{BACKEND}", content, requires)
    stand_in_wheel(folder, "sympy", "1.14.0", {"sympy_stand_in.py": ""})


def real_wheels(folder: Path, source: Path) -> None:
    """The wheels of `source`, as `pip download torch torchvision` leaves them there. Raises SmokeError."""
    wheels = sorted(source.glob("*.whl"))
    for name in _ENGINE:
        check(
            any(path.name.startswith(f"{name}-") for path in wheels),
            f"no wheel of {name}: `pip download --dest {source} {' '.join(_ENGINE)}` gets it",
        )
    builds = folder / BACKEND
    builds.mkdir(parents=True)
    for path in wheels:
        (folder / path.name).symlink_to(path)
        # PyTorch's indexes hold what torch needs too, and uv looks for some of it nowhere else
        (builds / path.name).symlink_to(path)


def add_program_packages(folder: Path, site_packages: Path) -> None:
    """Adds wheels that only tell the versions of what the program has: uv resolves it, nothing fetches it."""
    there = {_normal(path.name) for path in folder.glob("*.whl")}
    for info in sorted(site_packages.glob("*.dist-info")):
        part: Distribution = PathDistribution(info)
        name = f"{_normal(part.name)}-{part.version}"
        if not any(path.startswith(f"{name}-") for path in there):
            stand_in_wheel(folder, part.name.replace("-", "_"), part.version)


def python_of(unpacked: Path) -> str:
    """The Python of an unpacked package, such as "3.12". Raises SmokeError."""
    for path in sorted((unpacked / INSTALLED / "python" / "lib").glob("python3.*")):
        if re.fullmatch(r"python3\.\d+", path.name):
            return path.name.removeprefix("python")
    raise SmokeError("the package holds no interpreter")


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name.split("-")[0]).lower() + name[len(name.split("-")[0]) :]
