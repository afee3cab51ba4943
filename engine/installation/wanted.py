"""The user's choice of an engine, and uv's answer: its packages, their download and size."""

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
    """The source of packages; the official indexes if both are None.

    `mirror` is the address of a package index that stands in for PyPI and for PyTorch's indexes; `folder`
    holds wheels, for machines without network (`--find-links`).
    """

    mirror: str | None = None
    folder: Path | None = None


@dataclass(frozen=True)
class Wanted:
    """`backend` is uv's name of a torch build, or "auto" for what uv finds; `extras` are more packages."""

    backend: str = AUTOMATIC
    source: Source = Source()
    extras: tuple[str, ...] = ()


@dataclass(frozen=True)
class Wheel:
    """A file to fetch: its address (https, http or file), its size, and its SHA-256 where the index tells."""

    name: str
    version: str
    filename: str
    address: str
    size_bytes: int
    sha256: str | None


@dataclass(frozen=True)
class Plan:
    """All that will be fetched, as uv resolved it. `backend` is the resolved one, never "auto".

    `needed_bytes` is the room that downloads and installation take together on the disk of `folder`, which is
    the engines' folder; `fetched_bytes` is what earlier attempts have already fetched. `note` is what a user
    should know of where it comes from, or "".
    """

    wanted: Wanted
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
    """The stages in their order. `SENDING`: the program to another machine, before its engine."""

    SENDING = "sending"
    RESOLVING = "resolving"
    FETCHING = "fetching"
    UNPACKING = "unpacking"
    TRYING = "trying"


@dataclass(frozen=True)
class StageBegan:
    stage: Stage


@dataclass(frozen=True)
class Planned:
    """uv has resolved what will be fetched."""

    plan: Plan


@dataclass(frozen=True)
class Fetched:
    """Progress of the download; speed and time left are None until known, `retry` is why it was cut."""

    done_bytes: int
    total_bytes: int
    bytes_per_second: float | None
    seconds_left: float | None
    file: str
    retry: str | None = None


@dataclass(frozen=True)
class Unpacked:
    done_bytes: int
    total_bytes: int


@dataclass(frozen=True)
class Installed:
    """The last event: the new installation has trained a step and is in use."""

    installation: Installation


InstallEvent = StageBegan | Planned | Fetched | Unpacked | Installed


class Installs(Protocol):
    """An installation, here or on another machine; all but `install` may be called from another thread."""

    def install(self, wanted: Wanted) -> Iterator[InstallEvent]: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def stop(self) -> None: ...
