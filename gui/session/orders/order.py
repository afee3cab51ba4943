"""Work of the engine's thread other than runs, as it waits, and how it is done."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, TypeVar

from engine.experiment.checks import Catalog
from engine.experiment.experiment import Experiment
from engine.experiment.problem import Problem, ProblemError
from engine.limit.prober import DEFAULT_MARGIN, Prober
from engine.numerics.diagnoser import Diagnoser
from engine.protocol.events import Failed, Finished
from engine.protocol.numerics.diagnosis import USUAL_PARTS, Part
from engine.protocol.trials import ProbeEnded
from engine.store.store import Store
from engine.timing.profiler import Profiler
from engine.worker.launcher import Launcher

Tell = Callable[[object], None]
IsStopped = Callable[[], bool]


class CanStop(Protocol):
    """What carries an order out; any thread may stop it."""

    def stop(self) -> None: ...


Tool = TypeVar("Tool", bound=CanStop)


@dataclass(frozen=True)
class Order(ABC, Generic[Tool]):
    """Work that waits in the queue; no other has its `key`."""

    key: str

    @abstractmethod
    def tool(self, store: Store, launcher: Launcher, catalog: Catalog | None) -> Tool:
        """What will carry it out."""

    @abstractmethod
    def carry_out(self, tool: Tool, tell: Tell, is_stopped: IsStopped) -> Problem | None:
        """Does the work and passes its events to `tell`; the first problem, if any."""


def _tell_all(events: Iterator[object], tool: CanStop, tell: Tell, is_stopped: IsStopped) -> Problem | None:
    """Passes a tool's events on to the last; what ended it early, if anything."""
    problem: Problem | None = None
    try:
        for event in events:
            tell(event)
            if is_stopped() and not isinstance(event, ProbeEnded | Finished | Failed):
                # asked again: the request may have come before the work had begun
                tool.stop()
            if isinstance(event, Failed):
                problem = event.problem
    except ProblemError as error:
        tell(Failed(problem=error.problem))
        problem = error.problem
    return problem


@dataclass(frozen=True)
class SearchOrder(Order[Prober]):
    """A search for each labelled side; `key` is the name of their series in the store.

    It tells (place of the side, probe event). The other sides are searched even if one fails.
    """

    sides: tuple[tuple[str, Experiment], ...]
    granularity: int = 1
    margin_fraction: float = DEFAULT_MARGIN

    def tool(self, store: Store, launcher: Launcher, catalog: Catalog | None) -> Prober:
        return Prober(store, launcher, catalog)

    def carry_out(self, tool: Prober, tell: Tell, is_stopped: IsStopped) -> Problem | None:
        first: Problem | None = None
        for place, (_, experiment) in enumerate(self.sides):
            if is_stopped():
                break
            events = tool.probe(experiment, self.granularity, self.margin_fraction, series=self.key)
            problem = _tell_all(events, tool, partial(_tell_of_side, tell, place), is_stopped)
            first = first or problem
        return first


def _tell_of_side(tell: Tell, place: int, event: object) -> None:
    tell((place, event))


@dataclass(frozen=True)
class DiagnosisOrder(Order[Diagnoser]):
    """A diagnosis of an experiment's numerics, or of the run `run_id`; it tells the diagnosis's events.

    The search for the first NaN or Inf goes through `steps` steps, through all of them where None.
    """

    experiment: Experiment
    parts: tuple[Part, ...] = USUAL_PARTS
    run_id: str | None = None
    steps: int | None = None

    def tool(self, store: Store, launcher: Launcher, catalog: Catalog | None) -> Diagnoser:
        return Diagnoser(store, launcher, catalog)

    def carry_out(self, tool: Diagnoser, tell: Tell, is_stopped: IsStopped) -> Problem | None:
        events = tool.diagnose(self.experiment, self.parts, steps=self.steps, run_id=self.run_id)
        return _tell_all(events, tool, tell, is_stopped)


@dataclass(frozen=True)
class TimingOrder(Order[Profiler]):
    """Profiles of experiments side by side, of the runs `run_ids` where these are named."""

    experiments: tuple[Experiment, ...]
    run_ids: tuple[str | None, ...] = ()

    def tool(self, store: Store, launcher: Launcher, catalog: Catalog | None) -> Profiler:
        return Profiler(store, launcher, catalog)

    def carry_out(self, tool: Profiler, tell: Tell, is_stopped: IsStopped) -> Problem | None:
        return _tell_all(tool.profile(self.experiments, self.run_ids), tool, tell, is_stopped)
