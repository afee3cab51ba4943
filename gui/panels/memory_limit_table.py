"""The panel of a search's trials: the table, how many there are, and what can be taken away of them."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect, Qt
from PySide6.QtGui import (
    QBrush,
    QColor,
    QFontMetrics,
    QIcon,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
)
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

from gui.fonts import font
from gui.panels.memory_limit_trials import BATCH, PEAK, PRECISION, RESULT, TIME, TrialModel
from gui.search_view import SearchView
from gui.theme import theme
from gui.widgets import Button, label, set_text

_WIDTHS = {BATCH: 50, PEAK: 66, TIME: 44}
_ROOM_FOR_WORDS, _ROOM_FOR_A_WORD = 114, 88
"""Of the column Result: for "Out of memory", and for "Largest fit"."""
_ROW_HEIGHT, _PADDING, _ICON_GAP = 28, 4, 6
_LEAST_PRECISION = 70
_INNER_MARGIN, _SCROLL_BAR = 8, 10
_EXPORT = "Copy the table, or save it or the chart as a file"
_NONE = "Each trial appears here as it is made."

Index = QModelIndex | QPersistentModelIndex


class TrialTable(QFrame):
    """`export` is the button beside the heading; whoever owns the panel gives it its menu."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "panel")
        self.model = TrialModel()
        self._count = label("", "unit")
        self.export = Button("Export…", "link", _EXPORT)
        self.view = _make_view(self.model)
        head = QHBoxLayout()
        head.setContentsMargins(_INNER_MARGIN + _PADDING - 1, 0, _INNER_MARGIN + _PADDING - 1, 0)
        head.setSpacing(8)
        head.addWidget(label("Trials", "panelTitle"))
        head.addWidget(self._count)
        head.addStretch(1)
        head.addWidget(self.export)
        body = QHBoxLayout()
        body.setContentsMargins(_INNER_MARGIN - 1, 0, _INNER_MARGIN - 1, 0)
        body.addWidget(self.view)
        column = QVBoxLayout(self)
        column.setContentsMargins(1, 8, 1, 1)
        column.setSpacing(2)
        column.addLayout(head)
        column.addLayout(body, 1)
        theme().changed.connect(self._recolor)
        self._series: str | None = None
        self._follows = True
        bar = self.view.verticalScrollBar()
        bar.valueChanged.connect(self._note_place)
        # rows are laid out later, and the panel above grows with its answer
        bar.rangeChanged.connect(self._keep_newest)

    def show_view(self, view: SearchView | None) -> None:
        """Shows the trials of a search: the newest, unless a person looks at others of this search."""
        series = None if view is None else view.series
        bar, follows = self.view.verticalScrollBar(), self._follows or series != self._series
        self._series, place = series, bar.value()
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
        """The precisions are told whole, as long as the results keep room for a word."""
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
    """Paints a cell with the padding that its heading has, so that both stand on one edge."""

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
    """Says what will stand in it."""

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
    view.setAccessibleName("Trials")
    view.setToolTip("The trials in the order in which they were made")
    view.setProperty("kind", "tight")
    view.setShowGrid(False)
    for corner in view.findChildren(QAbstractButton):
        corner.setAccessibleName("All trials")
        corner.setToolTip("All trials")
    view.setItemDelegate(_CellDelegate(view))
    view.setSelectionMode(QTableView.SelectionMode.NoSelection)
    view.setFocusPolicy(Qt.FocusPolicy.TabFocus)
    # else Tab would walk from cell to cell and never come out
    view.setTabKeyNavigation(False)
    view.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    view.verticalHeader().hide()
    view.verticalHeader().setDefaultSectionSize(_ROW_HEIGHT)
    header = view.horizontalHeader()
    header.setHighlightSections(False)
    header.setMinimumSectionSize(44)
    for column, width in _WIDTHS.items():
        header.setSectionResizeMode(column, QHeaderView.ResizeMode.Fixed)
        header.resizeSection(column, width)
    header.setSectionResizeMode(PRECISION, QHeaderView.ResizeMode.Fixed)
    header.setSectionResizeMode(RESULT, QHeaderView.ResizeMode.Stretch)
    view.setMinimumHeight(2 * _ROW_HEIGHT)
    return view
