"""Exports of a search: its trials on the clipboard or as CSV, and its chart as a picture."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QBuffer, QObject, QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPixmap
from PySide6.QtWidgets import QMenu, QWidget

from engine.experiment.problem import ProblemError
from engine.experiment.text import cell_text
from engine.export.files import place
from gui.limit.chart import MemoryChart
from gui.limit.trials import TrialRow
from gui.theme.fonts import font
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
_MARGIN, _GAP = 16, 4
_WRAPPED = Qt.TextFlag.TextWordWrap


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
        palette, chart = theme().palette, self._chart
        room = QRect(_MARGIN, _MARGIN, chart.width(), chart.height())
        words = (
            (self._title, font(15, 600, display=True), palette.text),
            (self._facts, font(12), palette.text2),
        )
        heights = [QFontMetrics(face).boundingRect(room, _WRAPPED, text).height() for text, face, _ in words]
        above = sum(heights) + _GAP + _MARGIN
        picture = QPixmap(QSize(chart.width() + 2 * _MARGIN, chart.height() + above + 2 * _MARGIN) * _SCALE)
        picture.setDevicePixelRatio(_SCALE)
        picture.fill(QColor(palette.bg1))
        painter = QPainter(picture)
        for (text, face, color), height in zip(words, heights, strict=True):
            painter.setFont(face)
            painter.setPen(QColor(color))
            painter.drawText(room, _WRAPPED, text)
            room.translate(0, height + _GAP)
        painter.end()
        chart.render(picture, QPoint(_MARGIN, _MARGIN + above), renderFlags=QWidget.RenderFlag.DrawChildren)
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
