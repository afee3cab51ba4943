"""The cells and the header of the results table: how they are painted, and what a click on them does."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import (
    QAbstractItemModel,
    QEvent,
    QObject,
    QPoint,
    QPointF,
    QRect,
    QRectF,
    Qt,
    Signal,
)
from PySide6.QtGui import (
    QColor,
    QHelpEvent,
    QMouseEvent,
    QPainter,
    QPen,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QLineEdit,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QToolTip,
    QWidget,
)

from engine.experiment.settings import FAST
from engine.store.record import RunRecord, Status
from gui.runs.table.columns import COLUMNS, NAME, RATIO, TICK
from gui.runs.table.model import RunsModel
from gui.runs.table.rows import KINDS, Heading, Item, Row, RunRow
from gui.theme.icons import draw_icon
from gui.theme.theme import Palette, theme
from gui.widgets import draw_bar, draw_marker
from gui.widgets.table import Look
from gui.widgets.table.model import Index
from gui.widgets.table.painting import TableHeader, paint_words, text_width

_PAD, _BOX, _ICON, _BUTTON = 8, 16, 14, 24
_BAR_WIDTH, _BAR_HEIGHT = 72, 4
_BELOW, _ICON_GAP, _LEAST_ABOUT = 2, 8, 40
"""The indentation of runs below their comparison, the gap after an icon, and the least room for a model."""
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


def paint_sign(painter: QPainter, left: float, rect: QRect | QRectF, name: str, ink: str) -> None:
    """Paint a small icon in the ink `ink`, in the middle of a row's height and from `left` on."""
    draw_icon(painter, QRectF(left, round(rect.center().y()) + 1 - _ICON / 2, _ICON, _ICON), name, ink)


class RunsDelegate(QStyledItemDelegate):
    """Paints the cells of the results table, and handles clicks on check boxes, notes and buttons.

    `span` is the left edge and the width of the columns that a result without metrics may cross, `indent` the
    indentation of a run below its comparison, both in pixels. `note_wanted` and `end_wanted` carry the
    RunRecord whose note or button was clicked.
    """

    note_wanted = Signal(object)
    end_wanted = Signal(object)

    def __init__(self, model: RunsModel, parent: QObject) -> None:
        super().__init__(parent)
        self._model = model
        self.span, self.indent = (0, 0), 0

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        row, column, rect = self._model.row_at(index), index.column(), QRect(option.rect)
        left, width = self.span
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
        more = self.indent - _BELOW if index.parent().isValid() else 0
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
            paint_sign(painter, room.left(), room, "cross-outline", palette.text2)
        elif isinstance(row, Item):
            paint_sign(painter, room.left(), room, KINDS[row.kind][1], palette.text2)
        else:
            is_queued = row.run.status is Status.QUEUED
            middle = QPointF(room.left() + _ICON / 2, round(room.center().y()) + 1)
            draw_marker(painter, middle, row.overview.precision, fill="hollow" if is_queued else "full")
        for name, ink in self._signs(row, palette):
            paint_sign(painter, inner.right() - _ICON, room, name, ink)
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
            paint_sign(painter, inner.left(), room, "bolt", palette.text)

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
        left, width = self.span
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
            self.note_wanted.emit(row.run)
        elif self._is_on_button(rect, row.run, place.toPoint()):
            self.end_wanted.emit(row.run)
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
        left, width = self.span
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
