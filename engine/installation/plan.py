"""What will be fetched: uv resolves the engine's packages, those that the program has are left out."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit
from urllib.request import Request, url2pathname, urlopen

from engine.experiment.paths import part_path
from engine.experiment.problem import ProblemError, request_problem
from engine.installation.control import Stopped
from engine.installation.place import downloads_folder, engines_folder
from engine.installation.problems import answered, unreachable
from engine.installation.uv import never, run_uv
from engine.installation.wanted import AUTOMATIC, Plan, Wanted, Wheel

REQUIREMENTS = {"torch": ">=2.11", "torchvision": ">=0.26"}
"""As in pyproject.toml. No upper bounds: new cards need new builds, and a build trains a step before use."""

_ENGINES_OWN = re.compile(r"torch|torchvision|triton|nvidia-(?!ml-py).*|cuda-.*")
"""Packages that come with torch and so are the engine's even where the program's environment has them."""

_UNPACKED_FACTOR = 2.5
_PATIENCE_SECONDS = 30.0
_AT_ONCE = 8


def make_plan(wanted: Wanted, folder: Path | None = None, is_stopped: Callable[[], bool] = never) -> Plan:
    """Resolves what is wanted for this interpreter; nothing is fetched but descriptions of packages.

    Raises ProblemError, and Stopped once `is_stopped()` is true.
    """
    folder = folder or engines_folder()
    program = _packages_of_program()
    locked = tomllib.loads(_resolve(wanted, program, is_stopped))["packages"]
    torch = next(package["version"] for package in locked if package["name"] == "torch")
    backend = _backend(torch, {package["name"]: package["version"] for package in locked})
    _require_backend(wanted, backend)
    missing = [_wheel(package) for package in locked if package["name"] not in program]
    wheels = _with_sizes(missing, is_stopped)
    unpacked = int(_UNPACKED_FACTOR * sum(wheel.size_bytes for wheel in wheels))
    copied = sum(wheel.size_bytes for wheel in wheels if not wheel.address.startswith("file:"))
    return Plan(
        wanted=wanted,
        backend=backend,
        torch=torch.partition("+")[0],
        wheels=tuple(wheels),
        folder=folder,
        fetched_bytes=sum(_fetched_bytes(wheel, downloads_folder(folder)) for wheel in wheels),
        needed_bytes=copied + unpacked,
        free_bytes=_free_bytes(folder),
    )


def _resolve(wanted: Wanted, program: Mapping[str, Distribution], is_stopped: Callable[[], bool]) -> str:
    """uv's answer in the format of pylock.toml."""
    bounds, index = dict(REQUIREMENTS), ["--torch-backend", wanted.backend]
    if wanted.source.folder is not None:
        bounds |= _bounds_in_folder(wanted.source.folder, wanted.backend)
        index = ["--no-index", "--find-links", str(wanted.source.folder.absolute())]
    elif wanted.source.mirror is not None:
        index = _mirror_options(wanted.source.mirror, [] if wanted.backend == AUTOMATIC else [wanted.backend])
    requirements = [f"{name}{bound}" for name, bound in bounds.items()] + list(wanted.extras)
    with tempfile.TemporaryDirectory(prefix="ammeter-plan-") as scratch:
        constraints = _describe(program, Path(scratch))
        arguments = ["pip", "compile", "-", "--format", "pylock.toml", "--python", sys.executable]
        arguments += ["--only-binary", ":all:", "--prerelease", "disallow", "--constraints", str(constraints)]
        arguments += [*index, "--find-links", scratch]
        return run_uv(arguments, wanted.source, text="\n".join(requirements), is_stopped=is_stopped)


def _mirror_options(mirror: str, backends: Iterable[str]) -> list[str]:
    """The mirror's folders of builds come first, such as `<mirror>/cu130`, and then the mirror itself.

    uv's --torch-backend would ask PyTorch's own indexes. A mirror without such folders serves what PyPI has.
    "unsafe" means that any index may answer for any package: here they are all of the same mirror.
    """
    folders = [f"--index={mirror.rstrip('/')}/{backend}" for backend in backends]
    return [*folders, f"--default-index={mirror}", "--index-strategy=unsafe-first-match"]


