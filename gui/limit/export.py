"""Exports of a search: its trials on the clipboard or as CSV, and its chart as a picture."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QBuffer, QObject, QSizeF, Signal
from PySide6.QtGui import QColor, QPainter, QPixmap
from PySide6.QtWidgets import QMenu, QWidget

from engine.drawing.shapes import Drawing, Shape, Words, moved, wrapped
from engine.experiment.problem import ProblemError
from engine.experiment.text import cell_text
from engine.export.files import place
from gui.charts.painter import paint
from gui.limit.chart import MemoryChart
from gui.limit.trials import TrialRow
from gui.theme.theme import theme
from gui.widgets.saved_menu import ask_where
from gui.widgets.table import ResultTable
from gui.widgets.table.result_table import copy_lines

_HEADINGS = (
    "precision",
    "batch_size",
    "fits",
    "cause",
    "peak_mib",
    "reserved_mib",
    "budget_mib",
    "seconds",
    "steps",
    "uncompiled",
    "note",
)
_SCALE = 2.0
"""The picture's pixels per screen pixel: enough for print."""
_MARGIN, _MOST_LINES = 16.0, 4


class LimitExport(QObject):
    """`copied` carries a sentence, `written` a file's path, `failed` why it could not be written."""

    copied = Signal(str)
    written = Signal(object)
    failed = Signal(str)

    def __init__(self, table: ResultTable[TrialRow], chart: MemoryChart, parent: QWidget) -> None:
        super().__init__(parent)
        self._window = parent
        self._table, self._chart = table, chart
        self._title, self._facts = "", ""
        self.menu = QMenu(parent)
        self.menu.setAccessibleName("Export the search")
        self.menu.addAction("Copy table").triggered.connect(lambda: self.copy())
        self.menu.addAction("Save as CSV…").triggered.connect(
            lambda: self._ask("Save the trials", "trials.csv", "CSV", self.save_csv)
        )
        self.menu.addAction("Save chart as PNG…").triggered.connect(
            lambda: self._ask("Save the chart", "memory-limit.png", "PNG", self.save_png)
        )

    def set_heading(self, title: str, facts: str) -> None:
        """Sets the heading of the picture: the chart alone does not say what it shows."""
        self._title, self._facts = title, facts

    def copy(self) -> None:
        """Puts the table on the clipboard, for a spreadsheet."""
        copy_lines(self._table.lines())
        self.copied.emit("The table is on the clipboard.")

    def save_csv(self, path: Path) -> None:
        """Writes every trial at full precision, in MiB and seconds."""
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        writer.writerow(_HEADINGS)
        for side, trial in self._table.rows():
            figures = (trial.peak_mib, trial.reserved_mib, side.budget_mib, trial.seconds, trial.steps)
            result = (trial.batch_size, trial.fits, trial.cause or "")
            note = cell_text(trial.note or "")
            writer.writerow((side.label, *result, *figures, trial.uncompiled, note))
        self._write(path, text.getvalue().encode())

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

    def _ask(self, title: str, name: str, kind: str, save: Callable[[Path], None]) -> None:
        if (path := ask_where(self._window, title, name, kind)) is not None:
            save(path)


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
