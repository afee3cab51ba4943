"""The request for a PyTorch installation, and uv's plan: the packages, their download and size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from engine.installation.installed import Installation

AUTOMATIC = "auto"


@dataclass(frozen=True)
class Source:
    """The source of packages: a mirror, a folder of wheels, or, if both are None, the official indexes.

    `mirror` is the address of a package index that replaces PyPI and PyTorch's indexes. `folder` has wheels,
    for machines without a network (`--find-links`).
    """

    mirror: str | None = None
    folder: Path | None = None


@dataclass(frozen=True)
class InstallRequest:
    """The PyTorch build to install, and from where. `backend` is uv's name of it, or "auto" to let uv choose.

    `extras` are further packages.
    """

    backend: str = AUTOMATIC
    source: Source = Source()
    extras: tuple[str, ...] = ()


@dataclass(frozen=True)
class Wheel:
    """A wheel to download: its address (https, http or file), size, and SHA-256 if the index has it."""

    name: str
    version: str
    filename: str
    address: str
    size_bytes: int
    sha256: str | None


@dataclass(frozen=True)
class Plan:
    """The result of resolving an installation with uv: the files to download, and the disk space needed.

    `backend` is the chosen build, never "auto". `needed_bytes` is the disk space that downloads and
    installation need together in `folder`, where all installations are. `fetched_bytes` were downloaded by
    earlier attempts. `note` is a remark on the source, or "".
    """

    wanted: InstallRequest
    backend: str
    torch: str
    wheels: tuple[Wheel, ...]
    folder: Path
    fetched_bytes: int
    needed_bytes: int
    free_bytes: int
    note: str = ""

    @property
    def download_bytes(self) -> int:
        """The size of all wheels."""
        return sum(wheel.size_bytes for wheel in self.wheels)


class Stage(StrEnum):
    """The stages of an installation in their order. `SENDING`: Ammeter is copied to a remote machine."""

    SENDING = "sending"
    RESOLVING = "resolving"
    FETCHING = "fetching"
    UNPACKING = "unpacking"
    TRYING = "trying"


@dataclass(frozen=True)
class StageBegan:
    """Event: a stage of the installation has started."""

    stage: Stage


@dataclass(frozen=True)
class Planned:
    """Event: uv has resolved the packages to install."""

    plan: Plan


@dataclass(frozen=True)
class Fetched:
    """Event: progress of the download. Speed and time left are None until known.

    `retry` is the reason if the connection is being retried.
    """

    done_bytes: int
    total_bytes: int
    bytes_per_second: float | None
    seconds_left: float | None
    file: str
    retry: str | None = None


@dataclass(frozen=True)
class Unpacked:
    """Event: progress of unpacking the wheels."""

    done_bytes: int
    total_bytes: int


@dataclass(frozen=True)
class Installed:
    """The last event of an installation: the new PyTorch has trained a step and is now in use."""

    installation: Installation


InstallEvent = StageBegan | Planned | Fetched | Unpacked | Installed


class Installs(Protocol):
    """Interface of a local or remote installer. Any thread may call its methods, except `install`."""

    def install(self, wanted: InstallRequest) -> Iterator[InstallEvent]: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def stop(self) -> None: ...
