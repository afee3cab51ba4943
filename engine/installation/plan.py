"""The packages to download: uv resolves PyTorch's, and packages that Ammeter already has are skipped."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from urllib.parse import urlsplit

from engine.experiment.problem import Kind, ProblemError, request_error
from engine.experiment.value import shortened
from engine.installation.builds import automatic_backend, build_title, builds_for
from engine.installation.hardware import hardware_here
from engine.installation.installed import cache_folder, engines_folder, folder_size, normal_name
from engine.installation.request import AUTOMATIC, InstallPlan, InstallRequest, Package, Source, Stopped
from engine.installation.uv import OTHER_SOURCE, run_uv

REQUIREMENTS = {"torch": ">=2.11", "torchvision": ">=0.26"}
"""As in pyproject.toml. No upper bounds: new GPUs need new builds, and a build trains a step before use."""

_ENGINES_OWN = re.compile(r"torch|torchvision|triton|nvidia-(?!ml-py).*|cuda-.*")
"""Packages that come with torch, and are installed even where Ammeter's environment has them."""

_CUDA_UNPACKED_FACTOR, _UNPACKED_FACTOR = 1.8, 3.6
"""As measured: 1.7 to 1.8 of PyPI's builds for CUDA 12.6, 12.8 and 13.2 with all that they require, 3.6 of
the CPU build."""


def make_plan(
    wanted: InstallRequest, folder: Path | None = None, is_stopped: Callable[[], bool] = lambda: False
) -> InstallPlan:
    """Resolve a request for this machine from package metadata, without a download.

    The size is an estimate for packages from PyTorch's own index, which lists no sizes. Raises ProblemError,
    and Stopped if `is_stopped` returns True.
    """
    _require_address(wanted.source.mirror)
    _require_names(wanted.extras)
    folder = folder or engines_folder()
    program = _packages_of_program()
    resolver, note = _Resolver(wanted, program, is_stopped), ""
    try:
        lock = resolver.resolve()
    except ProblemError as failure:
        lock = resolver.resolve_without_own_index(failure)
        note = f"{failure.problem.message} PyPI has the same build."
    backend = lock.backend
    _require_backend(wanted, backend)
    entries = {package: entry for package, entry in lock.entries.items() if package.name not in program}
    is_exact = all(package.size_bytes for package in entries)
    size_bytes: int | None = sum(package.size_bytes for package in entries)
    if not is_exact:
        sizes = {build.backend: build.download_bytes for build in builds_for(hardware_here())}
        size_bytes = sizes.get(backend)
    factor = _CUDA_UNPACKED_FACTOR if backend.startswith("cu") else _UNPACKED_FACTOR
    text = "".join([lock.head, *entries.values()])
    begun = lock_file(folder, wanted.source)
    is_begun = begun.is_file() and begun.read_text("utf-8", errors="replace") == text
    # without hidden parts of wheels that uv had not finished
    whole = cache_folder(folder).glob("[!.]*")
    # the disk where the folder is or will be
    place = next(parent for parent in (folder, *folder.parents) if parent.exists())
    return InstallPlan(
        wanted=wanted,
        backend=backend,
        torch=lock.versions["torch"].partition("+")[0],
        packages=tuple(entries),
        folder=folder,
        download_bytes=size_bytes,
        is_exact=is_exact,
        unpacked_bytes=None if size_bytes is None else int(factor * size_bytes),
        kept_bytes=sum(folder_size(part)[1] for part in whole) if is_begun else 0,
        free_bytes=shutil.disk_usage(place).free,
        note=note,
        lock=text,
    )


def lock_file(folder: Path, source: Source) -> Path:
    """Return the path of the list of packages that uv installs, in the cache of an installation."""
    return cache_folder(folder) / ("pylock.toml" if source.folder is None else "requirements.txt")


def source_options(source: Source) -> list[str]:
    """Return uv's options for a folder of wheels. Empty for indexes."""
    if source.folder is None:
        return []
    return ["--no-index", "--find-links", str(source.folder.absolute())]


@dataclass(frozen=True)
class _Lock:
    """A file with a list of packages: its beginning, and then the text of each package."""

    head: str
    entries: Mapping[Package, str]

    @property
    def versions(self) -> dict[str, str]:
        return {package.name: package.version for package in self.entries}

    @property
    def backend(self) -> str:
        """uv's name of the build, from torch's local version or its dependencies.

        PyPI's wheels have no local version: on Linux they are builds for the CUDA whose runtime they require,
        elsewhere for the CPU, and on a Mac also for Apple's GPU.
        """
        if local := self.versions["torch"].partition("+")[2]:
            return local
        for name, version in self.versions.items():
            if name.startswith("nvidia-cuda-runtime"):
                major, minor = version.split(".")[:2]
                return f"cu{major}{minor}"
        return "cpu"


