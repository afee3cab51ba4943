"""The legend of a plot, which is also its readout: line sample, name and value at the crosshair.

It takes as many rows as its entries need.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QVBoxLayout, QWidget

from engine.experiment.experiment import Precision
from gui.theme.fonts import font
from gui.theme.theme import theme
from gui.widgets.markers import draw_marker, precision_pen
from resources.looks import MarkFill

_BASELINE, _MIDDLE = 14, 10
_SKIPPED = "skipped step"
_SKIPPED_TIP = "A tick at the bottom marks a step that was skipped because a gradient overflowed"
_FAINT_TIP = "Finished runs lie faintly under what trains; tick others in the table to see those instead"
_WHOLE = 10_000.0


@dataclass(frozen=True)
class Entry:
    """One curve in the legend: `value` at the crosshair, `extra` in small grey behind it.

    One that `is_faint` is of a finished run beneath the others. `colour` is the run's own, None for the
    precision's.
    """

    precision: Precision
    name: str
    value: str
    extra: str = ""
    fill: MarkFill = "full"
    is_faint: bool = False
    colour: str | None = None


@dataclass(frozen=True)
class _Fit:
    """The detail at which entries are shown, with `name` pixels for a name; values are the last to go."""

    sample: int
    gap: int
    extras: bool
    name: float


_FITS = (
    _Fit(28, 24, extras=True, name=_WHOLE),
    _Fit(12, 14, extras=True, name=_WHOLE),
    _Fit(28, 24, extras=False, name=_WHOLE),
    _Fit(12, 14, extras=False, name=_WHOLE),
    _Fit(12, 14, extras=False, name=160.0),
    _Fit(12, 14, extras=False, name=110.0),
    _Fit(12, 14, extras=False, name=72.0),
    _Fit(12, 10, extras=False, name=44.0),
    _Fit(12, 10, extras=False, name=0.0),
)

_READABLE = _FITS[5]


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
            tips = (
                (_SKIPPED_TIP, skip_color is not None),
                (_FAINT_TIP, any(entry.is_faint for entry in entries)),
            )
            self.setToolTip("\n".join(tip for tip, is_due in tips if is_due))
            self.update()

    def entries(self) -> tuple[Entry, ...]:
        return self._entries

    @staticmethod
    def room_for(entries: Sequence[Entry], place: str) -> float:
        """The pixels that these need with legible names."""
        fit = _READABLE
        widths = sum(_entry_width(entry, fit) for entry in entries) - fit.gap
        return widths + 16 + _width(font(12), place)

    def place(self) -> str:
        return self._place

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        palette = theme().palette
        plain = font(12)
        room = self.width() - _width(plain, self._place) - 8
        fit = self._fit(room)
        if self._needed(fit) <= room:
            self._write(painter, room + 8, self._place, plain, palette.text3)
        left = 0.0
        for entry in self._entries:
            left = self._paint_entry(painter, entry, left, fit)
        if self._skip_color is not None and left + 10 + _width(plain, _SKIPPED) <= room:
            painter.fillRect(int(left), 5, 2, 10, QColor(self._skip_color))
            self._write(painter, left + 10, _SKIPPED, plain, palette.text2)
        painter.end()

    def _fit(self, room: float) -> _Fit:
        return next((fit for fit in _FITS if self._needed(fit) <= room), _FITS[-1])

    def _needed(self, fit: _Fit) -> float:
        return sum(_entry_width(entry, fit) for entry in self._entries) - fit.gap

    def _paint_entry(self, painter: QPainter, entry: Entry, left: float, fit: _Fit) -> float:
        palette = theme().palette
        look = palette.look(entry.precision, entry.colour)
        if fit.sample > 12:
            pen = precision_pen(entry.precision, color=look.color)
            if entry.is_faint:
                pen.setColor(QColor(look.dim))
            painter.setPen(pen)
            painter.drawLine(QPointF(left, _MIDDLE), QPointF(left + fit.sample, _MIDDLE))
        middle = QPointF(left + fit.sample / 2, _MIDDLE)
        fill: MarkFill = "hollow" if entry.is_faint else entry.fill
        draw_marker(painter, middle, entry.precision, 8, fill=fill, color=look.color)
        left += fit.sample + 8
        name, value = (palette.text3,) * 2 if entry.is_faint else (palette.text2, look.color)
        if fit.name:
            left = self._write(painter, left, _name(entry, fit), font(12), name) + 8
        left = self._write(painter, left, entry.value, font(12, 400 if entry.is_faint else 600), value)
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
    if fit.name:
        width += _width(font(12), _name(entry, fit)) + 8
    if fit.extras and entry.extra:
        width += _width(font(12), entry.extra) + 8
    return width


def _name(entry: Entry, fit: _Fit) -> str:
    return QFontMetricsF(font(12)).elidedText(entry.name, Qt.TextElideMode.ElideRight, fit.name)


def _width(face: QFont, text: str) -> float:
    return QFontMetricsF(face).horizontalAdvance(text)


_MOST_ROWS = 5


class LegendRows(QWidget):
    """Rows of `LegendRow`; the first also says where the values were read off."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._entries: tuple[Entry, ...] = ()
        self._place = ""
        self._rows: list[LegendRow] = []
        self._need: tuple[tuple[str, ...], int] = ((), 0)
        self._count = 1
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(12, 0, 12, 4)
        self._column.setSpacing(0)
        self._add_row()

    def show_values(self, entries: Sequence[Entry], place: str) -> None:
        """Shows the entries, and at the right of the first row where they were read off ("step 96")."""
        self._entries, self._place = tuple(entries), place
        self._share_out()

    def entries(self) -> tuple[Entry, ...]:
        return self._entries

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._share_out()

    def _share_out(self) -> None:
        need = (tuple(entry.name for entry in self._entries), self.width())
        if need != self._need:
            # not at every move of the pointer: rows that come and go would make the plot jump
            self._need = need
            self._count = next((rows for rows in range(1, _MOST_ROWS) if self._fits(rows)), _MOST_ROWS)
        count = self._count
        in_a_row = -(-len(self._entries) // count)
        while len(self._rows) < count:
            self._add_row()
        for number, row in enumerate(self._rows):
            row.setVisible(number < count)
            part = self._entries[number * in_a_row : (number + 1) * in_a_row]
            row.show_values(part, self._place if number == 0 else "")

    def _fits(self, rows: int) -> bool:
        in_a_row = -(-len(self._entries) // rows)
        parts = (
            self._entries[first : first + in_a_row] for first in range(0, len(self._entries), in_a_row or 1)
        )
        room = self.width() - 24
        return all(LegendRow.room_for(part, self._place) <= room for part in parts)

    def _add_row(self) -> None:
        row = LegendRow()
        self._rows.append(row)
        self._column.addWidget(row)
