"""The packages to download: uv resolves PyTorch's, and packages that Ammeter already has are skipped."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from importlib.metadata import distributions
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from engine.experiment.paths import part_path
from engine.experiment.problem import Kind, ProblemError, request_error
from engine.experiment.value import shortened
from engine.installation.builds import automatic_backend, build_title, builds_for
from engine.installation.connection import Broken, Connections, RefusedError, is_address
from engine.installation.control import Stopped
from engine.installation.hardware import hardware_here
from engine.installation.installed import downloads_folder, engines_folder
from engine.installation.problems import OTHER_SOURCE, no_address, unreachable
from engine.installation.request import AUTOMATIC, InstallRequest, Plan, Source, Wheel
from engine.installation.uv import never, run_uv

REQUIREMENTS = {"torch": ">=2.11", "torchvision": ">=0.26"}
"""As in pyproject.toml. No upper bounds: new GPUs need new builds, and a build trains a step before use."""

_ENGINES_OWN = re.compile(r"torch|torchvision|triton|nvidia-(?!ml-py).*|cuda-.*")
"""Packages that come with torch, and are installed even where Ammeter's environment has them."""

_CUDA_UNPACKED_FACTOR, _UNPACKED_FACTOR = 2.0, 4.0
"""More than what was measured: 1.7 to 1.8 of PyPI's builds for CUDA 12.6, 12.8 and 13.2 with all that they
require, 3.6 of the CPU build."""


def make_plan(
    wanted: InstallRequest, folder: Path | None = None, is_stopped: Callable[[], bool] = never
) -> Plan:
    """Resolve a request for this machine from metadata alone. Raises ProblemError, Stopped."""
    _require_address(wanted.source.mirror)
    _require_names(wanted.extras)
    folder = folder or engines_folder()
    program = _packages_of_program()
    note = ""
    try:
        packages = _resolve(wanted, program, is_stopped)
    except ProblemError as failure:
        packages = _resolve_without_own_index(wanted, program, is_stopped, failure)
        note = f"{failure.problem.message} PyPI has the same build."
    versions = _versions(packages)
    backend = _backend(versions)
    _require_backend(wanted, backend)
    missing = [_wheel(package) for package in packages if package["name"] not in program]
    wheels = with_sizes(missing, wanted.source, is_stopped)
    factor = _CUDA_UNPACKED_FACTOR if backend.startswith("cu") else _UNPACKED_FACTOR
    unpacked = int(factor * sum(wheel.size_bytes for wheel in wheels))
    copied = sum(wheel.size_bytes for wheel in wheels if not wheel.address.startswith("file:"))
    # the disk where the folder is or will be
    place = next(parent for parent in (folder, *folder.parents) if parent.exists())
    return Plan(
        wanted=wanted,
        backend=backend,
        torch=versions["torch"].partition("+")[0],
        wheels=tuple(wheels),
        folder=folder,
        fetched_bytes=sum(_fetched_bytes(wheel, downloads_folder(folder)) for wheel in wheels),
        needed_bytes=copied + unpacked,
        free_bytes=shutil.disk_usage(place).free,
        note=note,
    )


_Packages = list[dict[str, Any]]  # as in pylock.toml


def _resolve(
    wanted: InstallRequest,
    program: Mapping[str, _Package],
    is_stopped: Callable[[], bool],
    *,
    asks_own_index: bool = True,
) -> _Packages:
    bounds, index, indexes = dict(REQUIREMENTS), [], []
    if wanted.source.folder is not None:
        bounds |= _bounds_in_folder(wanted.source.folder, _backends(wanted.backend))
        index = ["--no-index", "--find-links", str(wanted.source.folder.absolute())]
    elif wanted.source.mirror is not None:
        indexes = _mirror_indexes(wanted.source.mirror, _backends(wanted.backend), is_stopped)
        index = ["--index-strategy", "unsafe-first-match"]
    elif asks_own_index:
        automatic = automatic_backend(hardware_here()) if wanted.backend == AUTOMATIC else wanted.backend
        index = ["--torch-backend", automatic]
    requirements = [f"{name}{bound}" for name, bound in bounds.items()] + list(wanted.extras)
    with tempfile.TemporaryDirectory(prefix="ammeter-plan-") as scratch:
        constraints = _describe(program, Path(scratch))
        arguments = ["pip", "compile", "-", "--format", "pylock.toml", "--python", sys.executable]
        arguments += ["--only-binary", ":all:", "--prerelease", "disallow", "--constraints", str(constraints)]
        arguments += [*index, "--find-links", scratch]
        text = "\n".join(requirements)
        answer = run_uv(arguments, wanted.source, text=text, indexes=indexes, is_stopped=is_stopped)
    packages: _Packages = tomllib.loads(answer)["packages"]
    return packages


