"""Stand-ins for torch's wheels, small but of many files, and an installer that takes any of them for good."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.experiment.problem import ProblemError
from engine.installation.installer import Installer
from engine.installation.request import InstallEvent, InstallRequest, Source
from tests.wheel_index import WheelIndex, stand_in_wheel


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    folder = tmp_path / "wheels"
    write_wheels(folder)
    return folder


def write_wheels(folder: Path, version: str = "2.15.0", files: int = 60, first: int = 0) -> None:
    """A torch of 3 MB that stands in for the real one, and the torchvision that goes with it."""
    content = {f"torch/lib/part{number}.bin": bytes([first + number]) * 50_000 for number in range(files)}
    content["torch/__init__.py"] = f"__version__ = {version!r}\n".encode()
    stand_in_wheel(folder, "torch", version, content)
    stand_in_wheel(folder, "torchvision", "0.30.0", requires=["torch"])


@pytest.fixture
def index(wheels: Path) -> Iterator[WheelIndex]:
    with WheelIndex(wheels) as index:
        yield index


@pytest.fixture
def wanted(index: WheelIndex) -> InstallRequest:
    return InstallRequest(source=Source(mirror=index.simple))


@pytest.fixture
def engines(tmp_path: Path) -> Path:
    return tmp_path / "engine"


def useful(packages: Path) -> None:
    """A trial that succeeds, since a stand-in cannot train."""


def events_of(
    engines: Path, wanted: InstallRequest, try_out: Callable[[Path], None] = useful
) -> list[InstallEvent]:
    return list(Installer(engines, try_out).install(wanted))


def problem_of(engines: Path, wanted: InstallRequest, try_out: Callable[[Path], None] = useful) -> str:
    """The sentence and the remedy with which an installation fails."""
    with pytest.raises(ProblemError) as failed:
        events_of(engines, wanted, try_out)
    return f"{failed.value.problem.message} {failed.value.problem.remedy}"
