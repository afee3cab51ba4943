"""The PyTorch of this machine: in Ammeter's own environment, or installed by Ammeter."""

from __future__ import annotations

import contextlib
import csv
import errno
import os
import platform
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from pydantic import ValidationError

from engine.experiment.paths import from_environment, plain_file, platform_data, read_file
from engine.experiment.problem import Kind, Problem, ProblemError, request_error, request_problem
from engine.experiment.value import Message

CURRENT = "current.json"
MANIFEST = "installation.json"
PACKAGES = "packages"


def engines_folder() -> Path:
    """Return AMMETER_ENGINE, or `engine` in the platform's data folder. AMMETER_HOME does not move it."""
    return from_environment("AMMETER_ENGINE") or platform_data() / "engine"


def installation_folder(folder: Path, name: str) -> Path:
    """Return the folder of the named installation."""
    return installations_folder(folder) / name


def installations_folder(folder: Path) -> Path:
    """Return the folder of all installations."""
    return folder / "installations"


def cache_folder(folder: Path) -> Path:
    """Return the folder of uv's cache, with the packages of an installation that is not finished."""
    return folder / "cache"


TRIED_PACKAGES = "AMMETER_ENGINE_PACKAGES"  # a worker's variable: packages in place of those in use


class Installation(Message):
    """A complete installation of PyTorch, as described by the file installation.json next to its packages.

    `backend` is uv's name of a PyTorch build, such as "cu130" or "cpu". `python` is for example "3.12".
    `packages` are versions by name, and `made` is the time in seconds since 1970.
    """

    name: str
    torch: str
    backend: str
    python: str
    platform: str
    packages: dict[str, str]
    files: int
    size_bytes: int
    made: float


class State(StrEnum):
    """Where PyTorch comes from and whether it can be used.

    `OWN`: it is in the Python environment that Ammeter itself runs in, as in a source checkout.
    """

    OWN = "own"
    READY = "ready"
    ABSENT = "absent"
    BROKEN = "broken"


@dataclass(frozen=True)
class Engine:
    """The PyTorch that workers use on this machine. `problem` is why it is missing or broken.

    A worker adds the folder `packages` to its path.
    """

    state: State
    installation: Installation | None = None
    packages: Path | None = None
    problem: Problem | None = None

    @property
    def is_usable(self) -> bool:
        return self.state in (State.OWN, State.READY)


class Current(Message):
    """The content of the file current.json, which names the installation in use and is replaced atomically.

    Next to the file are `installations`, each with its packages and installation.json, which is written last,
    and `cache`, with what uv has downloaded and unpacked, until it is installed.
    """

    name: str


def engine_here(folder: Path | None = None) -> Engine:
    """Return the PyTorch of this machine from two small files, without checking its packages."""
    if has_own_torch():
        return Engine(State.OWN)
    folder = folder or engines_folder()
    try:
        name = Current.model_validate_json(read_file(folder / CURRENT)).name
        place = installation_folder(folder, name)
        installation = Installation.model_validate_json(read_file(place / MANIFEST))
    except FileNotFoundError:
        if not (folder / CURRENT).exists():
            return Engine(State.ABSENT, problem=_ABSENT)
        return Engine(State.BROKEN, problem=broken("its files are missing"))
    except (OSError, ValidationError):
        return Engine(State.BROKEN, problem=broken("its description cannot be read"))
    packages = place / PACKAGES
    why = _why_unusable(installation, packages)
    if why is not None:
        return Engine(State.BROKEN, installation, problem=broken(why))
    return Engine(State.READY, installation, packages)


def current_name(folder: Path) -> str | None:
    """Return the name of the installation in use in the engines' folder, or None. Raises OSError."""
    try:
        return Current.model_validate_json(read_file(folder / CURRENT)).name
    except (FileNotFoundError, ValidationError):
        return None


def has_own_torch() -> bool:
    """Return True if torch is in the environment that the program itself runs in."""
    return find_spec("torch") is not None


def torch_version(engine: Engine | None = None) -> str | None:
    """Return the PyTorch version, such as "2.11.0+cu130", without importing it. None if not installed."""
    engine = engine or engine_here()
    if engine.state is State.OWN:
        try:
            return version("torch")
        except PackageNotFoundError:  # built in its own folder, with no metadata beside it
            return None
    return engine.installation.torch if engine.installation is not None else None


def require_engine() -> None:
    """Raise ProblemError of kind NO_ENGINE if no worker could import torch."""
    if TRIED_PACKAGES not in os.environ and (problem := engine_here().problem) is not None:
        raise ProblemError(problem)


def add_to_path() -> None:
    """Make PyTorch's packages importable, after Ammeter's own. For a worker, before it imports torch."""
    tried = os.environ.get(TRIED_PACKAGES)
    packages = Path(tried) if tried else _marked_packages()
    if packages is not None and str(packages) not in sys.path:
        sys.path.append(str(packages))


def _marked_packages() -> Path | None:
    packages = engine_here().packages
    while packages is not None:
        mark_in_use(packages.parent)
        # an update may have ended in between, and removed what was not marked yet
        if (now := engine_here().packages) == packages:
            break
        packages = now
    return packages


def python_here() -> str:
    """Return the interpreter's version as far as packages depend on it, such as "3.12"."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def platform_here() -> str:
    """Return the system and CPU architecture that packages depend on, such as "linux-x86_64"."""
    return f"{sys.platform}-{platform.machine().lower()}"


def operating_system() -> str:
    """Return the operating system's name and version, such as "Ubuntu 24.04.1 LTS" or "Windows 11"."""
    if platform.system() == "Linux":
        with contextlib.suppress(OSError):
            return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    if platform.system() == "Darwin":
        return f"macOS {platform.mac_ver()[0]}"
    return f"{platform.system()} {platform.release()}"


