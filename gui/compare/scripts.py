"""The answer about scripts, around its charts: requirements, metrics, and what each side printed."""

from __future__ import annotations

from functools import cached_property

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent, QTextCursor
from PySide6.QtWidgets import QBoxLayout, QPlainTextEdit, QWidget

from engine.compare.comparison import Comparison
from engine.compare.ranking import MANY
from engine.compare.sides import Side
from engine.drawing.looks import side_fills
from engine.experiment.value import printable
from gui.compare.ranking import SidesTable
from gui.compare.reading import ComparedRuns
from gui.compare.requirements import RequirementsCard
from gui.compare.table import MetricTable
from gui.theme.fonts import font
from gui.widgets import Button, ElidedLabel, Marker
from gui.widgets.boxes import Placed, Stretch, Surface, grid_of, in_column, in_row, wide

_CARD, _BESIDE, _WIDEST = 344, 860, 2**24 - 1
"""The width of the requirements beside a table, the least width of both, and the width without a limit."""
_LINES, _LINE, _COLUMNS, _LOG_HEIGHT = 6, 20, 2, 320


class RequiredMetrics(QWidget):
    """The requirements to the left of the metrics of all sides, or above them in little room."""

    def __init__(self) -> None:
        super().__init__()
        self.required, self._ranking = RequirementsCard(), SidesTable("Ranking of the compared sides")
        self.table = MetricTable(self._ranking)
        table = Placed(self.table, 1, Qt.AlignmentFlag.AlignTop)
        self._row = in_row(self.required, table, parent=self, spacing=8)

    def show_comparison(self, comparison: Comparison, side_id: str) -> None:
        """Show a comparison, with the side in its sentence."""
        self.table.show_comparison(comparison)
        self.table.set_headline(side_id)
        is_ranking = len(comparison.sides) >= MANY
        self._ranking.setVisible(is_ranking)
        if is_ranking:
            self._ranking.show_ranking(comparison)
            self._ranking.set_headline(side_id)
        self.required.show_comparison(comparison, side_id)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        is_beside = event.size().width() >= _BESIDE
        directions = QBoxLayout.Direction.TopToBottom, QBoxLayout.Direction.LeftToRight
        self._row.setDirection(directions[is_beside])
        least, most = (_CARD, _CARD) if is_beside else (0, _WIDEST)
        self.required.setMinimumWidth(least)
        self.required.setMaximumWidth(most)


class PrintedLines(QWidget):
    """A card for each side with the last lines that its last run printed."""

    def __init__(self) -> None:
        super().__init__()
        self.cards: list[PrintedCard] = []
        self._grid = grid_of(self, spacing=(8, 8), grows=tuple(range(_COLUMNS)))

    def show_comparison(self, compared: ComparedRuns) -> None:
        """Show the sides of a comparison."""
        for old in self.cards:
            old.hide()
            old.deleteLater()
        sides = compared.comparison.sides
        fills = side_fills(sides)
        self.cards = [
            PrintedCard(side, compared.runs[side.runs[-1].id].printed, is_hollow=fills[side.id] != "full")
            for side in sides
        ]
        for place, card in enumerate(self.cards):
            self._grid.addWidget(card, place // _COLUMNS, place % _COLUMNS)


class PrintedCard(Surface):
    """The last lines that a side's last run printed, and a button that shows all of them instead."""

    def __init__(self, side: Side, printed: str, *, is_hollow: bool) -> None:
        super().__init__("panel", f"Last lines of {side.title}")
        count, marker = len(side.runs), Marker(side.precision)
        marker.set_precision(side.precision, is_hollow)
        note = "last lines printed" if printed.strip() else "nothing printed"
        note += f", run {count} of {count}" if count > 1 else ""
        self.whole = Button("Whole log", "link", "Show or hide the full output of this run")
        self.whole.setCheckable(True)
        self.whole.setVisible(bool(printed.strip()))
        self.whole.toggled.connect(self._show_whole)
        self._printed = printable(printed)
        title = ElidedLabel(side.title, "panelTitle")
        head = in_row(marker, title, wide(ElidedLabel(note, "hint")), self.whole, spacing=8)
        self._last = Surface("printed")
        last = [line for line in self._printed.splitlines() if line.strip()][-_LINES:]
        self._rows = rows = [ElidedLabel(line.expandtabs(4), "mono") for line in last]
        for row in rows:
            row.setFixedHeight(_LINE)
        in_column(*rows, Stretch(1), parent=self._last, margins=(12, 8, 12, 8), spacing=0)
        self._last.setMinimumHeight(_LINES * _LINE + 16)
        self._column = in_column(
            in_row(head, margins=(12, 6, 12, 6)), wide(self._last), parent=self, margins=1, spacing=0
        )

    def lines(self) -> list[str]:
        """Return the last lines."""
        return [row.whole_text() for row in self._rows]

    @cached_property
    def log(self) -> QPlainTextEdit:
        """Return the view of everything that was printed, made when it is first shown."""
        view = QPlainTextEdit(self._printed)
        view.setReadOnly(True)
        view.setProperty("role", "code")
        view.setFont(font(12, mono=True))
        view.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        view.setAccessibleName(f"Whole log of {self.accessibleName()}")
        view.setFixedHeight(_LOG_HEIGHT)
        view.moveCursor(QTextCursor.MoveOperation.End)
        self._column.addWidget(view)
        return view

    def _show_whole(self, is_whole: bool) -> None:
        self.log.setVisible(is_whole)
        self._last.setHidden(is_whole)
