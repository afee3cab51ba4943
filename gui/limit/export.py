"""Exports of a search: as a file in any format, its trials on the clipboard, and its chart as a picture."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QBuffer, QObject, QSizeF, Signal
from PySide6.QtGui import QColor, QPainter, QPixmap
from PySide6.QtWidgets import QWidget

from engine.drawing.shapes import Drawing, Shape, Words, moved, wrapped
from engine.experiment.problem import ProblemError
from engine.export.files import place
from engine.export.formats import LIMIT
from gui.charts.painter import paint
from gui.limit.chart import MemoryChart
from gui.limit.trials import TrialRow
from gui.theme.theme import theme
from gui.widgets.saved_menu import ExportMenu, ask_where
from gui.widgets.table import ResultTable
from gui.widgets.table.result_table import copy_lines

_SCALE = 2.0
"""The picture's pixels per screen pixel: enough for print."""
_MARGIN, _MOST_LINES = 16.0, 4


class LimitExport(QObject):
    """`asked` carries the path of a file to write, in the format of its ending; `copied` a sentence.

    `written` carries the path of the chart's picture, `failed` why it could not be written.
    """

    asked = Signal(object)  # Path
    copied = Signal(str)
    written = Signal(object)  # Path
    failed = Signal(str)

    def __init__(self, table: ResultTable[TrialRow], chart: MemoryChart, parent: QWidget) -> None:
        super().__init__(parent)
        self._window = parent
        self._table, self._chart = table, chart
        self._title, self._facts = "", ""
        self.menu = ExportMenu(parent, "search", LIMIT.formats)
        self.menu.asked.connect(self.asked)
        self.menu.addAction("Save chart as PNG…").triggered.connect(lambda: self._ask_for_chart())
        self.menu.addAction("Copy table").triggered.connect(lambda: self.copy())

    def set_heading(self, title: str, facts: str) -> None:
        """Sets the heading of the picture: the chart alone does not say what it shows."""
        self._title, self._facts = title, facts

    def copy(self) -> None:
        """Puts the table on the clipboard, for a spreadsheet."""
        copy_lines(self._table.lines())
        self.copied.emit("The table is on the clipboard.")

    def save_png(self, path: Path) -> None:
        """Paints the chart below its heading, at twice the screen's resolution."""
        buffer = QBuffer()
        self._picture().save(buffer, "PNG")
        self._write(path, bytes(buffer.data().data()))

    def _picture(self) -> QPixmap:
        drawing = _framed(self._chart.drawing(), self._title, self._facts)
        picture = QPixmap((QSizeF(drawing.width, drawing.height) * _SCALE).toSize())
        picture.setDevicePixelRatio(_SCALE)
        picture.fill(QColor(theme().palette.bg1))
        painter = QPainter(picture)
        paint(painter, drawing)
        painter.end()
        return picture

    def _write(self, path: Path, content: bytes) -> None:
        try:
            # the dialog has asked whether to replace a file of that name
            with place(path, force=True) as file:
                file.write_bytes(content)
        except ProblemError as error:
            self.failed.emit(f"{error.problem.message} {error.problem.remedy}")
        else:
            self.written.emit(path)

    def _ask_for_chart(self) -> None:
        path = ask_where(self._window, "Save the chart", "memory-limit.png", "PNG")
        if path is not None:
            self.save_png(path)


def _framed(chart: Drawing, title: str, facts: str) -> Drawing:
    """The chart below its heading."""
    shapes: list[Shape] = []
    down = _MARGIN
    for text, ink, size, weight in ((title, "text", 15, 600), (facts, "text2", 12, 400)):
        for line in wrapped(text, chart.width, size, weight, most=_MOST_LINES):
            down += 1.3 * size
            shapes.append(Words(_MARGIN, down, line, ink, size, weight))
    down += _MARGIN
    shapes += moved(chart.shapes, _MARGIN, down)
    return Drawing(chart.width + 2 * _MARGIN, down + chart.height + _MARGIN, tuple(shapes))
