"""A search's trials as a table: in the order they were made, for the screen and for a file."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt
from PySide6.QtGui import QBrush, QColor, QIcon

from engine.probe_events import Trial
from engine.records.large_numbers import NONE
from gui.fonts import font
from gui.icons import icon
from gui.numbers import gib
from gui.panels.memory_limit_words import outcome, short_outcome
from gui.search_view import SearchView, SideView
from gui.theme import theme
from gui.tips import plain_tip
from gui.widgets import marker_pixmap

COLUMNS = ("Precision", "Batch", "Result", "Peak GiB", "Time s")
PRECISION, BATCH, RESULT, PEAK, TIME = range(5)
_MIB = 1024.0
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter

Index = QModelIndex | QPersistentModelIndex


class TrialModel(QAbstractTableModel):
    """One trial a row; the largest that fits stands out on each side."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[tuple[SideView, Trial]] = []
        self._is_short = False

    def show_view(self, view: SearchView | None) -> None:
        """Takes over the trials of a search."""
        self.beginResetModel()
        self._rows = [(side, trial) for side in view.sides for trial in side.trials] if view else []
        self.endResetModel()

    def set_short(self, is_short: bool) -> None:
        """Tells how a trial went in a word, where there is little room; the tooltip has the rest."""
        if is_short != self._is_short:
            self._is_short = is_short
            self.layoutChanged.emit()

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - as Qt declares it
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(COLUMNS)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation is not Qt.Orientation.Horizontal:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return COLUMNS[section]
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(section)
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        side, trial = self._rows[index.row()]
        column, palette = index.column(), theme().palette
        is_answer = side.is_proven and trial.fits and trial.batch_size == side.largest_batch
        is_answer = is_answer and not trial.uncompiled
        match role:
            case Qt.ItemDataRole.DisplayRole:
                is_short = self._is_short and column == RESULT and not is_answer
                return short_outcome(trial) if is_short else self._text(side, trial, column)
            case Qt.ItemDataRole.DecorationRole:
                return _icon(side, trial, column)
            case Qt.ItemDataRole.TextAlignmentRole:
                return _alignment(column)
            case Qt.ItemDataRole.FontRole:
                is_strong = column == BATCH or (column == PEAK and trial.fits)
                return font(12, 600 if is_strong or (is_answer and column == RESULT) else 400)
            case Qt.ItemDataRole.ForegroundRole:
                is_quiet = column in (PRECISION, TIME) or (not trial.fits and column != BATCH)
                return QBrush(QColor(palette.text2 if is_quiet else palette.text))
            case Qt.ItemDataRole.BackgroundRole:
                return QBrush(QColor(palette.bg2)) if is_answer else None
            case Qt.ItemDataRole.ToolTipRole:
                return _tip(side, trial)
        return None

    def lines(self) -> list[list[str]]:
        """The table as text, its headings first."""
        rows = [[self._text(side, trial, column) for column in range(5)] for side, trial in self._rows]
        return [list(COLUMNS), *rows]

    def precisions(self) -> frozenset[str]:
        """The names in the first column."""
        return frozenset(side.label for side, _ in self._rows)

    def trials(self) -> tuple[tuple[SideView, Trial], ...]:
        """The rows, each with the side that it belongs to."""
        return tuple(self._rows)

    @staticmethod
    def _text(side: SideView, trial: Trial, column: int) -> str:
        if column == PRECISION:
            return side.label
        if column == BATCH:
            return f"{trial.batch_size:,}"
        if column == RESULT:
            return outcome(trial, side.largest_batch if side.is_proven else 0)
        if column == PEAK and trial.peak_mib is None:
            is_over = trial.cause == "memory" and side.budget_mib
            return f"over {_whole_gib(side.budget_mib)}" if is_over and side.budget_mib else NONE
        return gib(trial.peak_mib or 0.0) if column == PEAK else f"{trial.seconds:,.1f}"


def _whole_gib(mib: float) -> str:
    """Three figures at least, and never a power of ten."""
    size = mib / _MIB
    return f"{size:,.0f}" if size >= 1_000 else f"{size:.3g}"


def _tip(side: SideView, trial: Trial) -> str:
    went = outcome(trial, side.largest_batch if side.is_proven else 0)
    said = f"{side.label}, batch {trial.batch_size:,}: {went}"
    return plain_tip(f"{said}. {trial.note}" if trial.note else said)


def _alignment(column: int) -> Qt.AlignmentFlag:
    return _LEFT if column in (PRECISION, RESULT) else _RIGHT


def _icon(side: SideView, trial: Trial, column: int) -> QIcon | None:
    if column == PRECISION:
        return QIcon(marker_pixmap(side.precision, 8))
    if column == RESULT:
        palette = theme().palette
        return icon("check", palette.text, 12) if trial.fits else icon("cross-outline", palette.text2, 12)
    return None