def _resolve_without_own_index(
    wanted: InstallRequest,
    program: Mapping[str, _Package],
    is_stopped: Callable[[], bool],
    failure: ProblemError,
) -> _Packages:
    """Resolve the requested build from PyPI, which has one of the builds in PyTorch's own index.

    Raises `failure` if PyPI has another build. If that one fits this machine, the remedy names it.
    """
    if wanted.source != Source() or failure.problem.kind is not Kind.DOWNLOAD:
        raise failure
    try:
        packages = _resolve(wanted, program, is_stopped, asks_own_index=False)
    except ProblemError:
        raise failure from None
    backend, builds = _backend(_versions(packages)), builds_for(hardware_here())
    best = builds[0].backend
    if backend == (best if wanted.backend == AUTOMATIC else wanted.backend):
        return packages
    # a GPU build also works on a CPU
    if best == "cpu" or any(build.fits for build in builds if build.backend == backend):
        remedy = f"Choose the build {backend} ({build_title(backend)}) from PyPI, or {OTHER_SOURCE}."
        raise ProblemError(failure.problem.model_copy(update={"remedy": remedy})) from failure
    raise failure


def _backends(wanted: str) -> list[str]:
    if wanted != AUTOMATIC:
        return [wanted]
    return [build.backend for build in builds_for(hardware_here()) if build.fits]


def _mirror_indexes(mirror: str, backends: Iterable[str], is_stopped: Callable[[], bool]) -> list[str]:
    """Return the mirror's folders of builds, such as `<mirror>/cu130`, and then the mirror itself.

    uv's --torch-backend would use PyTorch's own indexes. A mirror without such folders has the same packages
    as PyPI. With uv's strategy "unsafe…" any index may answer for any package: here all belong to the mirror.
    """
    connections = Connections(mirror)

    def ask(index: str) -> bool | RefusedError:
        try:
            with connections.open(f"{index}/torch/", {}):
                return True
        except RefusedError as refused:
            return refused
        except (Broken, ProblemError):
            return False  # uv uses the mirror next, and reports why it does not answer

    base = mirror.rstrip("/")
    folders = [f"{base}/{backend}" for backend in backends]
    *answers, answer = at_once(ask, [*folders, base], connections, is_stopped)
    found = [folder for folder, has_torch in zip(folders, answers, strict=True) if has_torch is True]
    # uv takes a refusal by an index for a lack of packages
    if not found and isinstance(answer, RefusedError):
        raise answer
    return [*found, mirror]


def _bounds_in_folder(folder: Path, backends: Iterable[str]) -> dict[str, str]:
    for backend in backends:
        bounds = {}
        for name in REQUIREMENTS:
            versions = [path.name.split("-")[1] for path in folder.glob(f"{name}-*+{backend}-*.whl")]
            if versions:
                newest = max(versions, key=lambda version: [*map(int, re.findall(r"\d+", version))])
                bounds[name] = f"=={newest}"
        if bounds:
            return bounds
    return {}


@dataclass(frozen=True)
class _Package:
    version: str
    metadata: str


def _packages_of_program() -> dict[str, _Package]:
    packages: dict[str, _Package] = {}
    for distribution in distributions():
        head = (distribution.read_text("METADATA") or "").partition("\n\n")[0]
        # the standard library's parser reads descriptions too, which takes a second for them all
        values = dict(re.findall(r"^(Name|Version): (.+)$", head, re.MULTILINE))
        if "Name" in values and "Version" in values:
            name = re.sub(r"[-_.]+", "-", values["Name"].strip()).lower()
            if _ENGINES_OWN.fullmatch(name) is None:
                packages.setdefault(name, _Package(values["Version"].strip(), head))
    return packages


def _describe(program: Mapping[str, _Package], folder: Path) -> Path:
    """Write constraints to Ammeter's own packages, and wheels in `folder` with only their metadata.

    With these uv resolves against Ammeter's versions, even if a mirror or folder of wheels lacks them.
    """
    for name, package in program.items():
        stem = f"{name.replace('-', '_')}-{package.version}"
        with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{stem}.dist-info/METADATA", f"{package.metadata}\n")
            wheel.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
            wheel.writestr(f"{stem}.dist-info/RECORD", "")
    constraints = folder / "constraints.txt"
    lines = [f"{name}=={package.version}\n" for name, package in program.items()]
    constraints.write_text("".join(lines), encoding="utf-8")
    return constraints


def _versions(packages: _Packages) -> dict[str, str]:
    return {package["name"]: package["version"] for package in packages}


def _backend(versions: Mapping[str, str]) -> str:
    """Return uv's name of the build, from torch's local version or its dependencies.

    PyPI's wheels have no local version: on Linux they are builds for the CUDA whose runtime they require,
    elsewhere for the CPU, and on a Mac also for Apple's GPU.
    """
    if local := versions["torch"].partition("+")[2]:
        return local
    for name, version in versions.items():
        if name.startswith("nvidia-cuda-runtime"):
            major, minor = version.split(".")[:2]
            return f"cu{major}{minor}"
    return "cpu"


