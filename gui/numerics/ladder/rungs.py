"""The table of rungs: where each parts from FP32, and its sentence."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QModelIndex, QSize, Qt, Signal
from PySide6.QtGui import QBrush, QColor, QIcon
from PySide6.QtWidgets import QHeaderView, QTableView, QWidget

from engine.protocol.numerics.ladder import Ladder, Rung
from engine.protocol.numerics.precision_map import module_title
from engine.words.numbers import NONE
from gui.theme.fonts import font
from gui.theme.theme import theme
from gui.widgets import marker_pixmap
from gui.widgets.labels import plain_tip
from gui.widgets.tables import Index, TableModel, set_up

_HEADINGS = ("Rung", "Parts at step", "First module", "Skipped")
_RUNG, _PARTS, _MODULE, _SKIPPED = range(4)
_TIPS = {
    _RUNG: "One precision, from the same weights and on the same batches as FP32",
    _PARTS: "The first step whose loss, and those after it, lie outside of FP32's band",
    _MODULE: "The first module of the forward pass whose output parts from FP32's, in one step from equal "
    "weights",
    _SKIPPED: "How often the loss scaler skipped a step, which is then made again at the lower scale",
}
_WIDTHS = {_RUNG: 140, _PARTS: 92, _SKIPPED: 66}
_ROW_HEIGHT = 28


class RungModel(TableModel):
    """A row for each rung."""

    headings, tips, right = _HEADINGS, _TIPS, (_PARTS, _SKIPPED)

    def __init__(self) -> None:
        super().__init__()
        self._rungs: tuple[Rung, ...] = ()

    def show_rungs(self, rungs: tuple[Rung, ...]) -> None:
        """Shows these in the place of others."""
        self.beginResetModel()
        self._rungs = rungs
        self.endResetModel()

    def rows(self) -> tuple[Rung, ...]:
        return self._rungs

    def rung(self, number: int) -> Rung:
        return self._rungs[number]

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        rung, column = self._rungs[index.row()], index.column()
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return _text(rung, column)
            case Qt.ItemDataRole.DecorationRole if column == _RUNG:
                return QIcon(marker_pixmap(rung.precision, 8))
            case Qt.ItemDataRole.TextAlignmentRole:
                return self.alignment(column)
            case Qt.ItemDataRole.FontRole:
                return font(12, 600 if column == _PARTS and rung.parts_at is not None else 400)
            case Qt.ItemDataRole.ForegroundRole:
                palette = theme().palette
                return QBrush(
                    QColor(palette.text3 if _text(rung, column) in (NONE, "never") else palette.text)
                )
            case Qt.ItemDataRole.ToolTipRole:
                return plain_tip(rung.sentence or _text(rung, column))
        return None


def _text(rung: Rung, column: int) -> str:
    match column:
        case 0:
            return rung.label
        case 1:
            return "never" if rung.parts_at is None else f"{rung.parts_at:,}"
        case 2:
            return NONE if rung.first_module is None else module_title(rung.first_module)
        case _:
            return f"{rung.skipped:,}"


class RungTable(QTableView):
    """`chosen` carries a rung when another is chosen."""

    chosen = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.rungs = RungModel()
        self.setModel(self.rungs)
        set_up(self, "Rungs", "All rungs", _ROW_HEIGHT)
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setSelectionBehavior(QTableView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QTableView.SelectionMode.SingleSelection)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        header = self.horizontalHeader()
        for column, width in _WIDTHS.items():
            header.setSectionResizeMode(column, QHeaderView.ResizeMode.Fixed)
            header.resizeSection(column, width)
        header.setSectionResizeMode(_MODULE, QHeaderView.ResizeMode.Stretch)
        self.selectionModel().currentRowChanged.connect(self._tell)

    def show_ladder(self, ladder: Ladder) -> None:
        """Shows the rungs, the first of those that part chosen."""
        self.rungs.show_rungs(ladder.rungs)
        self.setFixedHeight(self.sizeHint().height())
        parted = (place for place, rung in enumerate(ladder.rungs) if rung.parts_at is not None)
        if ladder.rungs:
            self.selectRow(next(parted, 0))

    def sizeHint(self) -> QSize:
        rows = self.rungs.rowCount()
        return QSize(360, self.horizontalHeader().sizeHint().height() + rows * _ROW_HEIGHT + 2)

    def _tell(self, index: QModelIndex) -> None:
        if index.isValid():
            self.chosen.emit(self.rungs.rung(index.row()))
