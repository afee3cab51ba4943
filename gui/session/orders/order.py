"""Work of the engine's thread other than runs: as it waits and is saved meanwhile, and how it is done."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar, runtime_checkable

from pydantic import TypeAdapter, ValidationError

from engine.experiment.checks import Catalog
from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.limit.prober import DEFAULT_MARGIN, Prober
from engine.numerics.diagnoser import Diagnoser
from engine.protocol.events import Failed, Finished
from engine.protocol.numerics.diagnosis import USUAL_PARTS, Part
from engine.protocol.trials import ProbeEnded
from engine.store.queue.waiting import WaitingItem
from engine.store.saved.work import new_id
from engine.store.store import Store
from engine.sweep.events import TurnEnded
from engine.sweep.fastest.events import TuningKnown
from engine.sweep.fastest.tuner import Tuner
from engine.sweep.sweeper import Sweeper
from engine.timing.profiler import Profiler
from engine.words.names import listed
from engine.worker.launcher import Launcher

Tell = Callable[[object], None]
IsStopped = Callable[[], bool]
GivesWay = Callable[[], bool]


class CanStop(Protocol):
    """What carries an order out; any thread may stop it."""

    def stop(self) -> None: ...


@runtime_checkable
class CanPause(Protocol):
    """What can pause after the step in flight, and go on; any thread may ask."""

    def pause(self) -> None: ...
    def go_on(self) -> None: ...


Tool = TypeVar("Tool", bound=CanStop)


@dataclass(frozen=True)
class Order(ABC, Generic[Tool]):
    """Work that waits in the queue; no other has its `key`, which is also its id in the store.

    Its fields are what is saved of it: values that pydantic can write and validate.
    """

    key: str
    kind: ClassVar[str]
    detail: ClassVar[str]
    """What is done, as the queue says it."""
    goes_on: ClassVar[bool] = False
    """Whether it goes on where it stood after it gave way or its program ended; it waits until it is over."""

    @property
    @abstractmethod
    def title(self) -> str:
        """What it works on, as the queue names it."""

    def item(self) -> WaitingItem:
        """The order as it is saved while it waits. `order_of` makes it again."""
        request = TypeAdapter(type(self)).dump_json(self).decode()
        return WaitingItem(self.key, self.kind, self.title, request)

    def again(self) -> Self:
        """The same work as another order."""
        return replace(self, key=new_id())

    @abstractmethod
    def tool(self, store: Store, launcher: Launcher, catalog: Catalog | None) -> Tool:
        """What will carry it out."""

    @abstractmethod
    def carry_out(self, tool: Tool, tell: Tell, is_stopped: IsStopped, gives_way: GivesWay) -> Problem | None:
        """Does the work and passes its events to `tell`; the first problem, if any.

        An order that goes on asks `gives_way` between its turns, and returns early where it is to.
        """


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
            if isinstance(event, TurnEnded | TuningKnown):
                # what failed was one turn of a sweep or tuning, which goes on
                problem = None
    except ProblemError as error:
        tell(Failed(problem=error.problem))
        problem = error.problem
    return problem


@dataclass(frozen=True)
class SearchOrder(Order[Prober]):
    """A search for each labelled side; `key` is the name of their series in the store.

    It tells (place of the side, probe event). The other sides are searched even if one fails.
    """

    kind = "search"
    detail = "Search for the largest batch"
    sides: tuple[tuple[str, Experiment], ...]
    granularity: int = 1
    margin_fraction: float = DEFAULT_MARGIN

    def tool(self, store: Store, launcher: Launcher, catalog: Catalog | None) -> Prober:
        return Prober(store, launcher, catalog)

    @property
    def title(self) -> str:
        return _title(experiment for _, experiment in self.sides)

    def carry_out(
        self, tool: Prober, tell: Tell, is_stopped: IsStopped, gives_way: GivesWay
    ) -> Problem | None:
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

    kind = "diagnosis"
    detail = "Diagnosis of the numerics"
    experiment: Experiment
    parts: tuple[Part, ...] = USUAL_PARTS
    run_id: str | None = None
    steps: int | None = None

    def tool(self, store: Store, launcher: Launcher, catalog: Catalog | None) -> Diagnoser:
        return Diagnoser(store, launcher, catalog)

    @property
    def title(self) -> str:
        return _title([self.experiment])

    def carry_out(
        self, tool: Diagnoser, tell: Tell, is_stopped: IsStopped, gives_way: GivesWay
    ) -> Problem | None:
        events = tool.diagnose(
            self.experiment, self.parts, steps=self.steps, run_id=self.run_id, diagnosis_id=self.key
        )
        return _tell_all(events, tool, tell, is_stopped)


@dataclass(frozen=True)
class TimingOrder(Order[Profiler]):
    """Profiles of experiments side by side, of the runs `run_ids` where these are named."""

    kind = "timing"
    detail = "Profile of the steps"
    experiments: tuple[Experiment, ...]
    run_ids: tuple[str | None, ...] = ()

    def tool(self, store: Store, launcher: Launcher, catalog: Catalog | None) -> Profiler:
        return Profiler(store, launcher, catalog)

    @property
    def title(self) -> str:
        return _title(self.experiments)

    def carry_out(
        self, tool: Profiler, tell: Tell, is_stopped: IsStopped, gives_way: GivesWay
    ) -> Problem | None:
        events = tool.profile(self.experiments, self.run_ids, timing_id=self.key)
        return _tell_all(events, tool, tell, is_stopped)


@dataclass(frozen=True)
class SweepOrder(Order[Sweeper]):
    """The turns that are left of a saved sweep; it tells the sweep's events."""

    kind = "sweep"
    detail = "Sweep"
    goes_on = True
    name: str

    def tool(self, store: Store, launcher: Launcher, catalog: Catalog | None) -> Sweeper:
        return Sweeper(store, launcher, catalog)

    @property
    def title(self) -> str:
        return self.name

    def carry_out(
        self, tool: Sweeper, tell: Tell, is_stopped: IsStopped, gives_way: GivesWay
    ) -> Problem | None:
        return _tell_all(tool.carry_on(self.key, gives_way), tool, tell, is_stopped)


