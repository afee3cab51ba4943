"""The legend of a plot, which is also its readout: line sample, name and value at the crosshair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.experiment.experiment import Precision
from gui.theme.fonts import font
from gui.theme.theme import theme
from gui.widgets.boxes import in_column
from gui.widgets.markers import draw_marker, precision_pen
from resources.looks import MarkFill

_BASELINE, _MIDDLE = 14, 10
_SKIPPED = "skipped step"
_SKIPPED_TIP = "A mark at the bottom shows a step skipped because a gradient overflowed"
_FAINT_TIP = "Finished runs are drawn faintly. Select others in the table to show those instead."
_WHOLE = 10_000.0


@dataclass(frozen=True)
class LegendCurve:
    """One curve in the legend: its `value` at the crosshair, then `extra` in small gray text.

    `is_background` marks the curve of a finished run that is drawn below the others.
    """

    precision: Precision
    name: str
    value: str
    extra: str = ""
    fill: MarkFill = "full"
    is_background: bool = False


class _Fit(NamedTuple):
    """The detail of the entries, with `name` pixels for a name. Values are omitted last."""

    sample: int
    gap: int
    extras: bool
    name: float


_FITS = (
    *(_Fit(*sizes, extras, _WHOLE) for extras in (True, False) for sizes in ((28, 24), (12, 14))),
    *(_Fit(12, 14, False, name) for name in (160.0, 110.0, 72.0)),
    *(_Fit(12, 10, False, name) for name in (44.0, 0.0)),
)
_READABLE = _FITS[5]
_SHORT_FITS = tuple(fit for fit in _FITS if fit.sample == _READABLE.sample)


class LegendRow(QWidget):
    """One row of a legend, 20 px high.

    It paints its text itself, because labels in layouts would be too slow for 20 updates a second.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.entries: tuple[LegendCurve, ...] = ()
        self.place = ""
        self.is_brief = False
        self._skip_color: str | None = None
        self.setFixedHeight(20)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        theme().changed.connect(self.update)

    def show_values(self, entries: Sequence[LegendCurve], place: str, skip_color: str | None = None) -> None:
        """Show the entries, and at the right the place of their values ("step 96").

        `skip_color` adds the sample of a skipped step in that color.
        """
        shown = (tuple(entries), place, skip_color)
        if shown != (self.entries, self.place, self._skip_color):
            self.entries, self.place, self._skip_color = shown
            spoken = ", ".join(f"{entry.name} {entry.value} {entry.extra}".strip() for entry in entries)
            self.setAccessibleName(f"Values, {place}: {spoken}")
            has_faint = any(entry.is_background for entry in entries)
            tips = (_SKIPPED_TIP if skip_color is not None else "", _FAINT_TIP if has_faint else "")
            self.setToolTip("\n".join(filter(None, tips)))
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        palette = theme().palette
        plain = font(12)
        room = self.width() - _width(plain, self.place) - 8
        fits = _SHORT_FITS if self.is_brief else _FITS
        fit = next((fit for fit in fits if _needed_width(self.entries, fit) <= room), fits[-1])
        if fit.name < _WHOLE:
            # names tell more than the place of the values
            fit = next((fit for fit in fits if _needed_width(self.entries, fit) <= self.width()), fit)
        if _needed_width(self.entries, fit) <= room:
            _write(painter, room + 8, self.place, plain, palette.text3)
        left = 0.0
        for entry in self.entries:
            left = self._paint_entry(painter, entry, left, fit)
        if self._skip_color is not None and left + 10 + _width(plain, _SKIPPED) <= room:
            painter.fillRect(int(left), 5, 2, 10, QColor(self._skip_color))
            _write(painter, left + 10, _SKIPPED, plain, palette.text2)
        painter.end()

    def _paint_entry(self, painter: QPainter, entry: LegendCurve, left: float, fit: _Fit) -> float:
        palette = theme().palette
        look = palette.look(entry.precision)
        if fit.sample > 12:
            pen = precision_pen(entry.precision)
            if entry.is_background:
                pen.setColor(QColor(look.dim))
            painter.setPen(pen)
            painter.drawLine(QPointF(left, _MIDDLE), QPointF(left + fit.sample, _MIDDLE))
        middle = QPointF(left + fit.sample / 2, _MIDDLE)
        fill: MarkFill = "hollow" if entry.is_background else entry.fill
        draw_marker(painter, middle, entry.precision, 8, fill=fill)
        left += fit.sample + 8
        name, value = (palette.text3,) * 2 if entry.is_background else (palette.text2, look.color)
        if fit.name:
            left = _write(painter, left, _name(entry, fit), font(12), name) + 8
        left = _write(painter, left, entry.value, font(12, 400 if entry.is_background else 600), value)
        if fit.extras and entry.extra:
            left = _write(painter, left + 8, entry.extra, font(12), palette.text3)
        return left + fit.gap


