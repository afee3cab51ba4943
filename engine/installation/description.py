"""The description of a machine and its PyTorch, as `engine show` prints it, local or remote."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from engine.experiment.problem import Problem
from engine.experiment.value import Bounded
from engine.installation.builds import Build, builds_for
from engine.installation.hardware import Hardware, hardware_here
from engine.installation.installed import (
    Engine,
    Installation,
    State,
    engine_here,
    engines_folder,
    torch_version,
)


class Description(Bounded, frozen=True, extra="ignore"):
    """The PyTorch on a machine, local or remote, the hardware, and the PyTorch builds for it, best first."""

    state: State
    torch: str | None = None
    problem: Problem | None = None
    installation: Installation | None = None
    folder: str
    hardware: Hardware
    builds: Annotated[tuple[Build, ...], Field(max_length=100)]

    @property
    def engine(self) -> Engine:
        """The installed PyTorch without its packages' folder, which only its own machine can use."""
        return Engine(self.state, self.installation, problem=self.problem)

    def build(self, backend: str) -> Build | None:
        return next((build for build in self.builds if build.backend == backend), None)


def description_here() -> Description:
    """Describe this machine and its PyTorch. It queries the drivers, so call it in a thread."""
    engine, hardware = engine_here(), hardware_here()
    return Description(
        state=engine.state,
        torch=torch_version(engine),
        problem=engine.problem,
        installation=engine.installation,
        folder=str(engines_folder()),
        hardware=hardware,
        builds=builds_for(hardware),
    )
