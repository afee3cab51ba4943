"""The tables of a timing: its kernels, operations or modules, the sides side by side."""

from __future__ import annotations

from functools import lru_cache

from PySide6.QtCore import QPoint, QPointF, QRect, Qt, Signal
from PySide6.QtGui import QColor, QGuiApplication, QKeyEvent, QKeySequence, QPainter, QPixmap, QResizeEvent
from PySide6.QtWidgets import (
    QHeaderView,
    QMenu,
    QStackedLayout,
    QStyleOptionViewItem,
    QTableView,
    QWidget,
)

from engine.protocol.timing.bar import StepPart
from engine.protocol.timing.timing import Timing
from engine.timing.columns import NAME, NO_UNITS, NOUNS
from engine.timing.names import part_title, side_names
from engine.timing.tables import TABLES, Table
from gui.theme.icons import pixmap
from gui.theme.theme import theme
from gui.timing.rows_model import RowsModel
from gui.widgets import Button, EmptyState, Segmented, draw_marker, label, set_text
from gui.widgets.boxes import Stretch, in_column, in_row, wide
from gui.widgets.filter_edit import FilterEdit
from gui.widgets.tables import PADDING, Index, PlainCells, cell_font, cell_text, set_up

_ROW_HEIGHT, _HEADER, _HIGH_HEADER = 28, 28, 46
_ICON, _MARKER, _GAP = 12, 7, 6
_LEAST_NAME = 180
_NOTHING_YET = (
    "Which kernels, operations and modules take a step's time?",
    "A profile records some steps after the warm-up, and adds up what every kernel, operation and module "
    "takes of a step, on Tensor Cores or not, and how close it comes to the device's limits.",
    "Explain the time",
    "Profile some steps of what the form describes",
)
_FILTER_TIP = "Shows only the rows whose name, or the operation that launched them, has this text."
_TABLE_TIP = "Kernels are what the device runs, operations launch them, and modules are made of operations"
_WAITING = "While the device waits it runs nothing."
_STRONG = ("ms", "Ratio")


class _Header(QHeaderView):
    """Has the names of the sides above their columns."""

    def __init__(self, model: RowsModel) -> None:
        super().__init__(Qt.Orientation.Horizontal)
        self._rows = model
        self.setSectionsClickable(True)
        self.setHighlightSections(False)
        self.setSortIndicatorClearable(True)
        self.setMinimumSectionSize(40)

    def paintSection(self, painter: QPainter, rect: QRect, section: int) -> None:
        painter.save()
        super().paintSection(painter, rect, section)
        painter.restore()
        side = self._rows.columns[section].side
        if side is None or len(self._rows.timing.sides) < 2:
            return
        places = [place for place, column in enumerate(self._rows.columns) if column.side == side]
        left = self.sectionViewportPosition(places[0]) + PADDING
        room = sum(map(self.sectionSize, places)) - 2 * PADDING
        palette = theme().palette
        painter.save()
        # the name goes over the columns of its side, of which this paints a part
        painter.setClipRect(rect)
        middle = rect.top() + 13.0
        precision = self._rows.timing.sides[side].experiment.precision
        draw_marker(painter, QPointF(left + _MARKER / 2, middle), precision, _MARKER)
        words = cell_text(side_names(self._rows.timing)[side], 600, room - _MARKER - _GAP)
        painter.setFont(cell_font(600))
        painter.setPen(QColor(palette.text))
        painter.drawStaticText(QPointF(left + _MARKER + _GAP, middle - words.size().height() / 2), words)
        below = rect.top() + 24.5
        painter.setPen(QColor(palette.line))
        painter.drawLine(QPointF(left, below), QPointF(left + room, below))
        painter.restore()


class _Cells(PlainCells):
    """Paints a name, a figure, or whether there are Tensor Cores in it."""

    def __init__(self, table: QTableView, model: RowsModel) -> None:
        super().__init__(table)
        self._rows = model

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        palette, rect = theme().palette, option.rect
        column = self._rows.columns[index.column()]
        text = column.text(self._rows.rows()[index.row()])
        self.paint_ground(painter, option)
        if not text:
            return
        weight = 500 if column.heading in _STRONG else 400
        words = cell_text(text, weight, rect.width() - 2 * PADDING)
        left, top = float(rect.left() + PADDING), rect.center().y() - words.size().height() / 2
        if index.column() != NAME:
            left = rect.right() - PADDING - words.size().width()
        if column.shows_units:
            mark = _mark("cross-outline" if text == NO_UNITS else "check", palette.text2, _ratio_of(painter))
            painter.drawPixmap(QPointF(left - _ICON - 4, rect.center().y() - _ICON / 2 + 0.5), mark)
        painter.setFont(cell_font(weight))
        painter.setPen(QColor(palette.text))
        painter.drawStaticText(QPointF(left, top), words)


@lru_cache(maxsize=8)
def _mark(name: str, color: str, ratio: float) -> QPixmap:
    return pixmap(name, color, _ICON, ratio)


def _ratio_of(painter: QPainter) -> float:
    return painter.device().devicePixelRatio()


