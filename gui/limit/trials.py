"""The table of a search's trials, in the order in which they were made."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QBrush, QColor, QFontMetrics, QIcon, QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import (
    QFrame,
    QHeaderView,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QWidget,
)

from engine.protocol.trials import Limit, LimitSide, Trial
from engine.words.numbers import NONE, gib
from gui.limit.words import outcome, short_outcome
from gui.theme.fonts import font
from gui.theme.icons import icon
from gui.theme.theme import theme
from gui.widgets import Button, label, marker_pixmap, set_text
from gui.widgets.boxes import Stretch, in_column, in_row, wide
from gui.widgets.labels import plain_tip
from gui.widgets.tables import Index, TableModel, set_up

COLUMNS = ("Precision", "Batch", "Result", "Peak GiB", "Time s")
PRECISION, BATCH, RESULT, PEAK, TIME = range(5)


class TrialModel(TableModel):
    """A row per trial; each side's largest that fits is highlighted."""

    headings, right = COLUMNS, (BATCH, PEAK, TIME)

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[tuple[LimitSide, Trial]] = []
        self._is_short = False

    def show_view(self, view: Limit | None) -> None:
        """Shows the trials of a search."""
        self.beginResetModel()
        self._rows = [(side, trial) for side in view.sides for trial in side.trials] if view else []
        self.endResetModel()

    def rows(self) -> list[tuple[LimitSide, Trial]]:
        return self._rows

    def set_short(self, is_short: bool) -> None:
        """Shows results in one word where there is little room; the tooltip has the rest."""
        if is_short != self._is_short:
            self._is_short = is_short
            self.layoutChanged.emit()

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
                return self.alignment(column)
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
        """The texts of the first column."""
        return frozenset(side.label for side, _ in self._rows)

    def trials(self) -> tuple[tuple[LimitSide, Trial], ...]:
        """The rows: a trial and its side."""
        return tuple(self._rows)

    @staticmethod
    def _text(side: LimitSide, trial: Trial, column: int) -> str:
        if column == PRECISION:
            return side.label
        if column == BATCH:
            return f"{trial.batch_size:,}"
        if column == RESULT:
            return outcome(trial, side.largest_batch if side.is_proven else 0)
        if column == PEAK and trial.peak_mib is None:
            is_over = trial.cause == "memory" and side.budget_mib
            return f"over {gib(side.budget_mib)}" if is_over and side.budget_mib else NONE
        return gib(trial.peak_mib or 0.0) if column == PEAK else f"{trial.seconds:,.1f}"


def _tip(side: LimitSide, trial: Trial) -> str:
    result = outcome(trial, side.largest_batch if side.is_proven else 0)
    text = f"{side.label}, batch {trial.batch_size:,}: {result}"
    return plain_tip(f"{text}. {trial.note}" if trial.note else text)


def _icon(side: LimitSide, trial: Trial, column: int) -> QIcon | None:
    if column == PRECISION:
        return QIcon(marker_pixmap(side.precision, 8))
    if column == RESULT:
        palette = theme().palette
        return icon("check", palette.text, 12) if trial.fits else icon("cross-outline", palette.text2, 12)
    return None


_WIDTHS = {BATCH: 50, PEAK: 66, TIME: 44}
_ROOM_FOR_WORDS, _ROOM_FOR_A_WORD = 114, 88
"""Pixels of the column Result for "Out of memory", and for "Largest fit"."""
_ROW_HEIGHT, _PADDING, _ICON_GAP = 28, 4, 6
_LEAST_PRECISION = 70
_INNER_MARGIN, _SCROLL_BAR = 8, 10
_EXPORT = "Copy the table, or save it or the chart as a file"
_NONE = "Each trial appears here as it is made."


