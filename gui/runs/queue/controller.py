"""Keeps the queue in sight up to date, does what it asks for, and makes the offers about the queue."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from PySide6.QtCore import QObject, QTimer, Signal

from gui.runs.queue.panel import QueuePanel
from gui.runs.queue.schedule import schedule
from gui.runs.queue.table import HOLD, NEXT, RELEASE, REMOVE, REPEAT
from gui.runs.queue.words import left_words
from gui.session.queue import Queue
from gui.widgets.notice import Message, Notice

_REFRESH_MS = 1_000


class QueueController(QObject):
    """Shows the queue, every second while something runs. `scheduled` carries the Schedule."""

    scheduled = Signal(object)

    def __init__(self, panel: QueuePanel, queue: Queue, notice: Notice, parent: QObject) -> None:
        super().__init__(parent)
        self._panel, self._queue, self._notice = panel, queue, notice
        self._waiting, self._is_busy = 0, False
        self._offer: Message | None = None
        self._timer = QTimer(self, interval=_REFRESH_MS)
        self._timer.timeout.connect(self._refresh_in_sight)
        panel.chosen.connect(self._do)
        panel.move_asked.connect(self._move)
        panel.rest_asked.connect(self._rest)
        panel.left_wanted.connect(self._go_on_with_left)
        queue.changed.connect(self.refresh)
        self._timer.start()

    def stop(self) -> None:
        """Shows no more of the time that passes: the window closes."""
        self._timer.stop()

    def refresh(self) -> None:
        """Shows the queue as it is now."""
        items = self._queue.items()
        rests = self._queue.stops_after_this
        has_engine = self._queue.has_engine
        # asked again each second: what the store refuses was told at the start
        left = () if items else self._queue.left(tells=False)
        current = schedule(items, datetime.now(), rests=rests, has_engine=has_engine)
        self._panel.show_schedule(current, left)
        waiting = sum(not item.is_running for item in items)
        if rests and waiting > self._waiting and len(items) == waiting:
            text = "The queue rests: what you add waits until it goes on."
            self._notice.tell(text, action="Go on", do=self._queue.go_on, asks=False)
        self._waiting = waiting
        self._is_busy = len(items) > waiting
        self.scheduled.emit(current)

    def offer_left(self) -> None:
        """Asks what becomes of what an earlier window left in the queue, if there is anything."""
        queue, left = self._queue, self._queue.left()
        if not left:
            return
        self._offer = self._notice.tell(
            left_words(left),
            action="Go on",
            do=self._go_on_with_left,
            others=(
                ("Keep for later", lambda: queue.take_up(left, is_held=True)),
                ("Remove", lambda: queue.discard(left)),
            ),
        )

    def _go_on_with_left(self) -> None:
        self._notice.take_back(self._offer)
        self._queue.take_up(self._queue.left())
        self._queue.go_on()

    def _refresh_in_sight(self) -> None:
        if self._is_busy or self._panel.isVisible():
            self.refresh()

    def _move(self, keys: Sequence[str], before: str | None) -> None:
        for key in keys:
            self._queue.move(key, before)

    def _rest(self, rests: bool) -> None:
        self._queue.stops_after_this = rests

    def _do(self, keys: Sequence[str], action: str) -> None:
        if action == REMOVE.name:
            self._remove(keys)
            return
        # the first of several is to run first
        for key in reversed(keys) if action == NEXT.name else keys:
            match action:
                case NEXT.name:
                    self._queue.run_next(key)
                case HOLD.name | RELEASE.name:
                    self._queue.hold(key, action == HOLD.name)
                case REPEAT.name:
                    self._queue.repeat(key)

    def _remove(self, keys: Sequence[str]) -> None:
        titles = {item.key: item.title for item in self._queue.items()}
        undone = {key: undo for key in keys if (undo := self._queue.remove(key)) is not None}
        if not undone:
            return
        what = f"“{titles[next(iter(undone))]}”" if len(undone) == 1 else f"{len(undone):,} items"

        def put_back() -> None:
            for undo in reversed(tuple(undone.values())):
                undo()

        self._notice.tell(f"Took {what} out of the queue.", action="Undo", do=put_back, asks=False)
