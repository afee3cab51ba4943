"""The request for a PyTorch installation, its plan and events, and these as lines of JSON."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import from_json

from engine.experiment.problem import Kind, Problem, ProblemError
from engine.experiment.value import check_size, shortened
from engine.installation.installed import Installation
from engine.words.numbers import size_text

AUTOMATIC = "auto"


class Stopped(Exception):  # noqa: N818 - nothing went wrong
    """Raised in an installation when the user has stopped it."""


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
class Package:
    """A package to install. `size_bytes` is the size of its wheel, 0 if the index does not have it."""

    name: str
    version: str
    size_bytes: int = 0


@dataclass(frozen=True)
class InstallPlan:
    """The result of resolving an installation with uv: the packages, their download and the disk space.

    `backend` is the chosen build, never "auto". `download_bytes` is the size of all wheels. It is rough
    unless `is_exact`, and None if unknown, and so is `unpacked_bytes`, the disk space that they take in
    `folder`, where all installations are. `kept_bytes` of these are there from an earlier attempt. `note` is
    a remark on the source, or "". `lock` is the list of packages that uv installs, as a file's text.
    """

    wanted: InstallRequest
    backend: str
    torch: str
    packages: tuple[Package, ...]
    folder: Path
    download_bytes: int | None
    is_exact: bool
    unpacked_bytes: int | None
    kept_bytes: int
    free_bytes: int
    note: str = ""
    lock: str = ""

    @property
    def needed_bytes(self) -> int:
        """The disk space that the installation still needs. 0 if unknown."""
        return max((self.unpacked_bytes or 0) - self.kept_bytes, 0)

    @property
    def fits(self) -> bool:
        """True if the disk has room for it."""
        return self.free_bytes >= self.needed_bytes

    @property
    def download(self) -> str:
        """The size of all wheels as text: "2.6 GiB", "about 2.6 GiB", "size unknown"."""
        if self.download_bytes is None:
            return "size unknown"
        text = size_text(self.download_bytes)
        return text if self.is_exact else f"about {text}"


class Stage(StrEnum):
    """The stages of an installation in their order. `SENDING`: Ammeter is copied to a remote machine."""

    SENDING = "sending"
    RESOLVING = "resolving"
    FETCHING = "fetching"
    TRYING = "trying"


@dataclass(frozen=True)
class StageBegan:
    """Event: a stage of the installation has started."""

    stage: Stage


@dataclass(frozen=True)
class Planned:
    """Event: uv has resolved the packages to install."""

    plan: InstallPlan


@dataclass(frozen=True)
class Fetched:
    """Event: progress of the download, which uv unpacks as it arrives.

    `done_bytes` are on the disk. `total_bytes` is an estimate, and None if unknown, like the time left.
    `packages` names those that are being downloaded.
    """

    done_bytes: int
    total_bytes: int | None
    seconds_left: float | None
    packages: str = ""


@dataclass(frozen=True)
class Installed:
    """The last event of an installation: the new PyTorch has trained a step and is now in use."""

    installation: Installation


InstallEvent = StageBegan | Planned | Fetched | Installed


LONGEST_LINE = 4 * 2**20  # in bytes, of which a plan of a few hundred packages takes a tenth
_LONGEST_TEXT = 2_000
_REQUEST = TypeAdapter(InstallRequest)
_EVENT: TypeAdapter[InstallEvent | Problem] = TypeAdapter(InstallEvent | Problem)


def request_line(wanted: InstallRequest) -> bytes:
    """Return the request as a line of JSON."""
    return _REQUEST.dump_json(wanted) + b"\n"


def read_request(line: bytes) -> InstallRequest:
    """Parse the output of `request_line`. Raises ProblemError."""
    try:
        check_size(line)
        return _REQUEST.validate_json(line)
    except ValueError:
        raise ProblemError(_UNKNOWN) from None


def event_line(event: InstallEvent | Problem) -> bytes:
    """Return an event or a problem as a line of JSON."""
    return _EVENT.dump_json(event) + b"\n"


def read_event(line: bytes) -> InstallEvent:
    """Parse the untrusted output of `event_line`. Raises ProblemError, also if it is a problem."""
    try:
        check_size(line)
        event = _EVENT.validate_python(cleaned(from_json(line)))
    except ValueError:
        raise ProblemError(_UNKNOWN) from None
    if isinstance(event, Problem):
        raise ProblemError(event)
    return event


def cleaned(value: Any) -> Any:
    """Return a remote machine's JSON value with each text bounded, and without control characters."""
    if isinstance(value, str):
        return shortened(value, _LONGEST_TEXT)
    if isinstance(value, dict):
        return {shortened(key, _LONGEST_TEXT): cleaned(each) for key, each in value.items()}
    return [cleaned(each) for each in value] if isinstance(value, list) else value


_UNKNOWN = Problem(
    kind=Kind.PROTOCOL,
    message="The remote machine sent an answer that this version of Ammeter does not understand.",
    remedy="Install PyTorch there again with `ammeter engine install --machine NAME`.",
)
