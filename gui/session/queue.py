"""The queue of the window, which its thread and the engine's share: work in progress, then waiting work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from PySide6.QtCore import QObject, Signal

from engine.driver import Driver
from engine.experiment.problem import Problem
from engine.limit.driver import LimitDriver
from engine.numerics.driver import NumericsDriver
from engine.profile.driver import ProfileDriver
from engine.store.record import RUN, Work
from engine.store.store import Store
from engine.sweep.sweeper import Sweeper
from engine.tune.driver import TuneDriver
from gui.session.background import attempt

SWEEP = "sweep"
DRIVERS: Mapping[str, type[Driver[Any] | Sweeper]] = {
    "limit": LimitDriver,
    "numerics": NumericsDriver,
    "profile": ProfileDriver,
    SWEEP: Sweeper,
    "tune": TuneDriver,
}
"""The driver of each kind of work but a run, which `Runner` trains."""


class Queue(QObject):
    """The one list of the window's work, next first. It is saved, so that a later window can continue it.

    The window's thread changes it, and the engine's starts and ends work. `lock` is a condition that is
    notified of every change. Work that can resume stays in the list while it runs (`current`), and yields if
    other work is moved ahead of it. Any other work leaves the list when it starts. `can_start(machine)`
    returns whether that machine is free.
    """

    changed = Signal()  # other work waits or is in progress
    problem = Signal(object)  # Problem: the store refuses a change of the order or a pause

    def __init__(self, store: Store, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._waiting = store.waiting
        self.lock = threading.Condition()
        self.current: Work | None = None
        self.ended = 0
        """The number of works that have ended so far."""
        self.has_engine = True
        """False if PyTorch is not installed, or being installed now. Then all work waits."""
        self._is_paused = False
        self._works: tuple[Work, ...] = ()
        self.can_start: Callable[[str], bool] = lambda _machine: True

    @property
    def is_paused(self) -> bool:
        """Return True if no work starts after the current one, until the queue is resumed."""
        return self._is_paused

    @is_paused.setter
    def is_paused(self, is_paused: bool) -> None:
        def save() -> None:
            self._waiting.rests = is_paused

        with self.lock:
            if attempt(save, self.problem):
                self._is_paused = is_paused
                self.lock.notify()
        self.changed.emit()

    def load(self) -> tuple[Work, ...]:
        """Restore the pause of an earlier window, and return the work that it left, next first.

        Raises ProblemError if the store cannot be read.
        """
        left = self.left()
        if self._waiting.rests:
            self.is_paused = bool(left)
        return left

    def works(self) -> tuple[Work, ...]:
        """Return the work in progress, unless it keeps its place, then all others in order."""
        with self.lock:
            is_listed = self.current is None or any(work.key == self.current.key for work in self._works)
            return self._works if is_listed or self.current is None else (self.current, *self._works)

    def waiting(self) -> tuple[Work, ...]:
        """Return the waiting work, next first."""
        with self.lock:
            return tuple(work for work in self._works if not self.is_current(work.key))

    def keys(self) -> tuple[str, ...]:
        """Return all keys in order, with the current one if it keeps its place."""
        return tuple(work.key for work in self._works)

    def is_current(self, key: str) -> bool:
        """Return True if the work has started, even before this is signaled."""
        with self.lock:
            return self.current is not None and self.current.key == key

    def add(self, works: Iterable[Work], *, goes_first: bool = False) -> None:
        """Add work at the end or at the front. Raises ProblemError if it cannot be saved."""
        with self.lock:
            self._set((*works, *self._works) if goes_first else (*self._works, *works))

    def arrange(self, keys: Sequence[str]) -> None:
        """Sort the work by `keys`. Work with another key goes to the end."""
        order = {key: number for number, key in enumerate(keys)}
        with self.lock:
            works = sorted(self._works, key=lambda work: order.get(work.key, len(order)))
            attempt(lambda: self._set(works), self.problem)

    def move(self, key: str, before: str | None) -> None:
        """Move waiting work before other work, or to the end. Before the running work means first."""
        keys = [other for other in self.keys() if other != key]
        if before == key or len(keys) == len(self.keys()):
            return
        is_first = before is not None and before not in keys and self.is_current(before)
        place = 0 if is_first else keys.index(before) if before in keys else len(keys)
        self.arrange((*keys[:place], key, *keys[place:]))

    def run_next(self, key: str) -> None:
        """Move work to the front and release it. A running sweep yields to it."""
        self.pause(key, False)
        self.move(key, next(iter(self.keys()), None))

    def pause(self, key: str, is_paused: bool) -> None:
        """Pause or release work. Paused work is skipped, and current work stops at its next turn."""
        with self.lock:
            works = [replace(w, is_paused=is_paused) if w.key == key else w for w in self._works]
            attempt(lambda: self._set(works), self.problem)

    def take_out(self, *keys: str) -> tuple[Work, ...]:
        """Take waiting work out and return it. The caller removes it from the store, which can be slow."""
        wanted = set(keys)
        with self.lock:
            taken = {work.key: work for work in self.waiting() if work.key in wanted}
            self._works = tuple(work for work in self._works if work.key not in taken)
        self.changed.emit()
        return tuple(taken.values())

    def left(self) -> tuple[Work, ...]:
        """Return the work that an earlier window left in the queue, and runs in no queue, next first.

        Raises ProblemError if the store cannot be read.
        """
        mine = {work.key for work in self.works()}
        return tuple(work for work in self._waiting.claimable() if work.key not in mine)

    def claim(self, works: Sequence[Work]) -> Mapping[Work, Problem | None]:
        """Add work that an earlier window left. Return the problem of each that is gone or taken.

        Raises ProblemError if it cannot be saved.
        """
        claimed = self._waiting.claim(works)
        self.add(work for work, problem in claimed.items() if problem is None)
        return claimed

    def has_next(self) -> bool:
        """Return True if there is work to start."""
        return self._next() is not None

    @property
    def has_work(self) -> bool:
        """Return True if work is running or can start."""
        return self.current is not None or self.has_next()

    def start_next(self) -> Work | None:
        """Return the next work, which becomes `current`, or None if there is none to start."""
        with self.lock:
            work = self._next()
            if work is not None and not (work.kind != RUN and DRIVERS[work.kind].keeps_place):
                self._works = tuple(other for other in self._works if other is not work)
            self.current = work
            return work

    def should_yield(self) -> bool:
        """Return True if the current work must yield to work before it, or because it is paused."""
        with self.lock:
            mine = next((work for work in self._works if self.is_current(work.key)), None)
            return mine is not None and (mine.is_paused or self._next() not in (mine, None))

    def end(self, *, yields: bool = False) -> None:
        """End the current work. If it yields, it stays in the queue."""
        with self.lock:
            ended, self.current = self.current, None
            if ended is not None and not yields:
                self.ended += 1
                self._works = tuple(work for work in self._works if work.key != ended.key)

    def clear(self) -> None:
        """Forget all waiting work, which stays saved for a later window."""
        with self.lock:
            self._works = ()

    def _next(self) -> Work | None:
        if self._is_paused:
            return None
        return next(
            (work for work in self._works if not work.is_paused and self.can_start(work.machine)), None
        )

    def _set(self, works: Iterable[Work]) -> None:
        works = tuple(works)
        self._waiting.save(works)
        self._works = works
        self.lock.notify()
        self.changed.emit()
