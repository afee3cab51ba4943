"""The chips of the top bar: the current job with its progress and the queue, and the device."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QObject, QPointF, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QFont, QFontMetrics, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPixmap
from PySide6.QtWidgets import QAbstractButton, QLabel, QSizePolicy, QWidget

from engine.experiment.checks import DeviceEntry
from engine.experiment.experiment import Precision
from engine.experiment.value import BYTES_PER_MIB
from engine.lazy_imports import psutil
from engine.words.numbers import duration, share_text, size_text
from gui.runs.queue_table import KIND_ICONS, QueueSchedule
from gui.theme.fonts import font
from gui.theme.icons import draw_icon, pixmap
from gui.theme.theme import theme
from gui.widgets import draw_bar, draw_marker
from gui.widgets.actions import keys_of
from gui.widgets.bars import ThinProgressBar
from gui.widgets.boxes import Surface, in_row
from gui.widgets.labels import ElidedLabel, describe, label, plain_tip

_HEIGHT, _PAD, _ICON, _GAP, _BAR, _CHEVRON = 32, 11, 14, 8, 48, 14
_LONGEST_NAME = 240


@dataclass(frozen=True)
class Activity:
    """The content of the box in the top bar that shows the current job. `precision` is that of the run.

    `brief` is a shorter name, for little room.
    """

    name: str = "Nothing running"
    brief: str = ""
    icon: str = "ring"
    fraction: float | None = None
    time: str = ""
    waits: str = ""
    precision: Precision | None = None
    is_busy: bool = False

    @property
    def words(self) -> str:
        """Return all parts, for screen readers and the tooltip."""
        percent = "" if self.fraction is None else share_text(self.fraction)
        return ", ".join(part for part in (self.name, percent, self.time, self.waits) if part)


def describe_activity(schedule: QueueSchedule) -> Activity:
    """Return the activity that a schedule of the queue describes."""
    waits = f"{schedule.waiting:,} waiting" if schedule.waiting else ""
    running = next((item for item in schedule.items if item.is_running), None)
    if running is None:
        return Activity(
            "The queue is paused" if waits and schedule.is_paused else "Nothing running", waits=waits
        )
    time = "" if running.seconds_left is None else f"{duration(running.seconds_left)} left"
    return Activity(
        running.title if running.brief else f"{running.detail}, {running.title}",
        running.brief or running.detail,
        KIND_ICONS[running.kind],
        running.progress,
        time,
        waits,
        running.precision,
        is_busy=True,
    )


def start_text(schedule: QueueSchedule) -> str:
    """Return when a job added to the queue now would start. Empty if no job is running."""
    if schedule.is_paused:
        return "starts when you resume the queue"
    if not any(item.is_running for item in schedule.items) or not schedule.has_engine:
        return ""
    if schedule.at_least:
        return "starts after the jobs in the queue"
    # by the minute: a time that changes each second would be read over and over
    minutes = round(schedule.seconds / 60)
    return f"starts in about {duration(60 * minutes)}" if minutes else "starts within a minute"


class ActivityChip(QAbstractButton):
    """The box in the top bar that shows the current job. A click opens the queue."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._activity = Activity()
        self._is_brief = False
        self.setFixedHeight(_HEIGHT)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        theme().changed.connect(self.update)
        self.show_activity(Activity())

    def show_activity(self, activity: Activity) -> None:
        self.setAccessibleName(f"Activity: {activity.words}")
        self.setToolTip(plain_tip(f"{activity.words}. Show the queue ({keys_of('waiting')})"))
        if activity != self._activity:
            self._activity = activity
            self.set_brief(self._is_brief)

    def activity(self) -> Activity:
        return self._activity

    def set_brief(self, is_brief: bool) -> None:
        """Shorten the name, and leave out the bar and the waiting jobs, where there is little room."""
        self._is_brief = is_brief
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(self._width(self._parts()), _HEIGHT)

    def minimumSizeHint(self) -> QSize:
        parts = self._parts()
        return QSize(self._width(parts if self._is_brief else parts[:2]), _HEIGHT)

    def paintEvent(self, event: QPaintEvent) -> None:
        palette, painter, activity = theme().palette, QPainter(self), self._activity
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QColor(palette.text3 if self.underMouse() else palette.line))
        painter.setBrush(QColor(palette.bg2))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 6, 6)
        middle, left, own = self.height() / 2, float(_PAD), palette.text
        if activity.precision is None:
            draw_icon(painter, QRectF(left, middle - 7, _ICON, _ICON), activity.icon, palette.text2)
        else:
            own = palette.look(activity.precision).color
            draw_marker(painter, QPointF(left + _ICON / 2, middle), activity.precision)
        left += _ICON + _GAP
        room = self.width() - _PAD - _CHEVRON - _GAP
        for kind, words in self._parts():
            width = self._part_width(kind, words)
            if left + width > room:
                break
            if kind == "bar":
                bar = QRectF(left, middle - 2, _BAR, 4)
                draw_bar(painter, bar, activity.fraction or 0.0, own, palette.bg3)
            else:
                painter.setFont(_face(kind))
                painter.setPen(QColor(palette.text if kind in ("name", "percent") else palette.text2))
                line = QRectF(left, 0, width, self.height())
                painter.drawText(line, Qt.AlignmentFlag.AlignVCenter, words)
            left += width + _GAP
        chevron = QRectF(self.width() - _PAD - _CHEVRON, middle - 7, _CHEVRON, _CHEVRON)
        draw_icon(painter, chevron, "chevron-down", palette.text2)
        painter.end()

    def _parts(self) -> list[tuple[str, str]]:
        """Return the parts from left to right, as (kind, words)."""
        activity = self._activity
        if not activity.is_busy:
            waits = [("idle", f"· {activity.waits}")] if activity.waits else []
            return [("idle", activity.name), *waits]
        metrics = QFontMetrics(_face("name"))
        whole = activity.brief if self._is_brief else activity.name
        parts = [("name", metrics.elidedText(whole, Qt.TextElideMode.ElideMiddle, _LONGEST_NAME))]
        if activity.fraction is not None:
            # where there is little room, the time left counts more than a bar beside its percentage
            bar = [] if self._is_brief else [("bar", "")]
            parts += [*bar, ("percent", share_text(activity.fraction))]
        more = [activity.time] if self._is_brief else [activity.time, activity.waits]
        return [*parts, *filter(lambda part: part[1], [("more", " · ".join(filter(None, more)))])]

    def _width(self, parts: list[tuple[str, str]]) -> int:
        inner = sum(self._part_width(kind, words) + _GAP for kind, words in parts)
        return 2 * _PAD + _ICON + _GAP + inner + _CHEVRON

    def _part_width(self, kind: str, words: str) -> int:
        return _BAR if kind == "bar" else QFontMetrics(_face(kind)).horizontalAdvance(words) + 1


