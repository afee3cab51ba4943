"""The legend row of a plot, which is also its readout: line sample, name and value at the crosshair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPointF
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.experiment import Precision
from gui.fonts import font
from gui.theme import theme
from gui.widgets.markers import draw_marker, precision_pen

_BASELINE, _MIDDLE = 14, 10
_SKIPPED = "skipped step"


@dataclass(frozen=True)
class Entry:
    """One curve in the legend: `value` at the crosshair, `extra` in small grey behind it."""

    precision: Precision
    name: str
    value: str
    extra: str = ""


@dataclass(frozen=True)
class _Fit:
    """How much of the entries there is room for; the values are kept the longest."""

    sample: int
    gap: int
    extras: bool
    names: bool


_FITS = (
    _Fit(28, 24, extras=True, names=True),
    _Fit(12, 14, extras=True, names=True),
    _Fit(28, 24, extras=False, names=True),
    _Fit(12, 14, extras=False, names=True),
    _Fit(12, 10, extras=False, names=False),
)


class LegendRow(QWidget):
    """One row, 20 px high, painted: twenty times a second is too often for labels and layouts."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._entries: tuple[Entry, ...] = ()
        self._place = ""
        self._skip_color: str | None = None
        self.setFixedHeight(20)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        theme().changed.connect(self.update)

    def show_values(self, entries: Sequence[Entry], place: str, skip_color: str | None = None) -> None:
        """Shows the entries, and at the right where they were read off ("step 96").

        `skip_color` adds the sample of a skipped step in that colour.
        """
        shown = (tuple(entries), place, skip_color)
        if shown != (self._entries, self._place, self._skip_color):
            self._entries, self._place, self._skip_color = shown
            spoken = ", ".join(f"{entry.name} {entry.value} {entry.extra}".strip() for entry in entries)
            self.setAccessibleName(f"Values, {place}: {spoken}")
            self.update()

    def entries(self) -> tuple[Entry, ...]:
        return self._entries

    def place(self) -> str:
        return self._place

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        palette = theme().palette
        plain = font(12)
        room = self.width() - _width(plain, self._place) - 8
        self._write(painter, room + 8, self._place, plain, palette.text3)
        fit = self._fit(room)
        left = 0.0
        for entry in self._entries:
            left = self._paint_entry(painter, entry, left, fit)
        if self._skip_color is not None and left + 10 + _width(plain, _SKIPPED) <= room:
            painter.fillRect(int(left), 5, 2, 10, QColor(self._skip_color))
            self._write(painter, left + 10, _SKIPPED, plain, palette.text2)
        painter.end()

    def _fit(self, room: float) -> _Fit:
        for fit in _FITS:
            needed = sum(_entry_width(entry, fit) for entry in self._entries) - fit.gap
            if needed <= room:
                return fit
        return _FITS[-1]

    def _paint_entry(self, painter: QPainter, entry: Entry, left: float, fit: _Fit) -> float:
        palette = theme().palette
        if fit.sample > 12:
            painter.setPen(precision_pen(entry.precision))
            painter.drawLine(QPointF(left, _MIDDLE), QPointF(left + fit.sample, _MIDDLE))
        draw_marker(painter, QPointF(left + fit.sample / 2, _MIDDLE), entry.precision, 8)
        left += fit.sample + 8
        if fit.names:
            left = self._write(painter, left, entry.name, font(12), palette.text2) + 8
        left = self._write(painter, left, entry.value, font(12, 600), palette.look(entry.precision).color)
        if fit.extras and entry.extra:
            left = self._write(painter, left + 8, entry.extra, font(12), palette.text3)
        return left + fit.gap

    @staticmethod
    def _write(painter: QPainter, left: float, text: str, face: QFont, color: str) -> float:
        painter.setFont(face)
        painter.setPen(QColor(color))
        painter.drawText(QPointF(left, _BASELINE), text)
        return left + _width(face, text)


def _entry_width(entry: Entry, fit: _Fit) -> float:
    width = fit.sample + 8 + _width(font(12, 600), entry.value) + fit.gap
    if fit.names:
        width += _width(font(12), entry.name) + 8
    if fit.extras and entry.extra:
        width += _width(font(12), entry.extra) + 8
    return width


def _width(face: QFont, text: str) -> float:
    return QFontMetricsF(face).horizontalAdvance(text)
