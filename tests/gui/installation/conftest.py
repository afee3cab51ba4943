"""A setup whose machine, plan and events a test gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace
from pathlib import Path
from queue import Queue

import pytest
from pytestqt.qtbot import QtBot

from engine.experiment.problem import Problem, ProblemError
from engine.installation.builds import Build
from engine.installation.description import Description
from engine.installation.hardware import Gpu, Hardware, Vendor
from engine.installation.installed import Installation, State
from engine.installation.request import AUTOMATIC, InstallEvent, InstallPlan, InstallRequest, Package
from gui.installation.setup import EngineSetup

GIB = 2**30
CARD = Description(
    state=State.ABSENT,
    folder="/engine",
    hardware=Hardware(
        system="linux",
        machine="x86_64",
        processor="AMD Ryzen 9",
        gpus=(Gpu(Vendor.NVIDIA, "NVIDIA GeForce RTX 4090", (8, 9)),),
        nvidia_driver="580.65",
        cuda_of_driver=(13, 0),
    ),
    builds=(
        Build("cu130", "CUDA 13.0", "The newest CUDA that driver 580.65 runs.", True, 2 * GIB),
        Build("cpu", "CPU only", "Runs everywhere, but does not use the GPU.", True, GIB // 5),
        Build("rocm6.4", "ROCm 6.4", "No AMD GPU was found.", False, 4 * GIB),
    ),
)
BARE = CARD.model_copy(
    update={
        "hardware": replace(CARD.hardware, gpus=(), nvidia_driver=None, cuda_of_driver=None),
        "builds": CARD.builds[1:],
    }
)
INSTALLATION = Installation(
    name="1",
    torch="2.15.0",
    backend="cu130",
    python="3.12",
    platform="linux-x86_64",
    packages={"torch": "2.15.0+cu130", "torchvision": "0.30.0+cu130", "sympy": "1.14.0"},
    files=20_000,
    size_bytes=6 * GIB,
    made=1_790_000_000.0,
)


class Performed:
    """Carries out what a test puts into `events`: events to tell, a Problem to fail with, None to end."""

    def __init__(self) -> None:
        self.events: Queue[InstallEvent | Problem | None] = Queue()
        self.stops: list[InstallRequest] = []
        self.is_installing = False
        self.found = CARD
        self.answer: Callable[[InstallRequest], InstallPlan] = plan_of
        self.wanted: list[InstallRequest] = []

    def another(self) -> Performed:
        """An installer for one call, which shares all that a test asks for."""
        return copy(self)

    def describe(self) -> Description:
        return self.found

    def plan(self, wanted: InstallRequest) -> InstallPlan:
        return self.answer(wanted)

    def install(self, wanted: InstallRequest) -> Iterator[InstallEvent]:
        self.is_installing = True
        self.wanted.append(wanted)
        try:
            while (event := self.events.get()) is not None:
                if isinstance(event, Problem):
                    raise ProblemError(event)
                yield event
        finally:
            self.is_installing = False

    def stop(self) -> None:
        # a plan needs none
        if self.is_installing:
            self.stops.append(self.wanted[-1])
            self.events.put(None)


def plan_of(wanted: InstallRequest, *, free_bytes: int = 100 * GIB) -> InstallPlan:
    """The plan that uv could have made of the choice."""
    backend = "cu130" if wanted.backend == AUTOMATIC else wanted.backend
    packages = (Package("torch", "2.15.0", 2 * GIB), Package("sympy", "1.14.0", GIB // 2))
    sizes = (5 * GIB // 2, True, 8 * GIB, 0, free_bytes)
    return InstallPlan(wanted, backend, "2.15.0", packages, Path("/data/engine"), *sizes)


@pytest.fixture
def performed() -> Performed:
    return Performed()


@pytest.fixture
def found() -> Description:
    """The machine; a test that needs another one overrides it."""
    return CARD


@pytest.fixture
def answer() -> Callable[[InstallRequest], InstallPlan]:
    """What planning answers."""
    return plan_of


@pytest.fixture
def setup(
    qtbot: QtBot, performed: Performed, found: Description, answer: Callable[[InstallRequest], InstallPlan]
) -> Iterator[EngineSetup]:
    performed.found, performed.answer = found, answer
    made = EngineSetup(performed.another)
    yield made
    made.shut_down()
