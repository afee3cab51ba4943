"""The tree view of all saved results: painting, keys, buttons, columns, and the drag of runs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from PySide6.QtCore import (
    QAbstractItemModel,
    QEvent,
    QModelIndex,
    QPoint,
    QPointF,
    QRect,
    QRectF,
    QSignalBlocker,
    Qt,
    Signal,
)
from PySide6.QtGui import (
    QColor,
    QDrag,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QLineEdit,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QToolTip,
    QTreeView,
    QWidget,
)

from engine.experiment.settings import FAST
from engine.store.record import RunRecord, Status
from gui.runs.table.columns import COLUMNS, FIXED, NAME, PLACES, RATIO, TAGS, TICK, USUAL, WHEN
from gui.runs.table.model import RunsModel
from gui.runs.table.rows import KINDS, Heading, Item, Row, RunRow
from gui.theme.icons import draw_icon
from gui.theme.theme import Palette, theme
from gui.widgets import draw_bar, draw_marker
from gui.widgets.table import Look
from gui.widgets.table.columns import fitted_widths
from gui.widgets.table.model import Index
from gui.widgets.table.painting import TableHeader, paint_words, text_width

ROW_HEIGHT = 28
_PAD, _BOX, _ICON, _BUTTON = 8, 16, 14, 24
_BAR_WIDTH, _BAR_HEIGHT = 72, 4
_INDENT, _INSET, _BELOW, _ICON_GAP, _LEAST_ABOUT = 20, 12, 2, 8, 40
"""The indentation of names, more without boxes to tick, that of runs below an item, and gaps."""
_WIDEST_COLUMN = 800
_OF_ITEMS = frozenset({TICK, NAME, WHEN, PLACES["MODEL"], RATIO})
"""The columns that have a value for a whole comparison or study."""
_BUTTONS = {
    Status.RUNNING: ("stop", "Stop this run and keep its results so far."),
    Status.QUEUED: ("cross", "Remove this run from the queue."),
}
_FAILED = (Status.FAILED, Status.INTERRUPTED)


def _paint_tick(painter: QPainter, cell: QRect, state: Qt.CheckState, able: bool, palette: Palette) -> None:
    box = QRect(cell.left() + 16, cell.center().y() - _BOX // 2 + 1, _BOX, _BOX).toRectF()
    is_ticked = state is not Qt.CheckState.Unchecked
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(QPen(QColor(palette.pri if is_ticked else palette.line2 if able else palette.line), 1))
    painter.setBrush(QColor(palette.pri) if is_ticked else Qt.BrushStyle.NoBrush)
    painter.drawRoundedRect(box.adjusted(0.5, 0.5, -0.5, -0.5), 4, 4)
    if state is Qt.CheckState.Checked:
        draw_icon(painter, box.adjusted(1, 1, -1, -1), "check", palette.prifg)
    elif is_ticked:
        painter.setPen(QPen(QColor(palette.prifg), 1.4))
        painter.drawLine(box.center() - QPointF(3.5, 0), box.center() + QPointF(3.5, 0))


def _paint_sign(painter: QPainter, left: float, rect: QRect | QRectF, name: str, ink: str) -> None:
    draw_icon(painter, QRectF(left, round(rect.center().y()) + 1 - _ICON / 2, _ICON, _ICON), name, ink)


class RunsDelegate(QStyledItemDelegate):
    """Paints the cells of the results table, and handles clicks on check boxes, notes and buttons."""

    def __init__(self, model: RunsModel, view: RunsTable) -> None:
        super().__init__(view)
        self._model, self._view = model, view

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        row, column, rect = self._model.row_at(index), index.column(), QRect(option.rect)
        left, width = self._view.span
        painter.save()
        if column == TICK:
            if self._model.runs_of(row):
                is_able = self._model.can_tick(row)
                _paint_tick(painter, rect, self._model.ticks([row]), is_able, theme().palette)
        elif column == NAME:
            self._paint_name(painter, QRectF(self._name_room(rect, index)), row)
        elif left <= rect.left() < left + width and (result := self._model.result(row)):
            self._paint_result(painter, rect, row, result)
        else:
            self._paint_cell(painter, QRectF(rect).adjusted(_PAD, 0, -_PAD, 0), row, column)
        painter.restore()

    def _name_room(self, rect: QRect, index: Index) -> QRect:
        # a run is hardly further to the right than its comparison
        more = self._view.indentation() - _BELOW if index.parent().isValid() else 0
        return rect.adjusted(-more, 0, 0, 0)

    def _paint_name(self, painter: QPainter, room: QRectF, row: Row) -> None:
        palette = theme().palette
        inner = room.adjusted(_ICON + _ICON_GAP, 0, -_PAD, 0)
        is_failed = (
            row.is_failed if isinstance(row, Item) else isinstance(row, RunRow) and row.run.status in _FAILED
        )
        if isinstance(row, Heading):
            return
        if is_failed:
            _paint_sign(painter, room.left(), room, "cross-outline", palette.text2)
        elif isinstance(row, Item):
            _paint_sign(painter, room.left(), room, KINDS[row.kind][1], palette.text2)
        else:
            is_queued = row.run.status is Status.QUEUED
            middle = QPointF(room.left() + _ICON / 2, round(room.center().y()) + 1)
            draw_marker(painter, middle, row.overview.precision, fill="hollow" if is_queued else "full")
        for name, ink in self._signs(row, palette):
            _paint_sign(painter, inner.right() - _ICON, room, name, ink)
            inner.adjust(0, 0, -_ICON - 4, 0)
        weight = 600 if isinstance(row, Item) and row.lines and not is_failed else 500
        name = row.title if isinstance(row, Item) else row.name
        paint_words(painter, inner, name, Look(weight))
        inner.adjust(min(text_width(name, weight), inner.width()) + _ICON_GAP, 0, 0, 0)
        # without room for the batch size, the model alone
        is_cut = isinstance(row, Item) and text_width(row.about, 400) > inner.width()
        about = row.model if isinstance(row, Item) and is_cut else row.about
        if text_width(about, 400) <= inner.width() or inner.width() >= _LEAST_ABOUT:
            paint_words(painter, inner, about, Look(ink="text3"))
            inner.adjust(text_width(about, 400) + 4, 0, 0, 0)
        if isinstance(row, RunRow) and row.overview.recipe == FAST and inner.width() >= _ICON:
            _paint_sign(painter, inner.left(), room, "bolt", palette.text)

    def _signs(self, row: Item | RunRow, palette: Palette) -> Iterable[tuple[str, str]]:
        # a note, which can be pressed, is the outermost
        if isinstance(row, RunRow) and row.run.note:
            yield "note", palette.text3
        if row.is_pinned:
            yield "pin", palette.text2
        if row.key == self._model.baseline:
            yield "flag", palette.text2

    def _paint_cell(self, painter: QPainter, room: QRectF, row: Row, column: int) -> None:
        shown, model = COLUMNS[column], self._model
        if isinstance(row, RunRow):
            if shown.paint is not None:
                shown.paint(painter, room, row)
                return
            look = shown.look(row)
        else:
            is_ratio = column == RATIO and not (isinstance(row, Item) and row.is_failed)
            look = Look(600) if is_ratio else Look(ink="text2")
            look = Look(400, "text3", "info") if model.is_unreliable(row, column) else look
        if text := model.text(row, column):
            paint_words(painter, room, text, look, is_right=shown.is_number)

    def _paint_result(self, painter: QPainter, rect: QRect, row: Row, result: str) -> None:
        # every cell paints its part of what goes across all of them
        left, width = self._view.span
        across = QRectF(left + _PAD, rect.top(), width - 2 * _PAD, rect.height())
        painter.setClipRect(rect)
        if isinstance(row, RunRow) and row.run.status in _BUTTONS:
            glyph = self._button_rect(rect).toRectF().adjusted(5, 5, -5, -5)
            draw_icon(painter, glyph, _BUTTONS[row.run.status][0], theme().palette.text2)
            across.adjust(0, 0, -_BUTTON, 0)
            if row.run.status is Status.RUNNING and row.key != self._model.paused:
                self._paint_progress(painter, across, row.run)
                return
        if text_width(result, 400) <= across.width():
            paint_words(painter, across, result, Look(ink="text2"), is_right=True)

    def _paint_progress(self, painter: QPainter, inner: QRectF, run: RunRecord) -> None:
        palette, fraction = theme().palette, self._model.progress(run.id) or 0.0
        most = text_width("100%", 600)
        width = max(16, min(_BAR_WIDTH, inner.width() - 12 - most))
        track = QRectF(inner.right() - most - 12 - width, round(inner.center().y()) - 2, width, _BAR_HEIGHT)
        draw_bar(painter, track, fraction, palette.look(run.overview.precision).color, palette.bg3)
        paint_words(painter, inner, f"{fraction:.0%}", Look(600), is_right=True)

    def createEditor(self, parent: QWidget, option: QStyleOptionViewItem, index: Index) -> QWidget:
        editor = QLineEdit(parent)
        editor.setMaxLength(200)
        editor.setAccessibleName("Name")
        editor.setToolTip("Enter keeps the new name, Escape the old one")
        return editor

    def updateEditorGeometry(self, editor: QWidget, option: QStyleOptionViewItem, index: Index) -> None:
        editor.setGeometry(self._name_room(option.rect, index).adjusted(_ICON, 0, 0, 0))

    def editorEvent(
        self, event: QEvent, model: QAbstractItemModel, option: QStyleOptionViewItem, index: Index
    ) -> bool:
        is_click = isinstance(event, QMouseEvent) and event.button() is Qt.MouseButton.LeftButton
        if event.type() is not QEvent.Type.MouseButtonRelease or not is_click:
            return False
        assert isinstance(event, QMouseEvent)
        row, place, rect = self._model.row_at(index), event.position(), QRect(option.rect)
        if index.column() == TICK:
            return self._model.setData(index, None, Qt.ItemDataRole.CheckStateRole)
        if not isinstance(row, RunRow):
            return False
        if index.column() == NAME and row.run.note and place.x() > rect.right() - _PAD - _ICON - 2:
            self._view.note_wanted.emit(row.run)
        elif self._is_on_button(rect, row.run, place.toPoint()):
            self._view.end_wanted.emit(row.run)
        else:
            return False
        return True

    def helpEvent(
        self, event: QHelpEvent, view: QAbstractItemView, option: QStyleOptionViewItem, index: Index
    ) -> bool:
        row = self._model.row_at(index) if index.isValid() else None
        if isinstance(row, RunRow) and self._is_on_button(QRect(option.rect), row.run, event.pos()):
            QToolTip.showText(event.globalPos(), _BUTTONS[row.run.status][1], view)
            return True
        return super().helpEvent(event, view, option, index)

    def _button_rect(self, rect: QRect) -> QRect:
        left, width = self._view.figures_span()
        return QRect(left + width - _BUTTON - 4, rect.center().y() - _BUTTON // 2 + 1, _BUTTON, _BUTTON)

    def _is_on_button(self, rect: QRect, run: RunRecord, place: QPoint) -> bool:
        return run.status in _BUTTONS and self._button_rect(rect).contains(place)


class RunsHeader(TableHeader):
    """The header of the results table, with a box that selects all. Columns can be dragged elsewhere."""

    def __init__(self, runs: RunsModel, parent: QWidget) -> None:
        super().__init__(parent, runs)
        self._runs, self._is_pressed = runs, False
        self.setSortIndicatorClearable(False)
        self.setSectionsMovable(True)
        self.setFirstSectionMovable(False)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.setAccessibleName("Columns of the runs. Click one to sort by it.")
        self.setToolTip("Click a heading to sort by it. Drag it to move the column. Right-click it for more.")
        theme().changed.connect(self.viewport().update)
        runs.checked_changed.connect(lambda _ids: self.viewport().update())

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._is_pressed = self._is_over_box(event)
        # a press on the box ticks, and does not sort
        if not self._is_pressed:
            super().mousePressEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if not self._is_pressed:
            super().mouseReleaseEvent(event)
        elif self._is_over_box(event):
            self._runs.toggle(self._runs.rows)
        self._is_pressed = False

    def _is_over_box(self, event: QMouseEvent) -> bool:
        is_left = event.button() == Qt.MouseButton.LeftButton
        return is_left and self.logicalIndexAt(event.position().toPoint()) == TICK

    def paintSection(self, painter: QPainter, rect: QRect, section: int) -> None:
        super().paintSection(painter, rect, section)
        if section == TICK:
            painter.save()
            _paint_tick(painter, rect, self._runs.ticks(), bool(self._runs.rows), theme().palette)
            painter.restore()


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
        self.span = (0, 0)
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
        self.setItemDelegate(RunsDelegate(runs, self))
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
        self.span = self.figures_span()
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
            _paint_sign(painter, rect.right() + 1 - _INDENT, rect, name, theme().palette.text2)

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
        self.setIndentation(_INDENT + (0 if TICK in widths else _INSET))

    def _keep_width(self, column: int, _old: int, width: int) -> None:
        if not self._is_fitting and width:
            self._own_widths[COLUMNS[column].name] = width
            self._fit_columns()


_DEFAULT_ORDER = [TICK, NAME, *range(TAGS, len(COLUMNS))]