def _face(kind: str) -> QFont:
    return font(12, {"name": 600, "percent": 600}.get(kind, 400))


_log = logging.getLogger(__name__)
_EVERY_MS = 2_000


class DeviceMemory(QObject):
    """Reads every two seconds how much of the device's memory all programs use.

    `read` carries the fraction (0 to 1, None if unknown) and a text.
    """

    read = Signal(object, str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._device: DeviceEntry | None = None
        self._timer = QTimer(self, interval=_EVERY_MS)
        self._timer.timeout.connect(self._read)
        self.stop = self._timer.stop

    def start(self, device: DeviceEntry) -> None:
        self._device = device
        self._read()
        self._timer.start()

    def _read(self) -> None:
        assert self._device is not None
        if self._device.is_gpu:
            used = _gpu_used_bytes(self._device.name)
        else:
            memory = psutil.virtual_memory()
            used = int(memory.total - memory.available)
        if used is None:
            self._timer.stop()
            self.read.emit(None, "")
            return
        fraction = used / (self._device.memory_mib * BYTES_PER_MIB)
        self.read.emit(min(fraction, 1.0), f"{size_text(used)} in use")


def _gpu_used_bytes(name: str) -> int | None:
    kind, _, number = name.partition(":")
    if kind != "cuda":
        return None
    # imported only with a card: it would be a twentieth of the window's start
    import pynvml

    try:
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(int(number or 0))
        return int(pynvml.nvmlDeviceGetMemoryInfo(handle).used)
    except pynvml.NVMLError as error:
        _log.info("The driver does not report the memory in use: %s", error)
        return None


_NAME = 72
"""Pixels that the device's name keeps at least."""
_MAKERS = ("NVIDIA ", "GeForce ", "AMD ", "Radeon ", "Intel(R) ", "Intel ")


class DeviceChip(Surface):
    """The box in the top bar with the device's name, facts about it, and a bar of its memory in use.

    `clicked` is emitted on a click, Space or Enter, to choose another machine.
    """

    clicked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("chip", parent=parent)
        self.setFixedHeight(32)
        self._icon = QLabel()
        self._title = ElidedLabel("", "strong")
        self._facts = label("", "legend")
        self._bar = ThinProgressBar("Memory in use")
        self._bar.setFixedWidth(48)
        self._about, self._device, self._machine, self._is_brief = "", "", "", False
        self._chevron = QLabel()
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        parts = (self._icon, self._title, self._facts, self._bar, self._chevron)
        in_row(*parts, parent=self, margins=(11, 0, 11, 0), spacing=8)
        self.show_unknown()
        self.set_usage(None, "")
        theme().changed.connect(self._recolor)
        self._recolor()

    def show_unknown(self) -> None:
        """Show that the device is not known yet."""
        self.set_device("connecting" if self._machine else "Detecting devices", ())

    def set_machine(self, machine: str) -> None:
        """Set the remote machine of the device, "" for this one."""
        self._machine = machine

    def set_device(self, title: str, facts: Sequence[str], tooltip: str = "") -> None:
        """Show a device, such as "NVIDIA H200" with ("139.8 GiB",)."""
        self._device = title
        self._show_title()
        self._facts.setText("  ".join(f"· {fact}" for fact in facts))
        self._facts.setVisible(bool(facts))
        device = ", ".join((title, *facts))
        where = f" on {self._machine}" if self._machine else ""
        self._about = f"{tooltip or f'{device}.'} Click to choose the machine."
        describe(self, f"Device{where}: {device}", plain_tip(self._about))

    def set_brief(self, is_brief: bool) -> None:
        """Leave out the maker, where there is little room."""
        self._is_brief = is_brief
        self._show_title()
        self.updateGeometry()

    def _show_title(self) -> None:
        shown = self._device
        for maker in _MAKERS if self._is_brief else ():
            shown = shown.removeprefix(maker)
        if self._machine:
            shown = f"{self._machine} · {shown}"
        self._title.set_whole_text(shown)
        self._title.setMinimumWidth(min(_NAME, self._title.sizeHint().width()))

    def set_usage(self, fraction: float | None, text: str) -> None:
        """Show the memory in use as a fraction and as text ("4.1 GiB in use"). None hides it."""
        self._bar.setVisible(fraction is not None)
        self._bar.set_progress(fraction or 0.0)
        self.setAccessibleDescription(text)
        self.setToolTip(plain_tip(f"{self._about} {text}".strip()))

    def _recolor(self) -> None:
        picture: QPixmap = pixmap("chip", theme().palette.text2, 16, self.devicePixelRatioF())
        self._icon.setPixmap(picture)
        self._chevron.setPixmap(
            pixmap("chevron-down", theme().palette.text2, _CHEVRON, self.devicePixelRatioF())
        )

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        if event.button() is Qt.MouseButton.LeftButton and self.rect().contains(event.position().toPoint()):
            self.clicked.emit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Space, Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.clicked.emit()
        else:
            super().keyPressEvent(event)
