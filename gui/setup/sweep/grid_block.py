"""The grid of a sweep in the form: a square for each cell, skipped cells, and the time."""

from __future__ import annotations

import math
from datetime import datetime

from PySide6.QtCore import QEvent, QPoint, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QHelpEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QAbstractButton, QDialog, QSizePolicy, QToolTip, QWidget

from engine.experiment.sweep import Axis
from engine.words.numbers import NONE, memory_text
from gui.setup.sweep.survey import Survey, plan_words, skipped_words, time_words
from gui.theme.theme import theme
from gui.widgets import Button, label, set_text
from gui.widgets.boxes import Stretch, in_column, in_row, wide
from gui.widgets.labels import describe, plain_tip
from gui.widgets.table import Column, Look, ResultTable
from gui.widgets.table.columns import GROWS

_HIGHEST = 48
_PITCHES = (14, 12, 10, 8, 7, 6, 5, 4, 3, 2, 1)


class GridBlock(QWidget):
    """A preview of a sweep's grid below its axes, hidden without a sweep.

    A click on its `map` opens a dialog with the full grid.
    """

    def __init__(self) -> None:
        super().__init__()
        self.map = CellsMap()
        self._lines = [label("", "hint") for _ in range(2)]
        for line in self._lines:
            line.setWordWrap(True)
        in_column(self.map, *self._lines, parent=self, margins=(0, 0, 0, 8), spacing=4)
        self.hide()

    def show_survey(self, survey: Survey | None) -> None:
        """Show the survey of a sweep. For None, hide the block."""
        self.setVisible(survey is not None and survey.grid is not None)
        if survey is None or survey.grid is None:
            return
        self.map.show_survey(survey)
        said = (skipped_words(survey), time_words(survey, datetime.now()))
        for line, words in zip(self._lines, said, strict=True):
            set_text(line, words)
            line.setVisible(bool(words))

    def text(self) -> str:
        """Return the sentence of the block. Empty while hidden."""
        if self.isHidden():
            return ""
        return "\n".join(line.text() for line in self._lines if line.text())


class CellsMap(QAbstractButton):
    """A miniature of a sweep's grid: one square per cell, with skipped cells struck out.

    If there is room, each row has the values of the last axis. A click opens the full grid. The tooltip names
    the cell.
    """

    def __init__(self) -> None:
        super().__init__()
        self._survey: Survey | None = None
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        describe(self, "Combinations of the sweep", "Show all combinations")
        self.clicked.connect(self._open)
        theme().changed.connect(self.update)

    def _open(self) -> None:
        if self._survey is not None:
            GridDialog(self._survey, self.window()).show()

    def show_survey(self, survey: Survey) -> None:
        if survey is not self._survey:
            self._survey = survey
            self.setFixedHeight(self.sizeHint().height())
            self.update()

    def sizeHint(self) -> QSize:
        columns, pitch = self._shape()
        return QSize(columns * pitch, math.ceil(self._count / columns) * pitch)

    def cell_at(self, point: QPoint) -> int | None:
        columns, pitch = self._shape()
        column, row = point.x() // pitch, point.y() // pitch
        index = row * columns + column
        return index if 0 <= column < columns and 0 <= index < self._count else None

    def paintEvent(self, event: QPaintEvent) -> None:
        survey = self._survey
        if survey is None:
            return
        palette, (columns, pitch) = theme().palette, self._shape()
        gap = 2 if pitch >= 6 else 1 if pitch >= 3 else 0
        fits, unfit = QColor(palette.text2), QColor(palette.hatch)
        strike, side = QColor(palette.text), pitch - gap
        painter = QPainter(self)
        for index in range(self._count):
            row, column = divmod(index, columns)
            square = QRectF(column * pitch, row * pitch, side, side)
            is_skipped = index in survey.fit.why
            painter.fillRect(square, unfit if is_skipped else fits)
            if is_skipped and side >= 4:
                painter.setPen(strike)
                painter.drawLine(square.bottomLeft() + QPointF(0, -1), square.topRight() + QPointF(-1, 0))
        painter.end()

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and self._survey is not None:
            index = self.cell_at(event.pos())
            QToolTip.showText(event.globalPos(), "" if index is None else self.tip(index), self)
            return True
        return super().event(event)

    def tip(self, index: int) -> str:
        """Return a cell's name, and why it is skipped."""
        assert self._survey is not None and self._survey.grid is not None
        grid = self._survey.grid
        why = self._survey.fit.why.get(index)
        return plain_tip(grid.name(grid.cells[index].places) + (f"\n{why}" if why else ""))

    @property
    def _count(self) -> int:
        return 0 if self._survey is None or self._survey.grid is None else self._survey.grid.size

    def _shape(self) -> tuple[int, int]:
        """Return the number of cells in a row, and their distance in pixels.

        A row has a multiple of the last axis's length, if that fits.
        """
        width = max(self.width(), 200)
        count, grid = max(1, self._count), self._survey.grid if self._survey is not None else None
        last = len(grid.axes[-1].values) if grid is not None else 1
        for pitch in _PITCHES:
            most = width // pitch
            columns = most // last * last if last <= most else most
            if math.ceil(count / columns) * pitch <= _HIGHEST or pitch == _PITCHES[-1]:
                return min(columns, count), pitch
        raise AssertionError


_SIZE = (720, 520)


class GridDialog(QDialog):
    """A dialog with a table of all cells of a sweep. Skipped cells are struck out."""

    def __init__(self, survey: Survey, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Combinations of the sweep")
        self.resize(*_SIZE)
        self.table = ResultTable("Combinations of the sweep", _columns(survey))
        assert survey.grid is not None
        self.table.show_rows(range(len(survey.grid.cells)))
        about = label(
            "\n".join(filter(None, (plan_words(survey), skipped_words(survey)))), "hint", wraps=True
        )
        close = Button("Close", "secondary", "Close this window (Escape)", do=self.close)
        in_column(about, wide(self.table), in_row(Stretch(), close), parent=self, margins=16, spacing=12)


def _columns(survey: Survey) -> list[Column[int]]:
    """Return the columns of the table, whose rows are cell indexes."""
    grid, fit = survey.grid, survey.fit
    assert grid is not None
    cells = grid.cells

    def of_axis(place: int, axis: Axis) -> Column[int]:
        return Column(
            axis.title,
            lambda cell: axis.text(cells[cell].places[place]),
            lambda cell: cells[cell].places[place],
            width=70,
            widest=240,
            look=lambda cell: Look(ink="text3", is_struck=True) if cell in fit.why else Look(),
        )

    def memory(cell: int) -> str:
        needed = fit.needed_mib.get(cell)
        return NONE if needed is None else memory_text(needed)

    def faint(cell: int) -> Look:
        return Look(ink="text3") if cell in fit.why else Look()

    return [
        *(of_axis(place, axis) for place, axis in enumerate(grid.axes)),
        Column("Memory", memory, fit.needed_mib.get, width=84, is_number=True, look=faint),
        Column("Skipped because", lambda cell: fit.why.get(cell, ""), width=120, widest=GROWS, look=faint),
    ]
