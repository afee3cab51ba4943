"""The table view of all saved results: columns, keys, highlighted rows, and the drag image."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QItemSelectionModel, QModelIndex, QRect, QSignalBlocker, Qt
from PySide6.QtGui import QColor, QDrag, QFontMetrics, QKeyEvent, QPainter, QPaintEvent, QPixmap, QResizeEvent
from PySide6.QtWidgets import QAbstractButton, QAbstractItemView, QApplication, QHeaderView, QTableView

from engine.store.record import RunRecord
from gui.runs.table.columns import FIXED, USUAL, Column
from gui.runs.table.delegate import ROW_HEIGHT, RunsDelegate, RunsHeader
from gui.runs.table.line import RunRow
from gui.runs.table.rows import Heading, Item
from gui.theme.fonts import font
from gui.theme.theme import theme
from gui.widgets.labels import describe
from gui.widgets.table.model import selected_places, selection_of

if TYPE_CHECKING:
    from gui.runs.panel import RunsPanel

_HEIGHT, _DRAG_PAD, _WIDEST = 28, 12, 240
_WIDEST_COLUMN = 800
_OF_ITEMS = frozenset({Column.TICK, Column.NAME, Column.WHEN, Column.MODEL, Column.RATIO})
"""The columns that have a value for a whole comparison or study."""
_INSET, _SCROLLED_NAME = 12, 140
"""The room left of a name without a box to tick; the width of the name in a table that scrolls anyway."""
_WIDTHS = {
    Column.TICK: 40,
    Column.NAME: 220,
    Column.TAGS: 120,
    Column.WHEN: 58,
    Column.SPEED: 68,
    Column.PEAK: 72,
    Column.ACCURACY: 58,
    Column.RATIO: 66,
    Column.PRECISION: 118,
    Column.STATUS: 128,
}
_OTHER = 104
"""Of a column that is shown only on request."""
_DISPENSABLE = (Column.TAGS, Column.ACCURACY, Column.PEAK, Column.SPEED, Column.WHEN, Column.TICK)
"""A narrow table does without these, in this order, before a name is cut."""
_NONE: Mapping[Column, Any] = MappingProxyType({})
_SELECT = QItemSelectionModel.SelectionFlag


def fitting(
    room: int, has_tags: bool, chosen: Mapping[Column, bool] = _NONE, own: Mapping[Column, int] = _NONE
) -> tuple[dict[Column, int], set[Column]]:
    """Return the widths of the columns in `room` pixels, and the columns to hide.

    Columns that the user has `chosen` to show or hide, and the user's `own` widths, are never changed.
    """
    usual = set(USUAL) if has_tags else set(USUAL) - {Column.TAGS}
    shown = [column for column in Column if chosen.get(column, column in usual)]
    widths = {column: own.get(column, _WIDTHS.get(column, _OTHER)) for column in shown}
    for column in _DISPENSABLE:
        if sum(widths.values()) > room and column not in chosen:
            widths.pop(column, None)
    return widths, set(Column).difference(widths)


def drag_pixmap(runs: Sequence[RunRecord]) -> QPixmap:
    """Return the drag image of runs: the name of one, or the number of several."""
    face, palette = font(12, 600), theme().palette
    metrics = QFontMetrics(face)
    whole = runs[0].title if len(runs) == 1 else f"{len(runs):,} runs"
    words = metrics.elidedText(whole, Qt.TextElideMode.ElideRight, _WIDEST)
    place = QRect(0, 0, metrics.horizontalAdvance(words) + 2 * _DRAG_PAD, _HEIGHT)
    screen = QApplication.primaryScreen()
    ratio = screen.devicePixelRatio() if screen else 1.0
    picture = QPixmap(place.size() * ratio)
    picture.setDevicePixelRatio(ratio)
    picture.fill(Qt.GlobalColor.transparent)
    painter = QPainter(picture)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(QColor(palette.line2))
    painter.setBrush(QColor(palette.bg2))
    painter.drawRoundedRect(place.toRectF().adjusted(0.5, 0.5, -0.5, -0.5), 6, 6)
    painter.setFont(face)
    painter.setPen(QColor(palette.text))
    painter.drawText(place, Qt.AlignmentFlag.AlignCenter, words)
    painter.end()
    return picture


class RunsTable(QTableView):
    """The table of saved results. Its panel carries out the actions.

    Space selects the highlighted rows, P pins them, Enter shows their curves, F2 renames and Delete deletes.
    Left and Right fold and unfold a comparison.
    """

    def __init__(self, panel: RunsPanel) -> None:
        super().__init__()
        self.panel, self._runs = panel, panel.model
        self.marked: frozenset[str] = frozenset()
        self.span = (0, 0)
        self._chosen: dict[Column, bool] = {}
        self._own_widths: dict[Column, int] = {}
        self._kept: tuple[str, ...] = ()
        self.setModel(self._runs)
        self.setAccessibleName("Results")
        self.setToolTip(
            "All saved results. Click one to open it. Select runs to compare them. Right-click for more. Drag"
            " runs to the right to add them to the comparison."
        )
        self.setItemDelegate(RunsDelegate(self._runs, self))
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setTabKeyNavigation(False)
        self.setDragEnabled(True)
        self.setDragDropMode(QAbstractItemView.DragDropMode.DragOnly)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self._set_up_headers()
        self.doubleClicked.connect(self._double_clicked)
        self.selectionModel().currentChanged.connect(lambda index, _before: self._move_to(index))
        self.clicked.connect(self._move_to)
        self._runs.modelAboutToBeReset.connect(self._keep_highlights)
        self._runs.modelReset.connect(self._bring_highlights_back)
        self._runs.reordering.connect(self._take_highlights_off)
        self._runs.reordered.connect(self._put_highlights_on)
        self._runs.tags_changed.connect(self._fit_columns)

    def _set_up_headers(self) -> None:
        rows, columns = self.verticalHeader(), RunsHeader(self._runs, self)
        rows.hide()
        describe(rows, "Rows of the runs", "Rows of the runs")
        rows.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        rows.setDefaultSectionSize(ROW_HEIGHT)
        self.setHorizontalHeader(columns)
        self.setSortingEnabled(True)
        columns.setFixedHeight(ROW_HEIGHT)
        columns.setSectionResizeMode(Column.NAME, QHeaderView.ResizeMode.Stretch)
        columns.setSectionResizeMode(Column.TICK, QHeaderView.ResizeMode.Fixed)
        columns.width_chosen.connect(lambda place, width: self._own_widths.update({Column(place): width}))
        self.setCornerButtonEnabled(False)
        for corner in self.findChildren(QAbstractButton):
            describe(corner, "All runs", "All runs")
        self.sortByColumn(Column.WHEN, Qt.SortOrder.DescendingOrder)
        self._fit_columns()

    def _highlighted_rows(self) -> list[int]:
        return selected_places(self.selectionModel())

    def highlighted(self) -> tuple[RunRecord, ...]:
        """Return the runs of the highlighted rows, top to bottom."""
        runs = {run.id: run for row in self._highlighted_rows() for run in self._runs.runs_at(row)}
        return tuple(runs.values())

    def highlighted_items(self) -> tuple[Item, ...]:
        """Return the items of the highlighted rows, top to bottom."""
        rows = (self._runs.shown[row] for row in self._highlighted_rows())
        return tuple(row for row in rows if isinstance(row, Item))

    def mark(self, keys: Iterable[str]) -> None:
        """Mark the rows of what is opened, by their keys, with a bar at their left."""
        self.marked = frozenset(keys)
        self.viewport().update()

    def rename(self, key: str) -> None:
        """Edit the name of a run, by its id, or of a comparison, by its key, in its cell."""
        if (row := self._runs.row_of(key)) is not None:
            self.edit(self._runs.index(row, Column.NAME))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key, chosen = event.key(), self.highlighted()
        if self.state() == QTableView.State.EditingState:
            # the Return that ends a renaming must not open the run
            super().keyPressEvent(event)
        elif key == Qt.Key.Key_Space and chosen:
            self._runs.toggle(self._highlighted_rows())
        elif key in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace) and (chosen or self.highlighted_items()):
            self.panel.delete_highlighted()
        elif key == Qt.Key.Key_F2 and chosen:
            self.rename(self._runs.shown[self.currentIndex().row()].key)
        elif key == Qt.Key.Key_P and not event.modifiers() and chosen:
            self.panel.pin(chosen[0], chosen)
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and chosen:
            self.panel.open_requested.emit(chosen[0].id)
        elif key in (Qt.Key.Key_Left, Qt.Key.Key_Right) and self._fold_by_key(key == Qt.Key.Key_Left):
            event.accept()
        else:
            super().keyPressEvent(event)

    def _fold_by_key(self, is_folded: bool) -> bool:
        index = self.currentIndex()
        shown = self._runs.shown[index.row()] if index.isValid() else None
        if isinstance(shown, RunRow) and is_folded and self._runs.is_below(index.row()):
            shown = self._runs.owner(shown.key)
            if shown is not None and (row := self._runs.row_of(shown.key)) is not None:
                self.setCurrentIndex(self._runs.index(row, Column.NAME))
        if not isinstance(shown, Item) or not shown.lines:
            return False
        self._runs.fold(shown, is_folded)
        return True

    def startDrag(self, supportedActions: Qt.DropAction) -> None:  # noqa: N803 - Qt's name
        drag = QDrag(self)
        drag.setMimeData(self._runs.mimeData([self._runs.index(row, 0) for row in self._highlighted_rows()]))
        drag.setPixmap(drag_pixmap(self.highlighted()))
        drag.exec(supportedActions, Qt.DropAction.CopyAction)

    def paintEvent(self, event: QPaintEvent) -> None:
        # once for all cells
        self.span = self.figures_span()
        super().paintEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_columns()

    def _keep_highlights(self) -> None:
        self._kept = tuple(self._runs.shown[row].key for row in self._highlighted_rows())

    def _bring_highlights_back(self) -> None:
        places = {shown.key: row for row, shown in enumerate(self._runs.shown)}
        found = sorted(places[key] for key in self._kept if key in places)
        if not found:
            return
        if not self.currentIndex().isValid():
            current = self._runs.index(found[0], Column.NAME)
            self.selectionModel().setCurrentIndex(current, _SELECT.NoUpdate)
        self.selectionModel().select(selection_of(self._runs, found), _SELECT.Select)

    def _take_highlights_off(self) -> None:
        # Qt would move each cell of the selection by itself, which takes seconds for thousands of rows
        self._keep_highlights()
        with QSignalBlocker(self.selectionModel()):
            self.selectionModel().clearSelection()

    def _put_highlights_on(self) -> None:
        with QSignalBlocker(self.selectionModel()):
            self._bring_highlights_back()

    def _double_clicked(self, index: QModelIndex) -> None:
        runs = self._runs.runs_at(index.row())
        if index.column() != Column.TICK and runs:
            self.panel.open_requested.emit(runs[0].id)

    def _move_to(self, index: QModelIndex) -> None:
        if not index.isValid() or self._runs.is_rearranging:
            return
        if not isinstance(row := self._runs.shown[index.row()], Heading):
            self.panel.opened.emit(row)

    def name_inset(self) -> int:
        """Return the margin left of a name if the check boxes are hidden, or 0."""
        return _INSET if self.isColumnHidden(Column.TICK) else 0

    def figures_span(self) -> tuple[int, int]:
        """Return the left edge and width of the widest block of columns with metrics of runs."""
        best, left, width = (0, 0), 0, 0
        for column in self._in_sight():
            if column in _OF_ITEMS:
                width = 0
                continue
            left = left if width else self.columnViewportPosition(column)
            width += self.columnWidth(column)
            best = max(best, (left, width), key=lambda span: span[1])
        return best

    def _in_order(self) -> list[Column]:
        header = self.horizontalHeader()
        return [Column(header.logicalIndex(place)) for place in range(len(Column))]

    def _in_sight(self) -> list[Column]:
        return [column for column in self._in_order() if not self.isColumnHidden(column)]

    def is_shown(self, column: Column) -> bool:
        """Return True if the column is shown where there is room."""
        return self._chosen.get(column, column in USUAL)

    def choose(self, column: Column, is_shown: bool) -> None:
        """Show or hide a column, regardless of the room."""
        header = self.horizontalHeader()
        if is_shown and column not in USUAL and column not in self._chosen:
            # the ratio stays at the end
            header.moveSection(header.visualIndex(column), header.visualIndex(Column.RATIO))
        self._chosen[column] = is_shown
        self._fit_columns()

    def columns(self) -> dict[str, Any]:
        """Return the user's columns, their order and widths, by column name, as plain JSON values."""
        order = self._in_order()
        return {
            "chosen": {column.name: is_shown for column, is_shown in self._chosen.items()},
            "order": [column.name for column in order] if order != list(Column) else [],
            "widths": {column.name: width for column, width in self._own_widths.items()},
        }

    def set_columns(self, columns: Mapping[str, Any]) -> None:
        """Restore columns that `columns` returned. Unknown columns are ignored.

        Raises KeyError, TypeError, ValueError or AttributeError for anything else.
        """
        named = Column.__members__
        chosen = {
            named[name]: bool(is_shown) for name, is_shown in columns["chosen"].items() if name in named
        }
        widths = {named[name]: int(width) for name, width in columns["widths"].items() if name in named}
        order = [named[name] for name in columns["order"] if name in named]
        self._chosen = {column: is_shown for column, is_shown in chosen.items() if column not in FIXED}
        self._own_widths = {column: width for column, width in widths.items() if 0 < width <= _WIDEST_COLUMN}
        header = self.horizontalHeader()
        with QSignalBlocker(header):
            for place, column in enumerate(dict.fromkeys((Column.TICK, *order, *Column))):
                header.moveSection(header.visualIndex(column), place)
        self._fit_columns()
        self.viewport().update()
        header.viewport().update()

    def reset_columns(self) -> None:
        """Restore the default columns, order and widths."""
        self.set_columns({"chosen": {}, "order": [], "widths": {}})

    def _fit_columns(self) -> None:
        room = self.viewport().width()
        widths, hidden = fitting(room, bool(self._runs.tags), self._chosen, self._own_widths)
        header = self.horizontalHeader()
        # chosen columns may need more room than there is: then the table scrolls
        fits = sum(widths.values()) <= room
        mode = QHeaderView.ResizeMode.Stretch if fits else QHeaderView.ResizeMode.Fixed
        if header.sectionResizeMode(Column.NAME) != mode:
            header.setSectionResizeMode(Column.NAME, mode)
        if not fits:
            widths[Column.NAME] = max(widths[Column.NAME], _SCROLLED_NAME)
        for column, width in widths.items():
            if (column is not Column.NAME or not fits) and self.columnWidth(column) != width:
                self.setColumnWidth(column, width)
        for column in Column:
            if self.isColumnHidden(column) != (column in hidden):
                self.setColumnHidden(column, column in hidden)