def _require_address(mirror: str | None) -> None:
    if mirror is not None and not is_address(mirror):
        # without a password
        shown = shortened(mirror.rpartition("@")[2])
        message = f"'{shown}' is not the address of a package index."
        remedy = "Give the full address, such as https://packages.example.org/simple."
        raise request_error(message, remedy, key="mirror", value=shown)


_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(\[[\w., -]+\])? *([<>=!~].*)?")
"""A package from an index, with its extras and versions. Not an address, a file or an option of uv."""


def _require_names(extras: Iterable[str]) -> None:
    for extra in extras:
        if _NAME.fullmatch(extra) is None:
            message = f"'{shortened(extra.rpartition('@')[2].strip())}' is not a package name."
            remedy = "Give a package name, with a version if needed, such as timm or timm>=1.0."
            raise request_error(message, remedy, key="with")


def _require_backend(wanted: InstallRequest, backend: str) -> None:
    if wanted.backend in (AUTOMATIC, backend):
        return
    source = wanted.source
    place = "mirror" if source.mirror is not None else "folder" if source.folder is not None else "index"
    message = f"The {place} has no PyTorch build {wanted.backend} for this machine, only {backend}."
    remedy = f"Choose {backend} or another source."
    raise request_error(message, remedy, key="backend", value=wanted.backend)


def _wheel(package: Mapping[str, Any]) -> Wheel:
    wheel = package["wheels"][0]
    address = wheel["url"]
    if not (is_address(address) or address.startswith("file:")):
        raise ProblemError(no_address("The package index"))
    # no index may name a file outside the folder that it is fetched into
    filename = PureWindowsPath(wheel.get("name") or unquote(urlsplit(address).path)).name
    if len(filename.encode()) > _LONGEST_NAME_BYTES:
        raise ProblemError(no_address("The package index"))
    return Wheel(
        name=package["name"],
        version=package["version"],
        filename=filename,
        address=address,
        size_bytes=wheel.get("size", 0),
        sha256=wheel.get("hashes", {}).get("sha256"),
    )


_LONGEST_NAME_BYTES = 240  # of a file: systems take 255, of which a part of a file needs some


def _fetched_bytes(wheel: Wheel, downloads: Path) -> int:
    whole = downloads / wheel.filename
    for path in (whole, part_path(whole)):
        if path.exists():
            return min(path.stat().st_size, wheel.size_bytes)
    return 0


_AT_ONCE, _POLL_SECONDS = 8, 0.1

_Thing = TypeVar("_Thing")
_Answer = TypeVar("_Answer")


def with_sizes(wheels: list[Wheel], source: Source, is_stopped: Callable[[], bool]) -> list[Wheel]:
    """Return the wheels, with sizes from servers where the index has none. Raises ProblemError, Stopped."""
    connections = Connections(source.mirror)

    def sized(wheel: Wheel) -> Wheel:
        return replace(wheel, size_bytes=wheel.size_bytes or _size_bytes(wheel.address, connections))

    return at_once(sized, wheels, connections, is_stopped)


def at_once(
    ask: Callable[[_Thing], _Answer],
    things: Iterable[_Thing],
    connections: Connections,
    is_stopped: Callable[[], bool],
) -> list[_Answer]:
    """Call `ask` for each thing in parallel, and return the answers. Raises their errors, and Stopped."""
    pool = ThreadPoolExecutor(_AT_ONCE)
    try:
        asked = [pool.submit(ask, thing) for thing in things]
        waiting = set(asked)
        while waiting:
            answered, waiting = wait(waiting, _POLL_SECONDS, FIRST_EXCEPTION)
            if is_stopped():
                raise Stopped
            for answer in answered:
                answer.result()
    except BaseException:
        connections.close()
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()
    return [answer.result() for answer in asked]


_SIZE = re.compile("[1-9][0-9]{0,14}")


def _size_bytes(address: str, connections: Connections) -> int:
    parts = urlsplit(address)
    if parts.scheme == "file":
        return Path(url2pathname(parts.path)).stat().st_size
    try:
        # not HEAD: addresses that are signed for GET refuse it
        with connections.open(address, {"Range": "bytes=0-0"}) as answer:
            whole = (answer.headers["Content-Range"] or "").rpartition("/")[2]
            size = whole or answer.headers["Content-Length"] or ""
    except Broken as error:
        raise ProblemError(unreachable(parts.hostname or address)) from error
    if _SIZE.fullmatch(size) is None:
        message = f"{parts.hostname} does not report the size of {PurePosixPath(parts.path).name}."
        raise request_error(message, "Choose another source, or a folder of wheels.")
    return int(size)
