"""What the window's orders have in common: in the queue, running, over and saved."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Generic, Protocol, Self, TypeVar

from PySide6.QtCore import QObject, Signal

from engine.experiment.problem import Problem, ProblemError
from engine.protocol.events import Failed, Phase
from engine.store.store import Store
from gui.session.engine_thread import EngineThread
from gui.session.orders.order import Order


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

    `changed`, `began`, `ended` and `deleted` carry a key, `busy_changed` whether any is in progress,
    `problem` a Problem, `logged` (level, message, subject). A subclass says how an order is shown
    (`_ordered`), what an event changes (`_take`) and what is kept of ended work (`_kept`).
    """

    changed = Signal(str)
    began = Signal(str)
    ended = Signal(str)
    deleted = Signal(str)
    busy_changed = Signal(bool)
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
        thread.order_gave_way.connect(self._wait_again)

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
            try:
                self._store.waiting.remove([key])
            except ProblemError as error:
                self.problem.emit(error.problem)
            del self._views[key]
            self.ended.emit(key)

    def progress(self, key: str) -> float | None:
        """How far the work in progress is, 0 to 1; None if that is unknown."""
        return None

    def seconds_left(self, order: Order[Any]) -> float | None:
        """How long work in progress, or that waits, still takes; None if that is unknown."""
        return None

    def enqueue(self, order: Order[Any], *, is_held: bool = False) -> str:
        """Adds an order that is saved in the queue; its key."""
        self._views[order.key] = self._ordered(order)
        self._thread.enqueue_order(order, is_held=is_held)
        return order.key

    @abstractmethod
    def view(self, key: str) -> View | None:
        """Work of this session, or saved work; None for an unknown key."""

    @abstractmethod
    def newest(self) -> str | None:
        """The key of the newest saved work."""

    @abstractmethod
    def delete(self, key: str) -> None:
        """Deletes saved work, unless it is in progress; what waits leaves the queue."""

    def submit_again(self, order: Order[Any]) -> str:
        """Queues the same work once more; its key. Raises ProblemError if it could not be saved."""
        return self.submit_order(order.again())

    def submit_order(self, order: Order[Any]) -> str:
        """Saves an order in the queue and adds it; its key. Raises ProblemError if it could not be saved."""
        self._store.waiting.add([order.item()])
        return self.enqueue(order)

    @abstractmethod
    def _ordered(self, order: Any) -> View:
        """An order that was just queued."""

    def _begin(self, key: str) -> None:
        # all kinds of work share the thread's signals
        if key in self._views:
            self._running = key
            self._update(key, replace(self._views[key], is_waiting=False, is_live=True))
            self.busy_changed.emit(True)
            self.began.emit(key)

    def _wait_again(self, key: str) -> None:
        if key == self._running:
            self._running = None
            self._update(key, replace(self._views[key], is_waiting=True, is_live=False))
            self.busy_changed.emit(False)

    def _pass_on(self, key: str, event: Any) -> None:
        if key == self._running:
            self._take(key, event)

    @abstractmethod
    def _take(self, key: str, event: Any) -> None:
        """Takes in what the work in progress tells."""

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
        self.busy_changed.emit(False)
        self.ended.emit(key)

    @abstractmethod
    def _kept(self, view: View, problem: Problem | None) -> View | None:
        """Ended work as it is shown from then on; None where there is nothing to show."""

    def _update(self, key: str, view: View) -> None:
        self._views[key] = view
        self.changed.emit(key)


@dataclass(frozen=True, kw_only=True)
class SavedView(OrderView):
    """Work that the store keeps.

    `doing` is its worker's phase and `fraction` how far that is, None if unknown. `saved_id` is its id in the
    store, once it has begun.
    """

    key: str
    created: datetime
    saved_id: str | None = None
    device_name: str = ""
    doing: str = ""
    fraction: float | None = None
    problem: Problem | None = None

    def _during(self, event: object) -> Self:
        """The view after an event that all work has."""
        match event:
            case Phase(name=name, detail=detail, fraction=fraction):
                return replace(self, doing=detail or name.value, fraction=fraction)
            case Failed(problem=problem):
                return replace(self, problem=problem)
        return self


