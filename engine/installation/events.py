"""Events of an installation in progress."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from engine.installation.installed import Installation
from engine.installation.wanted import Plan


class Stage(StrEnum):
    """The stages in their order."""

    RESOLVING = "resolving"
    FETCHING = "fetching"
    UNPACKING = "unpacking"
    TRYING = "trying"


@dataclass(frozen=True)
class StageBegan:
    """A stage begins."""

    stage: Stage


@dataclass(frozen=True)
class Planned:
    """uv has resolved what will be fetched."""

    plan: Plan


@dataclass(frozen=True)
class Fetched:
    """Progress of the download, some five times a second. Speed and time left are None until known.

    `retry`: why a connection was cut, while it is tried again.
    """

    done_bytes: int
    total_bytes: int
    bytes_per_second: float | None
    seconds_left: float | None
    file: str
    retry: str | None = None


@dataclass(frozen=True)
class Unpacked:
    """Progress of the unpacking."""

    done_bytes: int
    total_bytes: int


@dataclass(frozen=True)
class Installed:
    """The last event: the new installation has trained a step and is in use."""

    installation: Installation


InstallEvent = StageBegan | Planned | Fetched | Unpacked | Installed