def _pylock(text: str) -> _Lock:
    mark = "[[packages]]\n"
    head, *entries = text.split(mark)
    packages = {}
    for entry in entries:
        described = tomllib.loads(entry)
        size_bytes = described["wheels"][0].get("size", 0)
        packages[Package(described["name"], described["version"], size_bytes)] = mark + entry
    return _Lock(head, packages)


def _requirements(text: str, folder: Path) -> _Lock:
    """Parse a list of `name==version`. uv would unpack each wheel of the folder for a lock with hashes."""
    sizes = {}
    for wheel in folder.glob("*-*.whl"):
        name, version = wheel.name.split("-")[:2]
        sizes[normal_name(name), version] = wheel.stat().st_size
    packages = {}
    for line in text.splitlines():
        name, _, version = line.partition("==")
        packages[Package(name, version, sizes.get((name, version), 0))] = f"{line}\n"
    return _Lock("", packages)


@dataclass(frozen=True)
class _Resolver:
    """Resolves a request with uv. Packages in `program` keep the version that Ammeter itself has."""

    wanted: InstallRequest
    program: Mapping[str, _Package]
    is_stopped: Callable[[], bool]

    def resolve(self, *, asks_own_index: bool = True) -> _Lock:
        """Resolve from the source, or from PyTorch's own index and PyPI. Raises ProblemError, Stopped."""
        source, backend = self.wanted.source, self.wanted.backend
        if source.mirror is not None:
            # uv's --torch-backend would use PyTorch's own indexes
            strategy = ["--index-strategy", "unsafe-first-match"]
            folders = [f"{source.mirror.rstrip('/')}/{backend}" for backend in _backends(backend)]
            try:
                return self._compile(strategy, [*folders, source.mirror])
            except ProblemError:
                # it has no such folders and says so in its own way, or it fails again and is explained better
                return self._compile([], [source.mirror])
        options = []
        if source.folder is None and asks_own_index:
            is_automatic = backend == AUTOMATIC
            options = ["--torch-backend", automatic_backend(hardware_here()) if is_automatic else backend]
        return self._compile(options)

    def resolve_without_own_index(self, failure: ProblemError) -> _Lock:
        """Resolve the requested build from PyPI, which has one of the builds in PyTorch's own index.

        Raises `failure` if PyPI has another build. If that one fits this machine, the remedy names it.
        """
        if self.wanted.source != Source() or failure.problem.kind is not Kind.DOWNLOAD:
            raise failure
        try:
            lock = self.resolve(asks_own_index=False)
        except ProblemError:
            raise failure from None
        backend, builds = lock.backend, builds_for(hardware_here())
        best = builds[0].backend
        if backend == (best if self.wanted.backend == AUTOMATIC else self.wanted.backend):
            return lock
        # a GPU build also works on a CPU
        if best == "cpu" or any(build.fits for build in builds if build.backend == backend):
            remedy = f"Choose the build {backend} ({build_title(backend)}) from PyPI, or {OTHER_SOURCE}."
            raise ProblemError(failure.problem.model_copy(update={"remedy": remedy})) from failure
        raise failure

    def _compile(self, options: Sequence[str], indexes: Sequence[str] = ()) -> _Lock:
        bounds, source = dict(REQUIREMENTS), self.wanted.source
        if source.folder is not None:
            bounds |= _bounds_in_folder(source.folder, _backends(self.wanted.backend))
        with tempfile.TemporaryDirectory(prefix="ammeter-plan-") as scratch:
            requirements, lock = Path(scratch, "requirements.in"), lock_file(Path(scratch), source)
            lock.parent.mkdir()
            lines = [*(f"{name}{bound}" for name, bound in bounds.items()), *self.wanted.extras]
            requirements.write_text("\n".join(lines), encoding="utf-8")
            constraints = _describe(self.program, Path(scratch))
            arguments = ["pip", "compile", str(requirements), "-o", str(lock), "--no-header", "--no-annotate"]
            arguments += ["--python", sys.executable, "--constraints", str(constraints), *options]
            arguments += ["--only-binary", ":all:", "--prerelease", "disallow", "--find-links", scratch]
            arguments += source_options(source)
            with closing(run_uv(arguments, source, indexes=indexes)) as running:
                for _ in running:
                    if self.is_stopped():
                        raise Stopped
            text = lock.read_text("utf-8")
        return _pylock(text) if source.folder is None else _requirements(text, source.folder)


def _backends(wanted: str) -> list[str]:
    if wanted != AUTOMATIC:
        return [wanted]
    return [build.backend for build in builds_for(hardware_here()) if build.fits]


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
            name = normal_name(values["Name"].strip())
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


def _require_address(mirror: str | None) -> None:
    if mirror is not None and not _is_address(mirror):
        # without a password
        shown = shortened(mirror.rpartition("@")[2])
        message = f"'{shown}' is not the address of a package index."
        remedy = "Give the full address, such as https://packages.example.org/simple."
        raise request_error(message, remedy, key="mirror", value=shown)


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # of the port, or of an IPv6 address
        return False


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