class Record(Protocol):
    """Saved work as the store has it."""

    @property
    def id(self) -> str: ...
    @property
    def device_name(self) -> str: ...


AnyView = TypeVar("AnyView", bound=SavedView)
AnyRecord = TypeVar("AnyRecord", bound=Record)
RecordOut = TypeVar("RecordOut", bound=Record, covariant=True)


class Table(Protocol[RecordOut]):
    """The store's table of saved work."""

    def newest(self, limit: int | None = None) -> Sequence[RecordOut]: ...
    def find(self, record_id: str, /) -> RecordOut: ...
    def delete(self, record_id: str, /) -> None: ...


_MOST_SAVED = 30


class SavedWork(OrderedWork[AnyView], Generic[AnyView, AnyRecord]):
    """Work that a table of the store keeps, by its key.

    A subclass says how a record is shown (`_shown`), and of which records something is known (`_is_known`).
    """

    def __init__(
        self,
        store: Store,
        thread: EngineThread,
        kind: type[Order[Any]],
        table: Table[AnyRecord],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(store, thread, kind, parent)
        self._table = table

    @abstractmethod
    def _shown(self, record: AnyRecord, key: str) -> AnyView:
        """A record's view."""

    @abstractmethod
    def _is_known(self, record: AnyRecord) -> bool:
        """Whether there is something to show of a record."""

    def view(self, key: str) -> AnyView | None:
        if key not in self._views:
            try:
                record = self._table.find(key)
            except ProblemError:
                # it was taken out of the queue before it was saved
                return None
            if self._is_known(record):
                self._views[key] = self._shown(record, key)
        return self._views.get(key)

    def saved(self) -> Mapping[str, AnyRecord]:
        """The saved work by key, newest first, without that in progress."""
        keys = {view.saved_id: view.key for view in self._views.values()}
        records = {
            keys.get(record.id, record.id): record
            for record in self._table.newest(_MOST_SAVED)
            if self._is_known(record)
        }
        return {key: record for key, record in records.items() if key != self._running}

    def record(self, key: str) -> AnyRecord | None:
        """Work as it is in the store; None where it is not there."""
        view = self._views.get(key)
        try:
            return None if view is None or view.saved_id is None else self._table.find(view.saved_id)
        except ProblemError as error:
            self.problem.emit(error.problem)
            return None

    def newest(self) -> str | None:
        return next(iter(self.saved()), None)

    def delete(self, key: str) -> None:
        view = self.view(key)
        if key == self._running or view is None or view.saved_id is None:
            return
        if view.is_waiting and not self._thread.stop_order(key):
            # it has begun meanwhile
            return
        try:
            self._table.delete(view.saved_id)
        except ProblemError as error:
            self.problem.emit(error.problem)
            return
        del self._views[key]
        self.deleted.emit(key)


class TrainingWork(SavedWork[AnyView, AnyRecord]):
    """Saved work that trains runs of its own, which the window shows like any other run.

    `run_began` and `run_ended` carry the run's id, `run_event` that and the worker's event.
    """

    run_began = Signal(str)
    run_event = Signal(str, object)
    run_ended = Signal(str)
    _run: str | None = None

    def _follow(self, run_id: str | None) -> None:
        """Sets the run that the next events are of; None where they are of no run."""
        ended, self._run = self._run, run_id
        if ended is not None:
            self.run_ended.emit(ended)
        if run_id is not None:
            self.run_began.emit(run_id)

    def _tell_run(self, event: object) -> None:
        if self._run is not None:
            self.run_event.emit(self._run, event)

    def _end(self, key: str, problem: Problem | None) -> None:
        if key == self._running:
            self._follow(None)
        super()._end(key, problem)
