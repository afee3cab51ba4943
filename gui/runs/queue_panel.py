"""The queue: the running and the waiting jobs, their expected times, and the actions on them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtWidgets import QStackedWidget, QWidget

from engine.store.record import Work
from gui.runs.bar import FOOT_HEIGHT as HEIGHT
from gui.runs.queue_table import (
    NEXT,
    PAUSE,
    REMOVE,
    RESUME,
    SHOW,
    QueueAction,
    QueueSchedule,
    QueueTable,
    schedule,
    summary_text,
)
from gui.session.background import attempt
from gui.session.items import describe_work
from gui.session.works import Works
from gui.widgets import Button, ElidedLabel, EmptyState, label
from gui.widgets.boxes import in_column, in_row, wide
from gui.widgets.notice import Notice, NoticeMessage

_STOP_TIP = "Finish the current job, then pause the queue"
_EMPTY = (
    "The queue is empty.",
    "Jobs you start during a run are queued here and start automatically. The queue is kept when you close "
    "Ammeter.",
)
_REFRESH_MS = 1_000


class QueuePanel(QWidget):
    """The list of queued jobs with their expected times, below a header."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.table = QueueTable()
        self.summary = ElidedLabel("", "unit")
        self.pause = Button("Pause queue", "strip", _STOP_TIP, "pause")
        self.resume = Button("Resume", "strip", "Start the waiting jobs, one after another", "play")
        self.empty = EmptyState(*_EMPTY)
        self._pages = QStackedWidget()
        self._pages.addWidget(self.table)
        self._pages.addWidget(self.empty)
        header = QWidget()
        header.setFixedHeight(HEIGHT)
        parts = (label("Queue", "panelTitle"), wide(self.summary), self.pause, self.resume)
        self._header = in_row(*parts, parent=header, margins=(16, 0, 16, 0), spacing=8)
        in_column(header, wide(self._pages), parent=self, spacing=0)
        self.show_schedule(self.table.schedule)

    def add_header_widget(self, widget: QWidget) -> None:
        """Put a control of the window at the right of the header."""
        self._header.addWidget(widget)

    def show_schedule(self, schedule: QueueSchedule, left: Sequence[Work] = ()) -> None:
        """Show the queue, or, if it is empty, the jobs that an earlier window `left`."""
        self.table.show_schedule(schedule)
        self.summary.set_whole_text(summary_text(schedule))
        self.pause.setVisible(not schedule.is_paused and bool(schedule.slots))
        self.resume.setVisible(schedule.is_paused)
        self._pages.setCurrentWidget(self.table if schedule.slots else self.empty)
        resting = "Press Resume to start."
        self.empty.show_text(*((_left_words(left), resting, "Resume") if left else _EMPTY))


class QueueController(QObject):
    """Shows the queue in its panel, updated every second during a run. `scheduled` carries the QueueSchedule.

    `show_wanted` carries the running QueueItem when the user wants to see its page.
    """

    scheduled = Signal(object)
    show_wanted = Signal(object)

    def __init__(self, panel: QueuePanel, works: Works, notice: Notice, parent: QObject) -> None:
        super().__init__(parent)
        self._panel, self._works, self._queue, self._notice = panel, works, works.queue, notice
        self._waiting, self._is_busy = 0, False
        self._offer: NoticeMessage | None = None
        self._timer = QTimer(self, interval=_REFRESH_MS)
        self._timer.timeout.connect(self._refresh_in_sight)
        self.stop = self._timer.stop
        panel.table.acted.connect(self.act)
        panel.table.moved.connect(self.move)
        panel.pause.clicked.connect(self.pause)
        panel.resume.clicked.connect(self.resume)
        panel.empty.pressed.connect(self.enqueue_left)
        self._queue.changed.connect(self.refresh)
        self._timer.start()

    def refresh(self) -> None:
        items, is_paused = self._works.items(), self._queue.is_paused
        # asked again each second: what the store refuses was told at the start
        left = () if items else self._works.left(tells=False)
        current = schedule(items, datetime.now(), is_paused=is_paused, has_engine=self._queue.has_engine)
        self._panel.show_schedule(current, left)
        waiting = current.waiting
        if is_paused and waiting > self._waiting and len(items) == waiting:
            text = "The queue is paused. Press Resume to continue."
            self._notice.notify(text, action="Resume", do=self.resume, asks=False)
        self._waiting, self._is_busy = waiting, len(items) > waiting
        self.scheduled.emit(current)

    def _refresh_in_sight(self) -> None:
        if self._is_busy or self._panel.isVisible():
            self.refresh()

    def offer_left(self) -> None:
        """Ask whether to continue the jobs that an earlier window left in the queue, if there are any."""
        works = self._works
        if left := works.left():
            others = (
                ("Keep for later", lambda: works.claim(left, is_paused=True)),
                ("Remove", lambda: works.discard(left)),
            )
            words = _left_words(left)
            self._offer = self._notice.notify(words, action="Resume", do=self.enqueue_left, others=others)

    def enqueue_left(self) -> None:
        """Queue and start the jobs that an earlier window left."""
        self._notice.withdraw(self._offer)
        self._works.claim(self._works.left())
        self.resume()

    def resume(self) -> None:
        """Start the waiting jobs, one after another."""
        self._queue.is_paused = False

    def pause(self) -> None:
        """Pause the queue after the current job."""
        self._queue.is_paused = True

    def move(self, keys: Sequence[str], before: str | None) -> None:
        """Move items before another one, or to the end for None."""
        for key in keys:
            self._queue.move(key, before)

    def act(self, keys: Sequence[str], action: QueueAction) -> None:
        """Apply an action to the queued jobs with these keys."""
        if action is REMOVE:
            self._remove(keys)
            return
        if action is SHOW:
            running = next((item for item in self._works.items() if item.is_running), None)
            if running is not None:
                self.show_wanted.emit(running)
            return
        # the first of several is to run first
        for key in reversed(keys) if action is NEXT else keys:
            if action is NEXT:
                self._queue.run_next(key)
            elif action in (PAUSE, RESUME):
                self._queue.pause(key, action is PAUSE)
            else:
                attempt(partial(self._works.repeat, key), self._works.problem)

    def _remove(self, keys: Sequence[str]) -> None:
        titles = {item.key: item.title for item in self._works.items()}
        undone = {key: undo for key in keys if (undo := self._works.remove(key)) is not None}
        if not undone:
            return
        what = f"“{titles[next(iter(undone))]}”" if len(undone) == 1 else f"{len(undone):,} items"

        def put_back() -> None:
            for undo in reversed(tuple(undone.values())):
                undo()

        self._notice.notify(f"Removed {what} from the queue.", action="Undo", do=put_back, asks=False)


def _left_words(left: Sequence[Work]) -> str:
    what = describe_work(item.kind for item in left)
    verb = "is" if len(left) == 1 else "are"
    return f"{what[:1].upper()}{what[1:]} {verb} still in the queue from last time."