def _bounds_in_folder(folder: Path, backend: str) -> dict[str, str]:
    """The newest wheels of a build in a folder that may hold several; nothing for "auto"."""
    if backend == AUTOMATIC:
        return {}
    bounds = {}
    for name in REQUIREMENTS:
        versions = [path.name.split("-")[1] for path in folder.glob(f"{name}-*+{backend}-*.whl")]
        if versions:
            newest = max(versions, key=lambda version: [int(part) for part in re.findall(r"\d+", version)])
            bounds[name] = f"=={newest}"
    return bounds


def _packages_of_program() -> dict[str, Distribution]:
    """What the program itself has, by normalised name."""
    packages: dict[str, Distribution] = {}
    for distribution in distributions():
        name = _normal(distribution.metadata["Name"])
        if _ENGINES_OWN.fullmatch(name) is None:
            packages.setdefault(name, distribution)
    return packages


def _describe(program: Mapping[str, Distribution], folder: Path) -> Path:
    """Constraints to what the program has, and wheels in `folder` that hold nothing but its metadata.

    With these uv resolves against the program's versions even where the source does not have them: neither a
    mirror nor a folder of wheels needs to.
    """
    for name, distribution in program.items():
        stem = f"{name.replace('-', '_')}-{distribution.version}"
        with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{stem}.dist-info/METADATA", distribution.read_text("METADATA") or "")
            wheel.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
            wheel.writestr(f"{stem}.dist-info/RECORD", "")
    constraints = folder / "constraints.txt"
    lines = [f"{name}=={distribution.version}\n" for name, distribution in program.items()]
    constraints.write_text("".join(lines), encoding="utf-8")
    return constraints


def _backend(torch: str, versions: Mapping[str, str]) -> str:
    """uv's name of the build: torch's local version, or else what it brings along.

    PyPI's wheels have no local version: on Linux they are builds for the CUDA whose runtime they require,
    elsewhere for the processor, and on a Mac for Apple's GPU too.
    """
    if local := torch.partition("+")[2]:
        return local
    for name, version in versions.items():
        if name.startswith("nvidia-cuda-runtime"):
            major, minor = version.split(".")[:2]
            return f"cu{major}{minor}"
    return "cpu"


def _require_backend(wanted: Wanted, backend: str) -> None:
    if wanted.backend in (AUTOMATIC, backend):
        return
    source = wanted.source
    place = "mirror" if source.mirror is not None else "folder" if source.folder is not None else "index"
    raise ProblemError(
        request_problem(
            f"The {place} has no build {wanted.backend} of PyTorch for this machine, only {backend}.",
            f"Choose {backend} or another source.",
            key="backend",
            value=wanted.backend,
        )
    )


def _wheel(package: Mapping[str, Any]) -> Wheel:
    wheel = package["wheels"][0]
    address = wheel["url"]
    return Wheel(
        name=package["name"],
        version=package["version"],
        filename=wheel.get("name") or unquote(urlsplit(address).path).rpartition("/")[2],
        address=address,
        size_bytes=wheel.get("size", 0),
        sha256=wheel.get("hashes", {}).get("sha256"),
    )


def _with_sizes(wheels: list[Wheel], is_stopped: Callable[[], bool]) -> list[Wheel]:
    """Asks the servers for the sizes that the index did not tell."""

    def sized(wheel: Wheel) -> Wheel:
        if is_stopped():
            raise Stopped
        if wheel.size_bytes:
            return wheel
        return Wheel(**(vars(wheel) | {"size_bytes": _size_bytes(wheel.address)}))

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(sized, wheels))


def _size_bytes(address: str) -> int:
    parts = urlsplit(address)
    if parts.scheme == "file":
        return Path(url2pathname(parts.path)).stat().st_size
    host = parts.hostname or address
    try:
        with urlopen(Request(address, method="HEAD"), timeout=_PATIENCE_SECONDS) as answer:
            return int(answer.headers.get("Content-Length") or 0)
    except HTTPError as error:
        raise ProblemError(answered(host, error.code)) from error
    except (OSError, ValueError) as error:
        raise ProblemError(unreachable(host)) from error


def _fetched_bytes(wheel: Wheel, downloads: Path) -> int:
    whole = downloads / wheel.filename
    for path in (whole, part_path(whole)):
        if path.exists():
            return min(path.stat().st_size, wheel.size_bytes)
    return 0


def _free_bytes(folder: Path) -> int:
    """The room on the disk where `folder` is or will be."""
    place = next(parent for parent in (folder, *folder.parents) if parent.exists())
    return shutil.disk_usage(place).free


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
