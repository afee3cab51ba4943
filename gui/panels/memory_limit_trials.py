"""The table of a search's trials, in the order they were made."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, QSize, Qt
from PySide6.QtGui import QBrush, QColor, QGuiApplication, QIcon, QPainter, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QFrame,
    QHBoxLayout,
    QHeaderView,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from engine.probe_events import Trial
from gui.fonts import font
from gui.icons import icon
from gui.numbers import NONE, gib
from gui.panels.memory_limit_words import outcome
from gui.search_view import SearchView, SideView
from gui.theme import theme
from gui.widgets import Button, label, marker_pixmap, set_text

_COLUMNS = ("Precision", "Batch", "Result", "Peak GiB", "Time s")
_PRECISION, _BATCH, _RESULT, _PEAK, _TIME = range(5)
_WIDTHS = {_PRECISION: 98, _BATCH: 54, _PEAK: 58, _TIME: 46}
_ROOM_FOR_TIME = 370
_ROW_HEIGHT = 28
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter

Index = QModelIndex | QPersistentModelIndex


class TrialModel(QAbstractTableModel):
    """One trial a row; the largest that fits stands out on each side."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[tuple[SideView, Trial]] = []

    def show_view(self, view: SearchView | None) -> None:
        """Takes over the trials of a search."""
        self.beginResetModel()
        self._rows = [(side, trial) for side in view.sides for trial in side.trials] if view else []
        self.endResetModel()

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - as Qt declares it
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(_COLUMNS)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation is not Qt.Orientation.Horizontal:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return _COLUMNS[section]
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(section)
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        side, trial = self._rows[index.row()]
        column, palette = index.column(), theme().palette
        is_answer = trial.fits and trial.batch_size == side.largest_batch and side.is_over
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return self._text(side, trial, column)
            case Qt.ItemDataRole.DecorationRole:
                return _icon(side, trial, column)
            case Qt.ItemDataRole.TextAlignmentRole:
                return _alignment(column)
            case Qt.ItemDataRole.FontRole:
                is_strong = column == _BATCH or (column == _PEAK and trial.fits)
                return font(12, 600 if is_strong or (is_answer and column == _RESULT) else 400)
            case Qt.ItemDataRole.ForegroundRole:
                is_quiet = column in (_PRECISION, _TIME) or (not trial.fits and column != _BATCH)
                return QBrush(QColor(palette.text2 if is_quiet else palette.text))
            case Qt.ItemDataRole.BackgroundRole:
                return QBrush(QColor(palette.bg2)) if is_answer else None
            case Qt.ItemDataRole.ToolTipRole:
                return trial.note or None
        return None

    def lines(self) -> list[list[str]]:
        """The table as text, its headings first."""
        rows = [[self._text(side, trial, column) for column in range(5)] for side, trial in self._rows]
        return [list(_COLUMNS), *rows]

    @staticmethod
    def _text(side: SideView, trial: Trial, column: int) -> str:
        if column == _PRECISION:
            return side.label
        if column == _BATCH:
            return f"{trial.batch_size:,}"
        if column == _RESULT:
            return outcome(trial, side.largest_batch if side.is_over else 0)
        if column == _PEAK and trial.peak_mib is None:
            return (
                f"over {side.budget_mib / 1024:.3g}" if trial.cause == "memory" and side.budget_mib else NONE
            )
        return gib(trial.peak_mib or 0.0) if column == _PEAK else f"{trial.seconds:,.1f}"


class _ShadingDelegate(QStyledItemDelegate):
    """Paints the model's background, which a view with a style sheet leaves out."""

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        shade = index.data(Qt.ItemDataRole.BackgroundRole)
        if shade is not None:
            painter.fillRect(option.rect, shade)
        super().paint(painter, option, index)


class TrialTable(QFrame):
    """The panel around the table, with its count and a button that copies it."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "panel")
        self.model = TrialModel()
        self._count = label("", "unit")
        self.copy = Button("Copy", "link", "Copy the table, to be pasted into a spreadsheet")
        self.copy.clicked.connect(self._copy)
        self._view = _make_view(self.model)
        head = QHBoxLayout()
        head.setContentsMargins(12, 0, 12, 0)
        head.setSpacing(8)
        head.addWidget(label("Trials", "panelTitle"))
        head.addWidget(self._count)
        head.addStretch(1)
        head.addWidget(self.copy)
        column = QVBoxLayout(self)
        column.setContentsMargins(1, 10, 1, 1)
        column.setSpacing(6)
        column.addLayout(head)
        column.addWidget(self._view, 1)
        theme().changed.connect(self._recolor)

    def show_view(self, view: SearchView | None) -> None:
        """Shows the trials of a search, the newest in sight."""
        self.model.show_view(view)
        count = self.model.rowCount()
        set_text(self._count, f"{count:,}" if count else "")
        self.copy.setEnabled(count > 0)
        self._view.scrollToBottom()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        # how long a trial took is the least of what must be read
        self._view.setColumnHidden(_TIME, event.size().width() < _ROOM_FOR_TIME)

    def _recolor(self) -> None:
        self._view.viewport().update()

    def _copy(self) -> None:
        text = "\n".join("\t".join(line) for line in self.model.lines())
        QGuiApplication.clipboard().setText(text)


def _make_view(model: TrialModel) -> QTableView:
    view = QTableView()
    view.setModel(model)
    view.setAccessibleName("Trials")
    view.setProperty("kind", "tight")
    view.setIconSize(QSize(12, 12))
    view.setShowGrid(False)
    for corner in view.findChildren(QAbstractButton):
        corner.setAccessibleName("All trials")
        corner.setToolTip("All trials")
    view.setItemDelegate(_ShadingDelegate(view))
    view.setSelectionMode(QTableView.SelectionMode.NoSelection)
    view.setFocusPolicy(Qt.FocusPolicy.TabFocus)
    view.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    view.verticalHeader().hide()
    view.verticalHeader().setDefaultSectionSize(_ROW_HEIGHT)
    header = view.horizontalHeader()
    header.setHighlightSections(False)
    header.setMinimumSectionSize(44)
    for column, width in _WIDTHS.items():
        header.setSectionResizeMode(column, QHeaderView.ResizeMode.Fixed)
        header.resizeSection(column, width)
    header.setSectionResizeMode(_RESULT, QHeaderView.ResizeMode.Stretch)
    view.setMinimumHeight(2 * _ROW_HEIGHT)
    return view


def _alignment(column: int) -> Qt.AlignmentFlag:
    return _LEFT if column in (_PRECISION, _RESULT) else _RIGHT


def _icon(side: SideView, trial: Trial, column: int) -> QIcon | None:
    if column == _PRECISION:
        return QIcon(marker_pixmap(side.precision, 8))
    if column == _RESULT:
        palette = theme().palette
        return icon("check", palette.text, 12) if trial.fits else icon("cross-outline", palette.text2, 12)
    return None
