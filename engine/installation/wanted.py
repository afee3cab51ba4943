"""The user's choice of an engine, and uv's answer: its packages, their download and size."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

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