def _why_unusable(installation: Installation, packages: Path) -> str | None:
    if installation.python != python_here():
        return f"it is for Python {installation.python}, and Ammeter runs on Python {python_here()}"
    if installation.platform != platform_here():
        return f"it is for {installation.platform}, and this machine is {platform_here()}"
    if not (packages / "torch" / "__init__.py").exists():
        return "the package torch is missing"
    return None


_ABSENT = Problem(
    kind=Kind.NO_ENGINE,
    message="PyTorch is not installed.",
    remedy="Install it in Help > PyTorch, or with `ammeter engine install`.",
)


def broken(why: str) -> Problem:
    """Return the problem of a PyTorch that is installed and cannot be used. `why` continues the sentence."""
    remedy = "Repair it in Help > PyTorch, or with `ammeter engine install`."
    return Problem(kind=Kind.NO_ENGINE, message=f"PyTorch cannot be used: {why}.", remedy=remedy)


def missing_files_problem(folder: Path | None = None) -> Problem | None:
    """Return the problem of missing files, or None. It may take seconds, so call it in a thread."""
    engine = engine_here(folder)
    if engine.state is not State.READY or engine.installation is None or engine.packages is None:
        return engine.problem
    why = find_missing_file(engine.packages, engine.installation.packages)
    return None if why is None else broken(why)


def find_missing_file(packages: Path, versions: dict[str, str]) -> str | None:
    """Return which of the packages or their files is missing, as the end of a sentence, or None."""
    records = {
        normal_name(path.parent.name.split("-")[0]): path for path in packages.glob("*.dist-info/RECORD")
    }
    for name in versions:
        if normal_name(name) not in records:
            return f"the package {name} is missing"
    for record in records.values():
        try:
            for file, size_bytes in _recorded_files(record):
                if _file_size(packages, file) != size_bytes:
                    state = "is missing" if _file_size(packages, file) is None else "is incomplete"
                    return f"its file {file} {state}"
        except (OSError, ValueError, csv.Error):
            return f"its file {record.relative_to(packages).as_posix()} cannot be read"
    return None


def _recorded_files(record: Path) -> Iterator[tuple[str, int]]:
    """Yield the files of a RECORD with their sizes, except .pyc files, which Python may rewrite."""
    with record.open(newline="", encoding="utf-8") as lines:
        for file, _, size in csv.reader(lines):
            if size and not file.endswith(".pyc"):
                yield file, int(size)


def _file_size(packages: Path, file: str) -> int | None:
    try:
        return os.stat(os.path.join(packages, file)).st_size  # noqa: PTH116, PTH118 - of twenty thousand files
    except OSError:
        return None


def folder_size(folder: Path) -> tuple[int, int]:
    """Return the number and the bytes of the files in a folder. A file with several names counts once."""
    files = size_bytes = 0
    seen: set[int] = set()
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                status = os.lstat(os.path.join(parent, name))  # noqa: PTH118 - of twenty thousand files
            except OSError:
                # uv moves them at the same time
                continue
            if status.st_ino not in seen:
                seen.add(status.st_ino)
                files, size_bytes = files + 1, size_bytes + status.st_size
    return files, size_bytes


def normal_name(name: str) -> str:
    """Return the name of a package as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


ROOM = "Free some space, or set AMMETER_ENGINE to a folder on another disk. Complete packages are kept."


def not_written(error: OSError, folder: Path) -> Problem:
    """Return the problem of a folder, or a file in it, that could not be written."""
    if error.errno in _FULL:
        return Problem(kind=Kind.DISK_FULL, message=f"The disk is full at {folder}.", remedy=ROOM)
    return request_problem(
        f"PyTorch cannot be written to {folder}: {error.strerror or error}.",
        "Make the folder writable, or set AMMETER_ENGINE to a folder that is.",
        key="AMMETER_ENGINE",
        value=folder,
    )


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn an OSError of writing to the folder into a ProblemError."""
    try:
        yield
    except OSError as error:
        raise ProblemError(not_written(error, folder)) from error


# EDQUOT is missing on Windows; EFBIG: a limit on the size of files
_FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}


IN_USE = "in-use"  # in an installation's folder: locked by every worker that has it on its path


@contextlib.contextmanager
def sole(folder: Path) -> Iterator[None]:
    """Lock the folder of installations against changes. Raises ProblemError if it is already locked."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        file = open(folder / "lock", "ab", opener=plain_file)  # noqa: SIM115 - closed below
    with file:
        if not _is_locked(file.fileno(), shared=False):
            message = "Another Ammeter process is installing or removing PyTorch."
            raise request_error(message, "Wait until it has finished, or stop it there.")
        yield


def mark_in_use(place: Path) -> None:
    """Keep an installation from being removed until this process ends."""
    # where nothing can be written, nothing can be removed either
    with contextlib.suppress(OSError):
        # closed by the system
        _is_locked(plain_file(place / IN_USE, os.O_RDWR | os.O_CREAT), shared=True)


def is_in_use(place: Path) -> bool:
    """Return True while a worker has the installation on its path."""
    path = place / IN_USE
    try:
        if sys.platform == "win32":
            # which refuses this while the file is open
            path.unlink(missing_ok=True)
            return False
        with open(path, "ab", opener=plain_file) as file:
            return not _is_locked(file.fileno(), shared=False)
    except FileNotFoundError:
        return False
    except OSError:
        return True


if sys.platform == "win32":
    import msvcrt

    def _is_locked(descriptor: int, *, shared: bool) -> bool:
        if shared:
            return True
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _is_locked(descriptor: int, *, shared: bool) -> bool:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
