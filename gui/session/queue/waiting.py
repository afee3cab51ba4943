"""The waiting work of this window, in its order: runs by their ids, and orders."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from gui.session.orders.order import Order

Work = str | Order


def key_of(work: Work) -> str:
    """A run's id, or an order's key."""
    return work if isinstance(work, str) else work.key


@dataclass
class Place:
    """A place in the queue. What is held is passed over."""

    work: Work
    is_held: bool = False

    @property
    def key(self) -> str:
        return key_of(self.work)


class WaitingList:
    """The places, next first; for all threads. `changed` is its lock, and is notified of every change.

    An order that goes on keeps its place while it is `current`, and gives way to what is put before it; other
    work leaves when it begins. While it `rests`, nothing begins.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.current: Work | None = None
        self.ended = 0
        """The number of items that have ended so far."""
        self._rests = False
        self._places: list[Place] = []

    @property
    def rests(self) -> bool:
        return self._rests

    @rests.setter
    def rests(self, rests: bool) -> None:
        with self.changed:
            self._rests = rests
            self.changed.notify()

    def add(self, *work: Work, goes_first: bool = False, is_held: bool = False) -> None:
        """Adds work at the end, or at the front."""
        places = [Place(one, is_held) for one in work]
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
        """Work that waits or is in progress, by its key."""
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
        """True if the work is held."""
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
        """Takes out all that waits."""
        with self.changed:
            self._places.clear()
            self.changed.notify()

    def _next(self) -> Place | None:
        if self._rests:
            return None
        return next((place for place in self._places if not place.is_held), None)

    def _place(self, key: str) -> Place | None:
        return next((place for place in self._places if place.key == key), None)