class RowsTable(QTableView):
    """Sorted by a click on a heading; a third click brings the longest to the top. Ctrl+C copies rows."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = RowsModel()
        self.setModel(self.rows)
        header = _Header(self.rows)
        self.setHorizontalHeader(header)
        set_up(self, "Rows", "All rows", _ROW_HEIGHT)
        self.setProperty("kind", "tight")
        self.setItemDelegate(_Cells(self, self.rows))
        self.setSelectionBehavior(QTableView.SelectionBehavior.SelectRows)
        self.setHorizontalScrollMode(QTableView.ScrollMode.ScrollPerPixel)
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        header.setSortIndicator(-1, Qt.SortOrder.AscendingOrder)
        self.setSortingEnabled(True)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.customContextMenuRequested.connect(self._open_menu)
        theme().changed.connect(self.viewport().update)

    def show_table(self, timing: Timing, table: Table) -> None:
        """Shows a table of a timing."""
        self.setAccessibleName(table.capitalize())
        self.rows.show_table(timing, table)
        header = self.horizontalHeader()
        header.setFixedHeight(_HIGH_HEADER if len(timing.sides) > 1 else _HEADER)
        # the columns may be others: the mark stays with its own, and is not to sort again
        header.blockSignals(True)
        header.setSortIndicator(self.rows.sorted_column(), header.sortIndicatorOrder())
        header.blockSignals(False)
        self._fit()

    def copy_rows(self) -> None:
        """Puts the selected rows on the clipboard for a spreadsheet, below their headings."""
        lines = [self.rows.titles(), *(self.rows.line(row) for row in self._selected())]
        QGuiApplication.clipboard().setText("\n".join("\t".join(line) for line in lines))

    def copy_names(self) -> None:
        """Puts the names of the selected rows on the clipboard."""
        QGuiApplication.clipboard().setText("\n".join(self.rows.rows()[row].name for row in self._selected()))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy_rows()
            return
        super().keyPressEvent(event)

    def _selected(self) -> list[int]:
        return sorted(index.row() for index in self.selectionModel().selectedRows())

    def _fit(self) -> None:
        """Gives the names what the figures leave; a narrow table leaves out what its tooltips have."""
        columns, rest = self.rows.columns, self.viewport().width()
        is_narrow = rest < _LEAST_NAME + sum(column.width for column in columns)
        for place, column in enumerate(columns):
            is_left_out = is_narrow and column.is_in_tip
            self.setColumnHidden(place, is_left_out)
            if place != NAME and not is_left_out:
                self.setColumnWidth(place, column.width)
                rest -= column.width
        if columns:
            self.setColumnWidth(NAME, max(_LEAST_NAME, rest))

    def _open_menu(self, place: QPoint) -> None:
        if not self.indexAt(place).isValid():
            return
        menu = QMenu(self)
        menu.setAccessibleName("Row")
        menu.addAction("Copy row with headings", self.copy_rows)
        menu.addAction("Copy name", self.copy_names)
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(self.viewport().mapToGlobal(place))


class RowsView(QWidget):
    """The three tables, of which one is shown. `wanted` asks for a profile."""

    wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._timing: Timing | None = None
        self._part: StepPart | None = None
        self.empty = EmptyState(*_NOTHING_YET)
        self.empty.pressed.connect(self.wanted)
        self.choice = Segmented([(table, table.capitalize()) for table in TABLES], "Table", _TABLE_TIP)
        self.filter = FilterEdit("Filter rows", _FILTER_TIP)
        self.part = Button("One part", "toggle", "Show the rows of all parts again", "cross")
        self._count = label("", "legend")
        self.table = RowsTable()
        self._none = label("", "empty")
        self._none.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._none.setWordWrap(True)
        self.choice.changed.connect(self._show)
        self.filter.textChanged.connect(self._filter)
        self.part.clicked.connect(lambda: self.show_part(None))
        self._lay_out()
        self.show_timing(None)

    def show_timing(self, timing: Timing | None) -> None:
        """Shows the tables of a timing; None for what they would answer."""
        self._timing = timing if timing is not None and timing.profiles() else None
        self._pages.setCurrentWidget(self.empty if self._timing is None else self._page)
        self._show()

    def show_part(self, part: StepPart | None) -> None:
        """Keeps the rows that belong to a part of the step; None for all rows."""
        self._part = part
        self._filter()

    def shown_part(self) -> StepPart | None:
        """The part whose rows are kept, if not all are."""
        return self._part

    def open_table(self, table: Table) -> None:
        """Shows one of the tables."""
        self.choice.set_value(table)
        self._show()

    def shown_table(self) -> Table:
        """The table that is shown."""
        return next(table for table in TABLES if table == self.choice.value())

    def _show(self) -> None:
        if self._timing is not None:
            self.table.show_table(self._timing, self.shown_table())
            self._filter()

    def _filter(self) -> None:
        if self._timing is None:
            return
        profile = self._timing.profiles()[0]
        words = part_title(self._part, profile) if self._part is not None else ""
        self.part.setText(words)
        self.part.setAccessibleName(f"Only {words}")
        self.part.setChecked(True)
        self.part.setVisible(self._part is not None)
        rows = self.table.rows
        rows.set_filter(self.filter.text(), self._part)
        shown = len(rows.rows())
        noun = NOUNS[self.shown_table()].lower()
        of_all = f"{rows.count:,} {noun}{'' if rows.count == 1 else 's'}"
        set_text(self._count, of_all if shown == rows.count else f"{shown:,} of {of_all}")
        self._below.setCurrentWidget(self.table if shown else self._none)
        if not rows.count:
            notes = " ".join(dict.fromkeys(note for side in self._timing.profiles() for note in side.notes))
            set_text(self._none, f"The profile has no {noun}s. {notes}".strip())
        elif not shown:
            waits = self._part in (StepPart.HOST, StepPart.DATA)
            set_text(self._none, _WAITING if waits else f"No {noun} passes the filter.")

    def _lay_out(self) -> None:
        self._page = QWidget()
        head = in_row(self.choice, self.filter, self.part, Stretch(1), self._count, spacing=12)
        self._below = QStackedLayout()
        in_column(head, wide(self._below), parent=self._page, margins=(0, 8, 0, 0), spacing=8)
        self._below.addWidget(self.table)
        self._below.addWidget(self._none)
        self._pages = QStackedLayout(self)
        self._pages.addWidget(self.empty)
        self._pages.addWidget(self._page)
