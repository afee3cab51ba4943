"""Work of the engine's thread other than runs: as it waits and is saved meanwhile, and how it is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

from engine.driver import Driver
from engine.experiment.checks import Catalog
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.limit.driver import LimitDriver
from engine.numerics.driver import NumericsDriver
from engine.profile.driver import ProfileDriver
from engine.protocol.events import Failed, Finished
from engine.store.queue import WaitingItem
from engine.store.saved.study import ANSWERS, Study, new_id
from engine.store.store import Store
from engine.sweep.events import TurnEnded
from engine.sweep.sweeper import Sweeper
from engine.tune.driver import TuneDriver
from engine.worker.launcher import Launcher

SWEEP = "sweep"
DRIVERS: Mapping[str, type[Driver[Any]]] = {
    "limit": LimitDriver,
    "numerics": NumericsDriver,
    "profile": ProfileDriver,
    "tune": TuneDriver,
}
"""The driver of each kind of study."""

_DETAILS = {
    "limit": "Largest batch",
    "numerics": "Numerics",
    "profile": "Profile",
    SWEEP: "Sweep",
    "tune": "Tuning",
}


class CanStop(Protocol):
    """Work that any thread may stop."""

    def stop(self) -> None: ...


@runtime_checkable
class CanPause(Protocol):
    """Work that can pause after the step in flight, and go on; any thread may ask."""

    def pause(self) -> None: ...
    def go_on(self) -> None: ...


@dataclass(frozen=True)
class Order:
    """Work that waits in the queue; no other has its `key`, which is also its id in the store.

    `study` is what is to be answered, None for a sweep, which is in the store. `title` says what of.
    """

    key: str
    kind: str
    title: str
    study: Study[Any] | None = None

    @classmethod
    def of(cls, study: Study[Any]) -> Order:
        """The order for what is left of a study."""
        return cls(study.id, study.kind, study.title, study)

    @property
    def detail(self) -> str:
        """Its description in the queue."""
        return _DETAILS[self.kind]

    @property
    def goes_on(self) -> bool:
        """True if it goes on where it stood after it gave way or its program ended, and waits until then."""
        return self.kind == SWEEP or DRIVERS[self.kind].keeps_place

    def item(self) -> WaitingItem:
        """The order as it is saved while it waits. `order_of` makes it again."""
        request = "" if self.study is None else self.study.answer.model_dump_json()
        return WaitingItem(self.key, self.kind, self.title, request)

    def tool(self, store: Store, launcher: Launcher, catalog: Catalog | None) -> Driver[Any] | Sweeper:
        """The driver that will carry it out."""
        made = Sweeper if self.study is None else DRIVERS[self.kind]
        return made(store, launcher, catalog)

    def carry_out(
        self,
        tool: Driver[Any] | Sweeper,
        store: Store,
        tell: Callable[[object], None],
        is_stopped: Callable[[], bool],
        gives_way: Callable[[], bool],
    ) -> Problem | None:
        """Does the work and passes its events to `tell`; what ended it early, if anything.

        An order that goes on asks `gives_way` between its turns, and returns early where it is to.
        """
        problem: Problem | None = None
        try:
            for event in self._events(tool, store, gives_way):
                tell(event)
                if is_stopped() and not isinstance(event, Finished | Failed):
                    # asked again: the request may have come before the work had begun
                    tool.stop()
                if isinstance(event, Failed):
                    problem = event.problem
                if isinstance(event, TurnEnded):
                    # what failed was one turn of a sweep, which goes on
                    problem = None
        except ProblemError as error:
            tell(Failed(problem=error.problem))
            problem = error.problem
        return problem

    def _events(
        self, tool: Driver[Any] | Sweeper, store: Store, gives_way: Callable[[], bool]
    ) -> Iterator[object]:
        if isinstance(tool, Sweeper):
            return tool.carry_on(self.key, gives_way)
        assert self.study is not None
        # another window may have gone on with it since it was ordered
        known = store.studies.find(self.key) if store.studies.starting(self.key) else self.study
        return tool.follow(known, gives_way)


def again(order: Order) -> Order:
    """The same question as another order."""
    assert order.study is not None
    return Order.of(Study(answer=order.study.answer.afresh(), id=new_id()))


def order_of(item: WaitingItem) -> Order:
    """The order of a saved item. Raises ProblemError where another version of Ammeter wrote it."""
    order = Order(item.key, item.kind, item.title)
    if item.kind == SWEEP:
        return order
    try:
        answer = ANSWERS[item.kind].model_validate_json(item.request)  # type: ignore[index]
    except (KeyError, ValueError):
        message = f"“{item.title}” cannot be read from the queue: another version of Ammeter wrote it."
        raise ProblemError(
            Problem(kind=Kind.STORE, message=message, remedy="Remove it and order it anew.")
        ) from None
    return replace(order, study=Study(id=item.key, answer=answer))