def _write(painter: QPainter, left: float, text: str, face: QFont, color: str) -> float:
    painter.setFont(face)
    painter.setPen(QColor(color))
    painter.drawText(QPointF(left, _BASELINE), text)
    return left + _width(face, text)


def _needed_width(entries: Sequence[LegendCurve], fit: _Fit) -> float:
    width = -float(fit.gap)
    for entry in entries:
        width += fit.sample + 8 + _width(font(12, 600), entry.value) + fit.gap
        width += _width(font(12), _name(entry, fit)) + 8 if fit.name else 0.0
        width += _width(font(12), entry.extra) + 8 if fit.extras and entry.extra else 0.0
    return width


def _name(entry: LegendCurve, fit: _Fit) -> str:
    return QFontMetricsF(font(12)).elidedText(entry.name, Qt.TextElideMode.ElideRight, fit.name)


def _width(face: QFont, text: str) -> float:
    return QFontMetricsF(face).horizontalAdvance(text)


_MOST_ROWS = 5


class LegendRows(QWidget):
    """A legend of several rows. The first row also shows the x of the values, such as "step 96"."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.entries: tuple[LegendCurve, ...] = ()
        self.place = ""
        self._skip_color: str | None = None
        self._rows: list[LegendRow] = []
        self._need: tuple[tuple[str, ...], int] = ((), 0)
        self._count = 1
        self._column = in_column(parent=self, margins=(0, 0, 0, 4), spacing=0)
        self._share_out()

    def show_values(self, entries: Sequence[LegendCurve], place: str, skip_color: str | None = None) -> None:
        """Show the entries in as many rows as they need."""
        self.entries, self.place, self._skip_color = tuple(entries), place, skip_color
        self._share_out()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._share_out()

    def _share_out(self) -> None:
        need = (tuple(entry.name for entry in self.entries), self.width())
        if need != self._need:
            # not at every move of the pointer: rows that come and go would make the plot jump
            self._need = need
            self._count = next((rows for rows in range(1, _MOST_ROWS) if self._fits(rows)), _MOST_ROWS)
        while len(self._rows) < self._count:
            self._rows.append(LegendRow())
            self._column.addWidget(self._rows[-1])
        parts = self._parts(self._count) or [()]
        is_brief = len(parts) > 1 and any(_needed_width(part, _FITS[2]) > self.width() for part in parts)
        for number, row in enumerate(self._rows):
            row.is_brief = is_brief
            row.setVisible(number < len(parts))
            part = parts[number] if number < len(parts) else ()
            row.show_values(part, *((self.place, self._skip_color) if number == 0 else ("", None)))

    def _parts(self, rows: int) -> list[tuple[LegendCurve, ...]]:
        in_a_row = -(-len(self.entries) // rows) or 1
        return [self.entries[first : first + in_a_row] for first in range(0, len(self.entries), in_a_row)]

    def _fits(self, rows: int) -> bool:
        return all(_needed_width(part, _READABLE) <= self.width() for part in self._parts(rows))