class TrialTable(QFrame):
    """`export` is the button beside the heading; the owner of the panel opens its menu."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "panel")
        self.model = TrialModel()
        self._count = label("", "unit")
        self.export = Button("Export…", "link", _EXPORT)
        self.view = _make_view(self.model)
        head = in_row(
            label("Trials", "panelTitle"),
            self._count,
            Stretch(1),
            self.export,
            margins=(_INNER_MARGIN + _PADDING - 1, 0, _INNER_MARGIN + _PADDING - 1, 0),
            spacing=8,
        )
        body = in_row(self.view, margins=(_INNER_MARGIN - 1, 0, _INNER_MARGIN - 1, 0))
        in_column(head, wide(body), parent=self, margins=(1, 8, 1, 1), spacing=2)
        theme().changed.connect(self._recolor)
        self._key: str | None = None
        self._follows = True
        bar = self.view.verticalScrollBar()
        bar.valueChanged.connect(self._note_place)
        # the rows are laid out later, and the panel above grows with its answer
        bar.rangeChanged.connect(self._keep_newest)

    def show_view(self, view: Limit | None, key: str | None) -> None:
        """Shows a search's trials, scrolled to the newest unless the user has scrolled up."""
        bar, follows = self.view.verticalScrollBar(), self._follows or key != self._key
        self._key, place = key, bar.value()
        self.model.show_view(view)
        count = self.model.rowCount()
        set_text(self._count, f"{count:,}" if count else "")
        self.export.setEnabled(count > 0)
        self.export.setToolTip(_EXPORT if count else "There are no trials to export yet")
        self.view.setAccessibleDescription("" if count else _NONE)
        self._fit(self.width())
        self.view.scrollToBottom()
        if not follows:
            bar.setValue(place)
        self._follows = follows

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit(event.size().width())

    def _note_place(self, place: int) -> None:
        self._follows = place == self.view.verticalScrollBar().maximum()

    def _keep_newest(self, _least: int, most: int) -> None:
        if self._follows:
            self.view.verticalScrollBar().setValue(most)

    def _fit(self, width: int) -> None:
        """Shows the precisions in full while the results keep room for a word."""
        rest = width - 2 * _INNER_MARGIN - _SCROLL_BAR - sum(_WIDTHS.values())
        metrics = QFontMetrics(font(12, 400))
        widest = max((metrics.horizontalAdvance(name) for name in self.model.precisions()), default=0)
        # hinting differs between screens by a pixel
        wanted = max(_LEAST_PRECISION, widest + 12 + _ICON_GAP + 2 * _PADDING + 2)
        precision = max(_LEAST_PRECISION, min(wanted, rest - _ROOM_FOR_A_WORD))
        self.view.horizontalHeader().resizeSection(PRECISION, precision)
        self.model.set_short(rest - precision < _ROOM_FOR_WORDS)

    def _recolor(self) -> None:
        self.view.viewport().update()


class _CellDelegate(QStyledItemDelegate):
    """Paints a cell with its heading's padding, so that both are aligned."""

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        painter.save()
        shade = index.data(Qt.ItemDataRole.BackgroundRole)
        if isinstance(shade, QBrush):
            painter.fillRect(option.rect, shade)
        painter.setPen(QPen(theme().palette.line))
        painter.drawLine(option.rect.bottomLeft(), option.rect.bottomRight())
        room = option.rect.adjusted(_PADDING, 0, -_PADDING, 0)
        picture = index.data(Qt.ItemDataRole.DecorationRole)
        if isinstance(picture, QIcon):
            picture.paint(painter, QRect(room.left(), room.top(), 12, room.height()))
            room.setLeft(room.left() + 12 + _ICON_GAP)
        painter.setFont(index.data(Qt.ItemDataRole.FontRole))
        painter.setPen(index.data(Qt.ItemDataRole.ForegroundRole).color())
        words = str(index.data(Qt.ItemDataRole.DisplayRole))
        shown = QFontMetrics(painter.font()).elidedText(words, Qt.TextElideMode.ElideRight, room.width())
        painter.drawText(room, index.data(Qt.ItemDataRole.TextAlignmentRole), shown)
        painter.restore()


class _Table(QTableView):
    """Says what will appear in it while it is empty."""

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self.model().rowCount() == 0:
            painter = QPainter(self.viewport())
            painter.setFont(font(12))
            painter.setPen(QColor(theme().palette.text3))
            flags = Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap
            painter.drawText(self.viewport().rect().adjusted(_PADDING, 0, -_PADDING, 0), flags, _NONE)
            painter.end()


def _make_view(model: TrialModel) -> QTableView:
    view = _Table()
    view.setModel(model)
    set_up(view, "Trials", "All trials", _ROW_HEIGHT)
    view.setToolTip("The trials, in the order in which they were made")
    view.setProperty("kind", "tight")
    view.setItemDelegate(_CellDelegate(view))
    view.setSelectionMode(QTableView.SelectionMode.NoSelection)
    view.setFocusPolicy(Qt.FocusPolicy.TabFocus)
    view.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    header = view.horizontalHeader()
    header.setMinimumSectionSize(44)
    for column, width in _WIDTHS.items():
        header.setSectionResizeMode(column, QHeaderView.ResizeMode.Fixed)
        header.resizeSection(column, width)
    header.setSectionResizeMode(PRECISION, QHeaderView.ResizeMode.Fixed)
    header.setSectionResizeMode(RESULT, QHeaderView.ResizeMode.Stretch)
    view.setMinimumHeight(2 * _ROW_HEIGHT)
    return view
