"""The memory of each device of a multi-device run, as a line of small bars."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from engine.words.numbers import memory_text
from gui.session.live_run import LiveRun
from gui.theme.fonts import font
from gui.theme.theme import theme
from gui.train import figures
from gui.train.strip import current_run
from gui.widgets import Marker, draw_bar, label, set_text
from gui.widgets.boxes import in_row, wide
from gui.widgets.labels import describe, plain_tip

_HEIGHT, _BAR, _GAP, _WORDS = 28, 4, 10, 68
"""In pixels: the line, a bar, the gap between two, and the room that a bar's words need."""


class _Bars(QWidget):
    def __init__(self) -> None:
        super().__init__()
        self.run: LiveRun | None = None
        self.mib: tuple[float, ...] = ()
        self.capacity_mib = 0.0
        theme().changed.connect(self.update)

    def paintEvent(self, event: QPaintEvent) -> None:
        if self.run is None or not self.mib:
            return
        palette, painter = theme().palette, QPainter(self)
        ink = palette.look(self.run.precision).color
        pitch = (self.width() + _GAP) / len(self.mib)
        are_alike = len({memory_text(mib) for mib in self.mib}) == 1
        for rank, mib in enumerate(self.mib):
            room = QRectF(rank * pitch, 0, pitch - _GAP, _HEIGHT)
            if room.width() >= _WORDS:
                is_largest = not are_alike and mib == max(self.mib)
                painter.setFont(font(12, 600 if is_largest else 400))
                painter.setPen(QColor(palette.text if is_largest else palette.text2))
                words = room.adjusted(0, 2, 0, -_BAR - 6)
                painter.drawText(words, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, f"{rank}")
                painter.drawText(
                    words, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, memory_text(mib)
                )
            bar = QRectF(room.left(), _HEIGHT - _BAR - 3, room.width(), _BAR)
            draw_bar(painter, bar, mib / self.capacity_mib, ink, palette.bg3)
        painter.end()


class RankMemoryStrip(QWidget):
    """The memory in use on each device of a multi-device run, as bars. Hidden for single-device runs."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFixedHeight(_HEIGHT)
        self._has_room = True
        self._marker: Marker | None = None
        self._words, self._bars = label("", "legend"), _Bars()
        self._row = in_row(self._words, wide(self._bars), parent=self, margins=(4, 0, 4, 0), spacing=10)
        self.hide()

    def set_room(self, has_room: bool) -> None:
        """Hide the bars in a low window, where the plots need the height."""
        self._has_room = has_room
        self.setVisible(has_room and bool(self._bars.mib))

    def show_runs(self, runs: Sequence[LiveRun]) -> None:
        """Show the memory of the run in progress, or the peaks of the last one."""
        run = current_run([run for run in runs if run.status != "queued"])
        mib = figures.memory_by_rank(run) if run is not None else ()
        self._bars.run, self._bars.mib = run, mib
        self.setVisible(self._has_room and bool(mib))
        if run is None or not mib:
            return
        if self._marker is None:
            self._marker = Marker(run.precision)
            self._row.insertWidget(0, self._marker)
        self._marker.set_precision(run.precision)
        known = 0.0 if run.environment is None else run.environment.device_memory_mib
        self._bars.capacity_mib = max(known, *mib, 1.0)
        what = "Memory" if run.summary is None else "Peak memory"
        set_text(self._words, f"{what} by rank")
        whose = "the machine's" if figures.is_on_cpu(run) else "a device's"
        told = "\n".join(f"Rank {rank}: {memory_text(each)}" for rank, each in enumerate(mib))
        tip = f"{told}\nA full bar is {whose} total memory, {memory_text(self._bars.capacity_mib)}"
        describe(self, f"{self._words.text()}. {tip}".replace("\n", ", "), plain_tip(tip))
        self._bars.update()
