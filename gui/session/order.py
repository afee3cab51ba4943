"""Work of the engine's thread other than runs: as it waits and is saved meanwhile, and how it is done."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from engine.sweep.order import TurnEnded
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


@runtime_checkable
class CanPause(Protocol):
    """Work that can pause after the step in flight, and go on; any thread may ask."""

    def pause(self) -> None: ...
    def go_on(self) -> None: ...


@dataclass(frozen=True)
class Order:
    """Work that waits in the queue; no other has its `key`, which is also its id in the store.

    `study` is what is to be answered, None for a sweep, which is in the store. `title` says what of, and
    `machine` where, "" for this one.
    """

    key: str
    kind: str
    title: str
    study: Study[Any] | None = None
    machine: str = ""

    @classmethod
    def of(cls, study: Study[Any]) -> Order:
        return cls(study.id, study.kind, study.title, study, study.machine)

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
        return WaitingItem(self.key, self.kind, self.title, request, machine=self.machine)

    def tool(self, store: Store, launcher: Launcher, catalog: Catalog | None) -> Driver[Any] | Sweeper:
        """The driver that will carry it out."""
        made = Sweeper if self.study is None else DRIVERS[self.kind]
        return made(store, launcher, catalog)

    def execute(
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
    return Order.of(Study(answer=order.study.answer.afresh(), id=new_id(), machine=order.machine))


def order_of(item: WaitingItem) -> Order:
    """The order of a saved item. Raises ProblemError where another version of Ammeter wrote it."""
    order = Order(item.key, item.kind, item.title, machine=item.machine)
    if item.kind == SWEEP:
        return order
    try:
        answer = ANSWERS[item.kind].model_validate_json(item.request)  # type: ignore[index]
    except (KeyError, ValueError):
        message = f"“{item.title}” cannot be read from the queue: another version of Ammeter wrote it."
        raise ProblemError(
            Problem(kind=Kind.STORE, message=message, remedy="Remove it and order it anew.")
        ) from None
    return replace(order, study=Study(id=item.key, answer=answer, machine=item.machine))


Work = str | Order


def key_of(work: Work) -> str:
    """A run's id, or an order's key."""
    return work if isinstance(work, str) else work.key


@dataclass
class Place:
    """A place in the queue, of work for a `machine`. What is held is passed over."""

    work: Work
    is_held: bool = False
    machine: str = ""

    @property
    def key(self) -> str:
        return key_of(self.work)


class WaitingList:
    """The places, next first; for all threads. `changed` is its lock, and is notified of every change.

    An order that goes on keeps its place while it is `current`, and gives way to what is put before it; other
    work leaves when it begins. While it `rests`, nothing begins; `can_train` tells on which machines any can.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.current: Work | None = None
        self.ended = 0
        """The number of items that have ended so far."""
        self._rests = False
        self._places: list[Place] = []
        self.can_train: Callable[[str], bool] = lambda _machine: True

    @property
    def rests(self) -> bool:
        return self._rests

    @rests.setter
    def rests(self, rests: bool) -> None:
        with self.changed:
            self._rests = rests
            self.changed.notify()

    def add(self, *work: Work, goes_first: bool = False, is_held: bool = False, machine: str = "") -> None:
        """Adds work at the end, or at the front; an order names its machine itself."""
        places = [Place(one, is_held, one.machine if isinstance(one, Order) else machine) for one in work]
        with self.changed:
            self._places[:] = [*places, *self._places] if goes_first else [*self._places, *places]
            self.changed.notify()

    def places(self) -> tuple[Place, ...]:
        """All places, also that of an order in progress that keeps it."""
        with self.changed:
            return tuple(self._places)

    def waiting(self) -> tuple[Work, ...]:
        """The waiting work, next first."""
        with self.changed:
            return tuple(place.work for place in self._places if place.work is not self.current)

    def keys(self) -> tuple[str, ...]:
        """All keys in their order, also that of an order in progress that keeps its place."""
        with self.changed:
            return tuple(place.key for place in self._places)

    def work(self, key: str) -> Work | None:
        with self.changed:
            known = [*(place.work for place in self._places), *([self.current] if self.current else [])]
            return next((work for work in known if key_of(work) == key), None)

    def remove(self, key: str) -> bool:
        """Takes work out; False if it is in progress or not there."""
        with self.changed:
            place = self._place(key)
            if place is None or place.work is self.current:
                return False
            self._places.remove(place)
            return True

    def arrange(self, keys: Sequence[str]) -> None:
        """Puts the work into the order of its keys; what is not named goes to the end."""
        with self.changed:
            order = {key: number for number, key in enumerate(keys)}
            self._places.sort(key=lambda place: order.get(place.key, len(order)))
            self.changed.notify()

    def hold(self, key: str, is_held: bool) -> None:
        """Holds work back, or releases it. An order in progress that goes on stops at its next turn."""
        with self.changed:
            if (place := self._place(key)) is not None:
                place.is_held = is_held
                self.changed.notify()

    def is_held(self, key: str) -> bool:
        with self.changed:
            return (place := self._place(key)) is not None and place.is_held

    def has_next(self) -> bool:
        """True if there is work to begin."""
        with self.changed:
            return self._next() is not None

    def take(self) -> Work | None:
        """The next work, which becomes `current`; None if there is none to begin."""
        with self.changed:
            place = self._next()
            if place is None:
                return None
            self.current = place.work
            if not (isinstance(place.work, Order) and place.work.goes_on):
                self._places.remove(place)
            return self.current

    def gives_way(self) -> bool:
        """True if the order in progress is to stop for what stands before it, or because it is held."""
        with self.changed:
            place = self._next()
            mine = self._place(key_of(self.current)) if self.current is not None else None
            return mine is not None and (mine.is_held or (place is not None and place is not mine))

    def end(self, *, gave_way: bool = False) -> None:
        """The current work is over, unless it gave way and waits again."""
        with self.changed:
            work, self.current = self.current, None
            if work is not None and not gave_way:
                self.ended += 1
                self.remove(key_of(work))

    def clear(self) -> None:
        with self.changed:
            self._places.clear()
            self.changed.notify()

    def _next(self) -> Place | None:
        if self._rests:
            return None
        begins = (place for place in self._places if not place.is_held and self.can_train(place.machine))
        return next(begins, None)

    def _place(self, key: str) -> Place | None:
        return next((place for place in self._places if place.key == key), None)
