"""What the window's searches and diagnoses have in common: in the queue, running, and over."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from PySide6.QtCore import QObject, Signal

from engine.experiment.problem import Problem
from engine.store.store import Store
from gui.session.engine_thread import EngineThread
from gui.session.orders import Order


@dataclass(frozen=True, kw_only=True)
class OrderView:
    """Work as the window shows it: `is_waiting` in the queue, then `is_live`."""

    is_live: bool = False
    is_waiting: bool = False

    @property
    def is_unfinished(self) -> bool:
        return self.is_live or self.is_waiting


View = TypeVar("View", bound=OrderView)


class OrderedWork(QObject, Generic[View]):
    """Work of one kind by its key.

    `changed`, `began`, `ended` and `deleted` carry a key, `problem` a Problem, `logged` (level, message,
    subject). A subclass says what an event changes (`_take`) and what is kept of ended work (`_kept`).
    """

    changed = Signal(str)
    began = Signal(str)
    ended = Signal(str)
    deleted = Signal(str)
    problem = Signal(object)
    logged = Signal(str, str, object)

    def __init__(
        self, store: Store, thread: EngineThread, kind: type[Order[Any]], parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._store, self._thread, self._kind = store, thread, kind
        self._views: dict[str, View] = {}
        self._running: str | None = None
        thread.order_began.connect(self._begin)
        thread.order_event.connect(self._pass_on)
        thread.order_ended.connect(self._end)

    @property
    def running(self) -> str | None:
        """The key of the work in progress."""
        return self._running

    @property
    def waiting(self) -> int:
        """How many wait in the queue."""
        return self._thread.waiting_orders(self._kind)

    def unfinished(self) -> tuple[View, ...]:
        """The work in progress, then what waits."""
        return tuple(view for view in self._views.values() if view.is_unfinished)

    def stop(self, key: str) -> None:
        """Ends work with what it has found; what still waits is taken out of the queue."""
        if self._thread.stop_order(key):
            del self._views[key]
            self.ended.emit(key)

    def _enqueue(self, order: Order[Any], view: View) -> str:
        self._views[order.key] = view
        self._thread.enqueue_order(order)
        return order.key

    def _begin(self, key: str) -> None:
        # all kinds of work share the thread's signals
        if key in self._views:
            self._running = key
            self._update(key, replace(self._views[key], is_waiting=False, is_live=True))
            self.began.emit(key)

    def _pass_on(self, key: str, event: Any) -> None:
        if key == self._running:
            self._take(key, event)

    def _take(self, key: str, event: Any) -> None:
        """Takes in what the work in progress tells."""
        raise NotImplementedError

    def _end(self, key: str, problem: Problem | None) -> None:
        if key != self._running:
            return
        self._running = None
        kept = self._kept(replace(self._views[key], is_live=False), problem)
        if kept is None:
            del self._views[key]
        else:
            self._update(key, kept)
        if problem is not None:
            self.problem.emit(problem)
        self.ended.emit(key)

    def _kept(self, view: View, problem: Problem | None) -> View | None:
        """Ended work as it is shown from then on; None where there is nothing to show."""
        raise NotImplementedError

    def _update(self, key: str, view: View) -> None:
        self._views[key] = view
        self.changed.emit(key)