@dataclass(frozen=True)
class TuningOrder(Order[Tuner]):
    """What is left of a saved tuning; it tells the tuning's events."""

    kind = "tuning"
    detail = "Search for the fastest settings"
    goes_on = True
    model: str

    def tool(self, store: Store, launcher: Launcher, catalog: Catalog | None) -> Tuner:
        return Tuner(store, launcher, catalog)

    @property
    def title(self) -> str:
        return self.model

    def carry_out(
        self, tool: Tuner, tell: Tell, is_stopped: IsStopped, gives_way: GivesWay
    ) -> Problem | None:
        return _tell_all(tool.carry_on(self.key, gives_way), tool, tell, is_stopped)


def _title(experiments: Iterable[Experiment]) -> str:
    wanted = tuple(experiments)
    models = listed(tuple(dict.fromkeys(experiment.model for experiment in wanted)))
    return f"{models}, {listed(tuple(dict.fromkeys(one.precision.label for one in wanted)))}"


_KINDS: Mapping[str, type[Order[Any]]] = {
    order.kind: order for order in (SearchOrder, DiagnosisOrder, TimingOrder, SweepOrder, TuningOrder)
}


def order_of(item: WaitingItem) -> Order[Any]:
    """The order of a saved item. Raises ProblemError where another version of Ammeter wrote it."""
    try:
        order: Order[Any] = TypeAdapter(_KINDS[item.kind]).validate_json(item.request)
    except (KeyError, ValidationError):
        message = f"“{item.title}” cannot be read from the queue: a newer Ammeter may have written it."
        raise ProblemError(
            Problem(kind=Kind.STORE, message=message, remedy="Remove it and order it anew.")
        ) from None
    return order
