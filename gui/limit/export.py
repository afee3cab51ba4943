"""Exports of a search: as a file in any format, its trials on the clipboard, and its chart as a picture."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QBuffer, QObject, QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFontMetrics, QGuiApplication, QPainter, QPixmap
from PySide6.QtWidgets import QWidget

from engine.experiment.problem import ProblemError
from engine.export.files import place
from engine.export.formats import LIMIT
from gui.limit.chart import MemoryChart
from gui.limit.trials import TrialModel
from gui.theme.fonts import font
from gui.theme.theme import theme
from gui.widgets.saved_menu import ExportMenu, ask_where

_SCALE = 2.0
"""The picture's pixels per screen pixel: enough for print."""
_MARGIN, _GAP = 16, 4
_WRAPPED = Qt.TextFlag.TextWordWrap


class LimitExport(QObject):
    """`asked` carries the path of a file to write, in the format of its ending; `copied` a sentence.

    `written` carries the path of the chart's picture, `failed` why it could not be written.
    """

    asked = Signal(object)  # Path
    copied = Signal(str)
    written = Signal(object)  # Path
    failed = Signal(str)

    def __init__(self, model: TrialModel, chart: MemoryChart, parent: QWidget) -> None:
        super().__init__(parent)
        self._window = parent
        self._model, self._chart = model, chart
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
        text = "\n".join("\t".join(line) for line in self._model.lines())
        QGuiApplication.clipboard().setText(text)
        self.copied.emit("The table is on the clipboard.")

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

    def _ask_for_chart(self) -> None:
        path = ask_where(self._window, "Save the chart", "memory-limit.png", "PNG")
        if path is not None:
            self.save_png(path)
