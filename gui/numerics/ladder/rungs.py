"""The table of rungs: where each parts from FP32, and its sentence."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, QSize, Qt, Signal
from PySide6.QtGui import QBrush, QColor, QIcon
from PySide6.QtWidgets import QAbstractButton, QHeaderView, QTableView, QWidget

from engine.protocol.numerics.ladder import Ladder, Rung
from engine.protocol.numerics.precision_map import module_title
from engine.words.numbers import NONE
from gui.theme.fonts import font
from gui.theme.theme import theme
from gui.widgets import marker_pixmap
from gui.widgets.labels import plain_tip

_HEADINGS = ("Rung", "Parts at step", "First module", "Skipped")
_RUNG, _PARTS, _MODULE, _SKIPPED = range(4)
_TIPS = (
    "One precision, from the same weights and on the same batches as FP32",
    "The first step whose loss, and those after it, lie outside of FP32's band",
    "The first module of the forward pass whose output parts from FP32's, in one step from equal weights",
    "Steps that the loss scaler skipped",
)
_WIDTHS = {_RUNG: 140, _PARTS: 92, _SKIPPED: 66}
_ROW_HEIGHT = 28
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter

Index = QModelIndex | QPersistentModelIndex


class RungModel(QAbstractTableModel):
    """A row for each rung."""

    def __init__(self) -> None:
        super().__init__()
        self._rungs: tuple[Rung, ...] = ()

    def show_rungs(self, rungs: tuple[Rung, ...]) -> None:
        """Shows these in the place of others."""
        self.beginResetModel()
        self._rungs = rungs
        self.endResetModel()

    def rung(self, number: int) -> Rung:
        return self._rungs[number]

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - as Qt declares it
        return 0 if parent.isValid() else len(self._rungs)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(_HEADINGS)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation is Qt.Orientation.Horizontal:
            match role:
                case Qt.ItemDataRole.DisplayRole:
                    return _HEADINGS[section]
                case Qt.ItemDataRole.ToolTipRole:
                    return _TIPS[section]
                case Qt.ItemDataRole.TextAlignmentRole:
                    return _alignment(section)
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        rung, column = self._rungs[index.row()], index.column()
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return _text(rung, column)
            case Qt.ItemDataRole.DecorationRole if column == _RUNG:
                return QIcon(marker_pixmap(rung.precision, 8))
            case Qt.ItemDataRole.TextAlignmentRole:
                return _alignment(column)
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


def _alignment(column: int) -> Qt.AlignmentFlag:
    return _RIGHT if column in (_PARTS, _SKIPPED) else _LEFT


class RungTable(QTableView):
    """`chosen` carries a rung when another is chosen."""

    chosen = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.rungs = RungModel()
        self.setModel(self.rungs)
        self.setAccessibleName("Rungs")
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.setTabKeyNavigation(False)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setSelectionBehavior(QTableView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QTableView.SelectionMode.SingleSelection)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        for corner in self.findChildren(QAbstractButton):
            corner.setAccessibleName("All rungs")
            corner.setToolTip("All rungs")
        self.verticalHeader().hide()
        self.verticalHeader().setDefaultSectionSize(_ROW_HEIGHT)
        header = self.horizontalHeader()
        header.setHighlightSections(False)
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
