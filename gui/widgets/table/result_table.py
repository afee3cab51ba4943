"""The table of results, with the same sorting, filtering, copying and tooltips everywhere."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Any, ClassVar, Generic

from PySide6.QtCore import QItemSelectionModel, QRectF, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QPainter,
    QPaintEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import QAbstractButton, QHeaderView, QMenu, QTableView, QWidget

from engine.experiment.value import cell_text, one_line
from engine.words.numbers import counted
from gui.theme.theme import theme
from gui.widgets.boxes import Part, Stretch, in_column, in_row, scrolled_in, wide
from gui.widgets.buttons import FilterEdit
from gui.widgets.labels import describe, label, set_text
from gui.widgets.table.columns import Column, Row, fitted_widths
from gui.widgets.table.model import Index, RowModel, selected_places, selection_of
from gui.widgets.table.painting import PADDING, CellPainter, TableHeader, cell_font, cell_width

ROW_HEIGHT = 28
_MEASURED = 60
"""The number of rows whose texts are measured for widths."""
_FLAGS = QItemSelectionModel.SelectionFlag


class ResultTable(QTableView, Generic[Row]):
    """A table of rows. A click on a heading sorts, a third click restores the order. Ctrl+C copies rows.

    `selected` carries the selected rows. `empty` is the text shown without rows. Rows that are `shaded` stand
    out. A `whole` table is as high as its rows, so that the page scrolls instead of the table. The other
    arguments are those of `RowModel`.
    """

    selected = Signal(object)  # tuple[Row, ...]
    model_class: ClassVar[type[RowModel[Any]]] = RowModel

    def __init__(
        self,
        name: str,
        columns: Sequence[Column[Row]] = (),
        *,
        key: Callable[[Row], Hashable] = id,
        about: Callable[[Row], str] | None = None,
        found_by: Callable[[Row], str] | None = None,
        pinned: Callable[[Row], bool] | None = None,
        shaded: Callable[[Row], bool] | None = None,
        empty: str = "",
        selects_one: bool = False,
        whole: bool = False,
        sorts: bool = True,
        row_height: int = ROW_HEIGHT,
        heading_height: int = 0,
    ) -> None:
        super().__init__()
        self._columns, self._whole, self._heading_height = tuple(columns), whole, heading_height
        self._empty, self._is_fitting = empty, False
        self._wanted: dict[int, int] = {}
        self._own_widths: dict[Hashable, int] = {}
        self.row_model: RowModel[Row] = self.model_class(key, about, found_by, pinned)
        self.setModel(self.row_model)
        self._header = TableHeader(self, self.row_model)
        self.setHorizontalHeader(self._header)
        self.setItemDelegate(CellPainter(self, self.row_model, shaded))
        self._row_height = row_height
        self._set_up(name, selects_one=selects_one, sorts=sorts)
        self._header.sectionResized.connect(self._keep_width)
        self.selectionModel().selectionChanged.connect(lambda: self.selected.emit(self.selected_rows()))
        theme().changed.connect(self.viewport().update)
        self.show_rows(())

    def show_rows(self, rows: Sequence[Row], columns: Sequence[Column[Row]] | None = None) -> None:
        """Show these rows, sorted, filtered and selected as before. `columns` replace the present ones."""
        if columns is not None:
            self._columns = tuple(columns)
        kept = [self.row_model.key(row) for row in self.selected_rows()]
        current = self.currentIndex().column()
        self.row_model.show(rows, self._columns)
        self._after_rows(kept, current)

    def set_filter(self, text: str, keeps: Callable[[Row], bool] | None = None) -> None:
        """Show the rows that have every word of the text, and for which `keeps` returns True."""
        kept = [self.row_model.key(row) for row in self.selected_rows()]
        self.row_model.set_filter(text, keeps)
        self._after_rows(kept, self.currentIndex().column())

    def set_empty(self, words: str) -> None:
        """Set the text that is shown if there are no rows."""
        self._empty = words
        self.setAccessibleDescription("" if self.row_model.rows else words)
        self.viewport().update()

    def rows(self) -> Sequence[Row]:
        """Return the rows that are shown, from top to bottom."""
        return self.row_model.rows

    def columns(self) -> Sequence[Column[Row]]:
        """Return the columns, shown or not."""
        return self.row_model.columns

    def lines(self) -> list[list[str]]:
        """Return the table as text, its headings first."""
        return [self.row_model.titles(), *map(self.row_model.line, self.row_model.rows)]

    def cell_room(self, row: int, column: int) -> QRectF:
        """Where a cell's contents are painted."""
        left = PADDING + self._columns[column].gap
        return QRectF(self.visualRect(self.row_model.index(row, column))).adjusted(left, 0, -PADDING, 0)

    def selected_rows(self) -> tuple[Row, ...]:
        """Return the rows that are selected, from top to bottom."""
        if self.selectionModel() is None:
            return ()
        return tuple(self.row_model.rows[place] for place in selected_places(self.selectionModel()))

    def select_keys(self, keys: Iterable[Hashable], column: int = 0) -> None:
        """Select the rows of these keys, without `selected`."""
        wanted, model = set(keys), self.row_model
        places = [place for place, row in enumerate(model.rows) if model.key(row) in wanted]
        chooser = self.selectionModel()
        chooser.blockSignals(True)
        if places:
            chooser.setCurrentIndex(model.index(places[0], max(column, 0)), _FLAGS.NoUpdate)
        chooser.select(selection_of(model, places), _FLAGS.ClearAndSelect)
        chooser.blockSignals(False)
        self.viewport().update()

    def copy_rows(self) -> None:
        """Put the selected rows, or else all, on the clipboard for a spreadsheet, below their headings."""
        chosen = self.selected_rows() or self.row_model.rows
        copy_lines([self.row_model.titles(), *map(self.row_model.line, chosen)])

    def menu_at(self, index: Index) -> QMenu:
        """Return the context menu of a cell."""
        menu = QMenu(self)
        menu.setAccessibleName("Table")
        count = len(self.selected_rows())
        menu.addAction("Copy row with headings" if count == 1 else "Copy rows with headings", self.copy_rows)
        menu.addAction("Copy whole table", lambda: copy_lines(self.lines()))
        if text := index.data():
            menu.addAction("Copy cell", lambda: copy_lines([[text]]))
        return menu

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy_rows()
            return
        super().keyPressEvent(event)

    def currentChanged(self, current: Index, previous: Index) -> None:
        super().currentChanged(current, previous)
        page = scrolled_in(self) if self._whole and self.hasFocus() else None
        if page is not None and (inner := page.widget()) is not None:
            middle = self.viewport().mapTo(inner, self.visualRect(current).center())
            page.ensureVisible(middle.x(), middle.y(), 0, self._row_height)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        is_by_key = event.reason() is QContextMenuEvent.Reason.Keyboard
        index = self.currentIndex() if is_by_key else self.indexAt(event.pos())
        if not index.isValid():
            return
        menu = self.menu_at(index)
        menu.aboutToHide.connect(menu.deleteLater)
        place = self.visualRect(index).center() if is_by_key else event.pos()
        menu.popup(self.viewport().mapToGlobal(place))

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self._empty and not self.row_model.rows:
            painter = QPainter(self.viewport())
            painter.setFont(cell_font(400))
            painter.setPen(QColor(theme().palette.text3))
            flags = Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap
            painter.drawText(self.viewport().rect().adjusted(PADDING, 0, -PADDING, 0), flags, self._empty)
            painter.end()

    def _set_up(self, name: str, *, selects_one: bool, sorts: bool) -> None:
        self.setAccessibleName(name)
        self.setShowGrid(False)
        self.setWordWrap(False)
        # else Tab would go from cell to cell and never leave the table
        self.setTabKeyNavigation(False)
        self.setProperty("kind", "tight")
        self.setSelectionBehavior(QTableView.SelectionBehavior.SelectRows)
        if selects_one:
            self.setSelectionMode(QTableView.SelectionMode.SingleSelection)
        self.setHorizontalScrollMode(QTableView.ScrollMode.ScrollPerPixel)
        rows = self.verticalHeader()
        rows.hide()
        rows.setDefaultSectionSize(self._row_height)
        rows.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.setSortingEnabled(sorts)
        self._header.setSectionsClickable(sorts)
        if self._whole:
            self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        for corner in self.findChildren(QAbstractButton):
            describe(corner, "Select all rows", "Select all rows")

    def _after_rows(self, kept: Collection[Hashable], current: int) -> None:
        self.select_keys(kept, current)
        self._header.fit_height(self._heading_height)
        self._header.show_order(self.row_model.sorted_column())
        self._wanted = {
            place: self._measured(column)
            for place, column in enumerate(self._columns)
            if column.widest > column.width
        }
        self._fit()
        self.set_empty(self._empty)

    def _measured(self, column: Column[Row]) -> int:
        rows = self.row_model.rows
        titled = self.fontMetrics().horizontalAdvance(column.title) + 4 * PADDING
        measured = rows[:: max(1, len(rows) // _MEASURED)]
        return min(column.widest, max(titled, *(cell_width(column, row) for row in measured), 0))

    def _fit(self) -> None:
        self._is_fitting = True
        widths = fitted_widths(self._columns, self._wanted, self._own_widths, self.viewport().width())
        for place in range(len(self._columns)):
            self.setColumnHidden(place, place not in widths)
            if place in widths and self.columnWidth(place) != widths[place]:
                self.setColumnWidth(place, widths[place])
        self._is_fitting = False
        if self._whole:
            is_scrolled = sum(widths.values()) > self.viewport().width()
            beneath = self.horizontalScrollBar().sizeHint().height() if is_scrolled else 0
            self.setFixedHeight(self._header.height() + len(self.rows()) * self._row_height + 2 + beneath)

    def _keep_width(self, place: int, _old: int, width: int) -> None:
        if not self._is_fitting and width and place < len(self._columns):
            # a column without a title holds what is painted at its size
            if self._columns[place].title:
                self._own_widths[self._columns[place].key] = width
            self._fit()


def copy_lines(lines: Sequence[Sequence[Any]]) -> None:
    """Put lines of cells on the clipboard, for a spreadsheet."""
    # in which no text is a formula, or ends its cell
    cells = (
        (cell_text(one_line(cell)) if isinstance(cell, str) else str(cell) for cell in line) for line in lines
    )
    QGuiApplication.clipboard().setText("\n".join(map("\t".join, cells)))


class FilteredTable(QWidget, Generic[Row]):
    """A `ResultTable` below a text field that filters its rows. `noun` names a row, for texts.

    `before` and `after` are widgets to the left and right of the field.
    """

    def __init__(
        self,
        table: ResultTable[Row],
        noun: str,
        tip: str,
        *,
        before: tuple[Part, ...] = (),
        after: tuple[Part, ...] = (),
    ) -> None:
        super().__init__()
        self.table = table
        self._noun, self._none, self._nothing_passes = noun, "", ""
        self._keeps: Callable[[Row], bool] | None = None
        self.filter = FilterEdit(f"Filter {noun}s", tip)
        self._count = label("", "legend")
        self.filter.textChanged.connect(self._filter)
        head = in_row(*before, self.filter, *after, Stretch(1), self._count, spacing=12)
        in_column(head, wide(table), parent=self, margins=(0, 8, 0, 0), spacing=8)

    def keep(self, keeps: Callable[[Row], bool] | None, nothing_passes: str = "") -> None:
        """Show only rows for which `keeps` returns True. `nothing_passes` is shown if there are none."""
        self._keeps, self._nothing_passes = keeps, nothing_passes
        self._filter()

    def show_count(self, none: str, noun: str = "") -> None:
        """Show the number of rows, or `none` if there are none. `noun` names a row from now on."""
        self._none, self._noun = none, noun or self._noun
        shown, count = len(self.table.rows()), len(self.table.row_model.given)
        of_all = counted(count, self._noun)
        set_text(self._count, of_all if shown == count else f"{shown:,} of {of_all}")
        nothing_passes = self._nothing_passes or f"No {self._noun} matches the filter."
        self.table.set_empty(nothing_passes if count else none)

    def count_text(self) -> str:
        """Return the number of all rows and the number of rows that match the filter."""
        return self._count.text()

    def _filter(self) -> None:
        self.table.set_filter(self.filter.text(), self._keeps)
        self.show_count(self._none)
