"""The tree view of all saved results: keys, folding, columns, and the drag of runs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from PySide6.QtCore import (
    QModelIndex,
    QRect,
    QRectF,
    QSignalBlocker,
    Qt,
    Signal,
)
from PySide6.QtGui import (
    QColor,
    QDrag,
    QKeyEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QStyleOptionViewItem,
    QTreeView,
)

from engine.store.record import RunRecord
from gui.runs.table.cells import RunsDelegate, RunsHeader, paint_sign
from gui.runs.table.columns import COLUMNS, FIXED, NAME, PLACES, RATIO, TAGS, TICK, USUAL, WHEN
from gui.runs.table.model import RunsModel
from gui.runs.table.rows import Heading, Item, RunRow
from gui.theme.theme import theme
from gui.widgets.table import Look
from gui.widgets.table.columns import fitted_widths
from gui.widgets.table.model import Index
from gui.widgets.table.painting import paint_words

ROW_HEIGHT = 28
_INDENT, _INSET = 20, 12
"""The indentation of names, and more of it without boxes to tick."""
_WIDEST_COLUMN = 800
_OF_ITEMS = frozenset({TICK, NAME, WHEN, PLACES["MODEL"], RATIO})
"""The columns that have a value for a whole comparison or study."""


class RunsTable(QTreeView):
    """The list of saved results, with the keys of a tree.

    Space selects the highlighted rows, P pins them, Enter shows their curves, F2 renames and Delete deletes.
    `opened` carries the Item or RunRow that was clicked or moved to, `open_wanted` the id of a run whose
    curves are wanted, `pin_wanted` RunRecords, `note_wanted` and `end_wanted` one that is to be stopped or
    taken out of the queue.
    """

    opened = Signal(object)
    open_wanted = Signal(str)
    delete_wanted = Signal()
    pin_wanted = Signal(object)
    note_wanted = Signal(object)
    end_wanted = Signal(object)

    def __init__(self, runs: RunsModel) -> None:
        super().__init__()
        self._runs = runs
        self.marked: frozenset[str] = frozenset()
        self._chosen: dict[int, bool] = {}
        self._own_widths: dict[Hashable, int] = {}
        self._folded: dict[str, bool] = {}
        self._is_fitting = False
        self.setModel(runs)
        self.setAccessibleName("Results")
        self.setToolTip(
            "All saved results. Click one to open it. Select runs to compare them. Right-click for more. Drag"
            " runs to the right to add them to the comparison."
        )
        self._cells = RunsDelegate(runs, self)
        self._cells.note_wanted.connect(self.note_wanted)
        self._cells.end_wanted.connect(self.end_wanted)
        self.setItemDelegate(self._cells)
        self.setUniformRowHeights(True)
        self.setTreePosition(NAME)
        self.setExpandsOnDoubleClick(False)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setDragDropMode(QAbstractItemView.DragDropMode.DragOnly)
        columns = RunsHeader(runs, self)
        self.setHeader(columns)
        columns.setFixedHeight(ROW_HEIGHT)
        columns.moveSection(TICK, 0)
        columns.setSectionResizeMode(TICK, QHeaderView.ResizeMode.Fixed)
        columns.sectionResized.connect(self._keep_width)
        self.setSortingEnabled(True)
        self.sortByColumn(WHEN, Qt.SortOrder.DescendingOrder)
        self.activated.connect(self._activate)
        self.selectionModel().currentChanged.connect(lambda index, _before: self._move_to(index))
        self.clicked.connect(self._move_to)
        self.expanded.connect(lambda index: self._keep_fold(index, False))
        self.collapsed.connect(lambda index: self._keep_fold(index, True))
        runs.layoutChanged.connect(lambda *_: self._unfold())
        runs.tags_changed.connect(self._fit_columns)
        self._fit_columns()

    def highlighted_rows(self) -> list[Item | RunRow]:
        """Return the highlighted rows, top to bottom."""
        runs, rows = self._runs, []
        for part in self.selectionModel().selection().toList():
            places = range(part.top(), part.bottom() + 1)
            rows += [runs.row_at(runs.index(place, NAME, part.parent())) for place in places]
        found = {row.key: row for row in rows if not isinstance(row, Heading)}
        return [found[key] for key in sorted(found, key=runs.position)]

    def highlighted(self) -> tuple[RunRecord, ...]:
        """Return the runs of the highlighted rows, top to bottom."""
        runs = {run.id: run for row in self.highlighted_rows() for run in self._runs.runs_of(row)}
        return tuple(runs.values())

    def mark(self, keys: Iterable[str]) -> None:
        """Mark the rows of the opened result with a bar at their left. `keys` are their keys."""
        self.marked = frozenset(keys)
        self.viewport().update()

    def rename(self, key: str) -> None:
        """Edit the name of a run, by its id, or of a comparison, by its key, in its cell."""
        if (index := self._runs.index_of(key)).isValid():
            self.edit(index)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key, rows = event.key(), self.highlighted_rows()
        if self.state() == QTreeView.State.EditingState or not rows:
            super().keyPressEvent(event)
        elif key == Qt.Key.Key_Space:
            self._runs.toggle(rows)
        elif key in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace):
            self.delete_wanted.emit()
        elif key == Qt.Key.Key_F2:
            self.rename(self._runs.row_at(self.currentIndex()).key)
        elif key == Qt.Key.Key_P and not event.modifiers() and (runs := self.highlighted()):
            self.pin_wanted.emit(runs)
        else:
            super().keyPressEvent(event)

    def startDrag(self, supportedActions: Qt.DropAction) -> None:  # noqa: N803 - Qt's name
        drag = QDrag(self)
        drag.setMimeData(
            self._runs.mimeData([self._runs.index_of(row.key) for row in self.highlighted_rows()])
        )
        drag.setPixmap(self.viewport().grab(self.visualRect(self.currentIndex())))
        drag.exec(supportedActions, Qt.DropAction.CopyAction)

    def paintEvent(self, event: QPaintEvent) -> None:
        # once for all cells
        self._cells.span = self.figures_span()
        super().paintEvent(event)

    def drawRow(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        row, rect, palette = self._runs.row_at(index), QRect(option.rect), theme().palette
        if isinstance(row, Heading):
            paint_words(painter, QRectF(rect).adjusted(16, 0, 0, 0), row.words, Look(ink="text3", size=11))
            return
        is_marked = row.key in self.marked
        is_selected = self.selectionModel().isSelected(index)
        if is_marked or is_selected or self._runs.ticks([row]) is not Qt.CheckState.Unchecked:
            painter.fillRect(rect, QColor(palette.bg2))
        super().drawRow(painter, option, index)
        if is_marked:
            painter.fillRect(0, rect.top(), 2, rect.height(), QColor(palette.pri))

    def drawBranches(self, painter: QPainter, rect: QRect, index: Index) -> None:
        if self._runs.hasChildren(index):
            name = "chevron-down" if self.isExpanded(index) else "chevron-right"
            paint_sign(painter, rect.right() + 1 - _INDENT, rect, name, theme().palette.text2)

    def sizeHintForRow(self, row: int) -> int:
        return ROW_HEIGHT

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_columns()

    def _is_folded(self, item: Item) -> bool:
        return self._folded.get(item.key, item.kind == "sweep" or item.is_failed)

    def _keep_fold(self, index: QModelIndex, is_folded: bool) -> None:
        self._folded[self._runs.row_at(index).key] = is_folded

    def _unfold(self) -> None:
        places = (
            self._runs.index_of(row.key)
            for row in self._runs.rows
            if isinstance(row, Item) and not self._is_folded(row)
        )
        if closed := [index for index in places if not self.isExpanded(index)]:
            with QSignalBlocker(self):
                # else each one would lay out all rows again
                self.scheduleDelayedItemsLayout()
                for index in closed:
                    self.expand(index)

    def _activate(self, index: QModelIndex) -> None:
        runs = self._runs.runs_of(self._runs.row_at(index))
        if index.column() != TICK and runs:
            self.open_wanted.emit(runs[0].id)

    def _move_to(self, index: QModelIndex) -> None:
        if index.isValid() and not isinstance(row := self._runs.row_at(index), Heading):
            self.opened.emit(row)

    def figures_span(self) -> tuple[int, int]:
        """Return the left edge and width of the widest block of columns with metrics of runs."""
        best, left, width = (0, 0), 0, 0
        for column in self._in_order():
            if self.isColumnHidden(column):
                continue
            if column in _OF_ITEMS:
                width = 0
                continue
            left = left if width else self.columnViewportPosition(column)
            width += self.columnWidth(column)
            best = max(best, (left, width), key=lambda span: span[1])
        return best

    def _in_order(self) -> list[int]:
        return [self.header().logicalIndex(place) for place in range(len(COLUMNS))]

    def is_shown(self, column: int) -> bool:
        """Return True if the column is shown where there is room."""
        return self._chosen.get(column, column in USUAL)

    def choose(self, column: int, is_shown: bool) -> None:
        """Show or hide a column, regardless of the room."""
        header = self.header()
        if is_shown and column not in USUAL and column not in self._chosen:
            # the ratio stays at the end
            header.moveSection(header.visualIndex(column), header.visualIndex(RATIO))
        self._chosen[column] = is_shown
        self._fit_columns()

    def columns(self) -> dict[str, Any]:
        """Return the user's columns, their order and widths, by column name, as plain JSON values."""
        order = self._in_order()
        return {
            "chosen": {COLUMNS[column].name: is_shown for column, is_shown in self._chosen.items()},
            "order": [COLUMNS[column].name for column in order] if order != _DEFAULT_ORDER else [],
            "widths": dict(self._own_widths),
        }

    def set_columns(self, columns: Mapping[str, Any]) -> None:
        """Restore columns that `columns` returned. Unknown columns are ignored.

        Raises KeyError, TypeError, ValueError or AttributeError for anything else.
        """
        chosen = {PLACES[name]: bool(shown) for name, shown in columns["chosen"].items() if name in PLACES}
        widths = {name: int(width) for name, width in columns["widths"].items() if name in PLACES}
        order = [PLACES[name] for name in columns["order"] if name in PLACES]
        self._chosen = {column: is_shown for column, is_shown in chosen.items() if column not in FIXED}
        self._own_widths = {name: width for name, width in widths.items() if 0 < width <= _WIDEST_COLUMN}
        header = self.header()
        with QSignalBlocker(header):
            for place, column in enumerate(dict.fromkeys((TICK, *order, *_DEFAULT_ORDER))):
                header.moveSection(header.visualIndex(column), place)
        self._fit_columns()
        self.viewport().update()
        header.viewport().update()

    def reset_columns(self) -> None:
        """Restore the default columns, order and widths."""
        self.set_columns({"chosen": {}, "order": [], "widths": {}})

    def _fit_columns(self) -> None:
        usual = [column for column in USUAL if column != TAGS or self._runs.tags]
        shown = [column for column in range(len(COLUMNS)) if self._chosen.get(column, column in usual)]
        columns = [
            replace(
                COLUMNS[column], is_dispensable=COLUMNS[column].is_dispensable and column not in self._chosen
            )
            for column in shown
        ]
        fitted = fitted_widths(columns, {}, self._own_widths, self.viewport().width())
        widths = {shown[place]: width for place, width in fitted.items()}
        self._is_fitting = True
        for column in range(len(COLUMNS)):
            self.setColumnHidden(column, column not in widths)
            if column in widths and self.columnWidth(column) != widths[column]:
                self.setColumnWidth(column, widths[column])
        self._is_fitting = False
        self._cells.indent = _INDENT + (0 if TICK in widths else _INSET)
        self.setIndentation(self._cells.indent)

    def _keep_width(self, column: int, _old: int, width: int) -> None:
        if not self._is_fitting and width:
            self._own_widths[COLUMNS[column].name] = width
            self._fit_columns()


_DEFAULT_ORDER = [TICK, NAME, *range(TAGS, len(COLUMNS))]
