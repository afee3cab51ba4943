"""Painting of the runs table: headings, check boxes, names with icons, metrics, results and tags."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QAbstractItemModel, QEvent, QPoint, QPointF, QRect, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QFontMetrics, QHelpEvent, QMouseEvent, QPainter, QPen
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QLineEdit,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QToolTip,
    QWidget,
)

from engine.experiment.settings import FAST
from engine.store.record import RunRecord, Status
from engine.words.names import recipe_title
from engine.words.numbers import NONE
from gui.runs.table.columns import Column
from gui.runs.table.line import RunRow, status_words
from gui.runs.table.model import RunsModel
from gui.runs.table.rows import KINDS, Heading, Item
from gui.theme.icons import draw_icon
from gui.theme.theme import Palette, theme
from gui.widgets import draw_bar, draw_marker
from gui.widgets.table import Look
from gui.widgets.table.model import Index
from gui.widgets.table.painting import cell_font, paint_words, text_width

if TYPE_CHECKING:
    from gui.runs.table.view import RunsTable

ROW_HEIGHT = 28
_PAD, _BOX, _ICON, _ARROW = 8, 16, 14, 12
_CHIP, _CHIP_INNER, _CHIP_GAP, _LEAST_CHIP = 18, 6, 4, 24
_BAR_WIDTH, _BAR_HEIGHT = 72, 4
_BUTTON = 24
_HEADING_WIDTH, _LEAST_MODEL = 800, 72
_CHEVRON, _ICON_GAP, _BELOW = 20, 8, 32
"""Where the chevron ends, the gap after an icon, and where a run below an item begins."""
_FAST = recipe_title(FAST)
_STATUS_ICONS = {
    Status.QUEUED: "ring",
    Status.FINISHED: "check",
    Status.STOPPED: "stop",
    Status.FAILED: "cross-outline",
    Status.INTERRUPTED: "cross-outline",
}
_BUTTONS = {
    Status.RUNNING: ("stop", "Stop this run and keep its results so far."),
    Status.QUEUED: ("cross", "Remove this run from the queue."),
}


def _draw_tick(painter: QPainter, cell: QRect, state: Qt.CheckState, able: bool, palette: Palette) -> None:
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


def _draw_chips(painter: QPainter, room: QRect, tags: Sequence[str], palette: Palette) -> None:
    face = cell_font(500, 11)
    metrics = QFontMetrics(face)
    painter.setFont(face)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    left = room.left()
    for place, tag in enumerate(tags):
        later = len(tags) - place - 1
        reserved = metrics.horizontalAdvance(f"+{later}") + _CHIP_GAP if later else 0
        free = room.right() + 1 - left - reserved
        if place and free < min(metrics.horizontalAdvance(tag), _LEAST_CHIP) + 2 * _CHIP_INNER:
            painter.setPen(QColor(palette.text3))
            more = room.adjusted(left - room.left(), 0, 0, 0)
            painter.drawText(more, Qt.AlignmentFlag.AlignVCenter, f"+{later + 1}")
            return
        # an advance is rounded, and a tag that just fits would be elided
        width = min(metrics.horizontalAdvance(tag) + 2 * _CHIP_INNER + 2, free)
        chip = QRect(left, room.center().y() - _CHIP // 2 + 1, width, _CHIP)
        painter.setPen(QColor(palette.line2))
        painter.drawRoundedRect(chip.toRectF().adjusted(0.5, 0.5, -0.5, -0.5), 4, 4)
        words = metrics.elidedText(tag, Qt.TextElideMode.ElideRight, width - 2 * _CHIP_INNER)
        painter.setPen(QColor(palette.text2))
        painter.drawText(chip, Qt.AlignmentFlag.AlignCenter, words)
        left += width + _CHIP_GAP


def _draw_sign(painter: QPainter, left: float, rect: QRect, name: str, ink: str, side: int = _ICON) -> None:
    draw_icon(painter, QRectF(left, rect.center().y() + 1 - side / 2, side, side), name, ink)


class RunsDelegate(QStyledItemDelegate):
    """Paints the cells of the results table, and handles clicks on check boxes, fold arrows and buttons."""

    def __init__(self, model: RunsModel, view: RunsTable) -> None:
        super().__init__(view)
        self._model, self._view = model, view

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        palette, row, rect = theme().palette, index.row(), QRect(option.rect)
        shown, model = self._model.shown[row], self._model
        painter.save()
        if isinstance(shown, Heading):
            # every cell paints its part of what goes across all of them
            painter.setClipRect(rect)
            across = QRectF(16, rect.top(), _HEADING_WIDTH, rect.height())
            paint_words(painter, across, shown.words, Look(ink="text3", size=11))
        else:
            is_marked = shown.key in self._view.marked
            is_selected = QStyle.StateFlag.State_Selected in option.state
            if is_selected or is_marked or model.tick(row) is not Qt.CheckState.Unchecked:
                painter.fillRect(rect, QColor(palette.bg2))
            if is_marked and rect.left() <= 0:
                painter.fillRect(0, rect.top(), 2, rect.height(), QColor(palette.pri))
            self._paint_cell(painter, rect, shown, Column(index.column()), row, palette)
        painter.restore()

    def _paint_cell(
        self, painter: QPainter, rect: QRect, shown: Item | RunRow, column: Column, row: int, palette: Palette
    ) -> None:
        model, (left, width) = self._model, self._view.span
        if column is Column.TICK:
            if model.runs_at(row):
                _draw_tick(painter, rect, model.tick(row), model.can_tick(row), palette)
        elif column is Column.NAME:
            rect.setLeft(rect.left() + self._view.name_inset())
            if isinstance(shown, Item):
                self._paint_item(painter, rect, shown, palette)
            else:
                self._paint_run(painter, rect, row, shown, palette)
        elif left <= rect.left() < left + width and (result := model.result(row)):
            self._paint_result(painter, rect, shown, result, palette)
        elif column is Column.TAGS and isinstance(shown, RunRow):
            _draw_chips(painter, rect.adjusted(_PAD, 0, -_PAD, 0), shown.run.tags, palette)
        elif column is Column.STATUS and isinstance(shown, RunRow):
            ink = "text3" if shown.run.status is Status.QUEUED else "text2"
            name = _STATUS_ICONS.get(shown.run.status, "play")
            _draw_sign(painter, rect.left() + _PAD, rect, name, getattr(palette, ink))
            room = QRectF(rect).adjusted(_PAD + 20, 0, -_PAD, 0)
            paint_words(painter, room, status_words(shown.run), Look(ink=ink))
        else:
            self._paint_words(painter, rect, row, column, palette)

    def _paint_item(self, painter: QPainter, rect: QRect, item: Item, palette: Palette) -> None:
        if item.lines:
            name = "chevron-right" if self._model.is_folded(item) else "chevron-down"
            _draw_sign(painter, rect.left(), rect, name, palette.text2)
        kind = "cross-outline" if item.is_failed else KINDS[item.kind][1]
        _draw_sign(painter, rect.left() + _CHEVRON, rect, kind, palette.text2)
        inner = QRectF(rect).adjusted(_CHEVRON + _ICON + _ICON_GAP, 0, -_PAD, 0)
        if item.is_pinned:
            inner = self._paint_end(painter, inner, rect, "pin", palette.text2)
        weight = 600 if item.lines and not item.is_failed else 500
        paint_words(painter, inner, item.title, Look(weight))
        rest = inner.adjusted(text_width(item.title, weight) + _ICON_GAP, 0, 0, 0)
        if rest.width() >= min(text_width(item.model, 400), _LEAST_MODEL):
            paint_words(painter, rest, item.model, Look(ink="text3"))

    def _paint_run(self, painter: QPainter, rect: QRect, row: int, line: RunRow, palette: Palette) -> None:
        run, left = line.run, rect.left() + (_BELOW if self._model.is_below(row) else _CHEVRON)
        if run.status in (Status.FAILED, Status.INTERRUPTED):
            _draw_sign(painter, left, rect, "cross-outline", palette.text2)
        else:
            precision, place = line.overview.precision, QPointF(left + 7, rect.center().y() + 1)
            is_queued = run.status is Status.QUEUED
            draw_marker(painter, place, precision, fill="hollow" if is_queued else "full")
        inner = QRectF(rect).adjusted(left + _ICON + _ICON_GAP - rect.left(), 0, -_PAD, 0)
        # a note, which can be pressed, is the outermost
        if run.note:
            inner = self._paint_end(painter, inner, rect, "note", palette.text3)
        if run.is_pinned:
            inner = self._paint_end(painter, inner, rect, "pin", palette.text2)
        if run.id == self._model.baseline:
            inner = self._paint_end(painter, inner, rect, "flag", palette.text2)
        text = self._model.text(row, Column.NAME)
        paint_words(painter, inner, text, Look(500))
        used = text_width(text, 500) + 2
        if line.overview.recipe == FAST and used + _ICON <= inner.width():
            _draw_sign(painter, inner.left() + used, rect, "bolt", palette.text)

    def _paint_end(self, painter: QPainter, inner: QRectF, rect: QRect, name: str, ink: str) -> QRectF:
        _draw_sign(painter, inner.right() - _ICON, rect, name, ink)
        return inner.adjusted(0, 0, -_ICON - 4, 0)

    def _paint_result(
        self, painter: QPainter, rect: QRect, shown: Item | RunRow, result: str, palette: Palette
    ) -> None:
        left, width = self._view.span
        across = QRectF(left + _PAD, rect.top(), width - 2 * _PAD, rect.height())
        painter.setClipRect(rect)
        if isinstance(shown, RunRow) and shown.run.status in _BUTTONS:
            glyph = self._button_rect(rect).toRectF().adjusted(5, 5, -5, -5)
            draw_icon(painter, glyph, _BUTTONS[shown.run.status][0], palette.text2)
            across.adjust(0, 0, -_BUTTON, 0)
            if shown.run.status is Status.RUNNING and shown.key != self._model.paused:
                self._paint_progress(painter, across, shown.run, palette)
                return
        if text_width(result, 400) <= across.width():
            paint_words(painter, across, result, Look(ink="text2"), is_right=True)

    def _paint_progress(self, painter: QPainter, inner: QRectF, run: RunRecord, palette: Palette) -> None:
        fraction = self._model.progress(run.id) or 0.0
        most = text_width("100%", 600)
        width = max(16, min(_BAR_WIDTH, inner.width() - 12 - most))
        track = QRectF(inner.right() - most - 12 - width, round(inner.center().y()) - 2, width, _BAR_HEIGHT)
        draw_bar(painter, track, fraction, palette.look(run.overview.precision).color, palette.bg3)
        paint_words(painter, inner, f"{fraction:.0%}", Look(600), is_right=True)

    def _paint_words(
        self, painter: QPainter, rect: QRect, row: int, column: Column, palette: Palette
    ) -> None:
        text, model = self._model.text(row, column), self._model
        is_number, is_spoiled = model.columns[column].is_number, model.is_spoiled(row, column)
        is_base = column is Column.RATIO and model.is_base(row)
        is_pale = text == NONE or is_base or is_spoiled
        weight = 400 if is_base or is_spoiled or not is_number else 600 if column is Column.RATIO else 500
        ink = "text3" if is_pale else "text" if is_number else "text2"
        if is_spoiled:
            left = rect.right() - _PAD - text_width(text, 400) - 15
            _draw_sign(painter, left, rect, "info", palette.text3, 12)
        room = QRectF(rect).adjusted(_PAD, 0, -_PAD, 0)
        paint_words(painter, room, text, Look(weight, ink), is_right=model.is_right(column))
        if column is Column.RECIPE and text == _FAST:
            _draw_sign(painter, room.left() + text_width(text, 400) + 2, rect, "bolt", palette.text2)

    def createEditor(self, parent: QWidget, option: QStyleOptionViewItem, index: Index) -> QWidget:
        editor = QLineEdit(parent)
        editor.setMaxLength(200)
        editor.setAccessibleName("Name")
        editor.setToolTip("Enter keeps the new name, Escape the old one")
        return editor

    def editorEvent(
        self, event: QEvent, model: QAbstractItemModel, option: QStyleOptionViewItem, index: Index
    ) -> bool:
        is_click = isinstance(event, QMouseEvent) and event.button() is Qt.MouseButton.LeftButton
        if event.type() is not QEvent.Type.MouseButtonRelease or not is_click:
            return False
        assert isinstance(event, QMouseEvent)
        column, place, rect = Column(index.column()), event.position(), QRect(option.rect)
        if column is Column.TICK:
            return self._model.setData(index, None, Qt.ItemDataRole.CheckStateRole)
        shown = self._model.shown[index.row()]
        if isinstance(shown, Item):
            edge = rect.left() + self._view.name_inset() + _CHEVRON
            is_chevron = column is Column.NAME and place.x() < edge
            if is_chevron:
                self._model.fold(shown, not self._model.is_folded(shown))
            return is_chevron
        if isinstance(shown, Heading):
            return False
        note = QRectF(rect.right() - _PAD - _ICON + 1, rect.center().y() - _ICON / 2 + 1, _ICON, _ICON)
        if column is Column.NAME and shown.run.note and note.contains(place):
            self._view.panel.edit_note(shown.run)
        elif not self._is_on_button(rect, shown.run, place.toPoint()):
            return False
        elif shown.run.status is Status.RUNNING:
            self._view.panel.edits.experiments.stop()
        else:
            self._view.panel.edits.experiments.dequeue(shown.key)
        return True

    def helpEvent(
        self, event: QHelpEvent, view: QAbstractItemView, option: QStyleOptionViewItem, index: Index
    ) -> bool:
        shown = self._model.shown[index.row()] if index.isValid() else None
        if isinstance(shown, RunRow) and self._is_on_button(QRect(option.rect), shown.run, event.pos()):
            QToolTip.showText(event.globalPos(), _BUTTONS[shown.run.status][1], view)
            return True
        return super().helpEvent(event, view, option, index)

    def _button_rect(self, rect: QRect) -> QRect:
        left, width = self._view.figures_span()
        return QRect(left + width - _BUTTON - 4, rect.center().y() - _BUTTON // 2 + 1, _BUTTON, _BUTTON)

    def _is_on_button(self, rect: QRect, run: RunRecord, place: QPoint) -> bool:
        return run.status in _BUTTONS and self._button_rect(rect).contains(place)


class RunsHeader(QHeaderView):
    """The header of the results table: a box that selects all, and an arrow at the sorted column.

    Columns can be dragged to another place and to another width.
    """

    width_chosen = Signal(int, int)  # section, width

    def __init__(self, runs: RunsModel, parent: QWidget) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self._runs = runs
        self._is_pressed = self._is_dragged = False
        self.setSectionsClickable(True)
        self.setHighlightSections(False)
        self.setMinimumSectionSize(24)
        self.setSectionsMovable(True)
        self.setFirstSectionMovable(False)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.setAccessibleName("Columns of the runs. Click one to sort by it.")
        self.setToolTip("Click a heading to sort by it. Drag it to move the column. Right-click it for more.")
        self.sectionResized.connect(self._note_width)
        theme().changed.connect(self.viewport().update)
        runs.checked_changed.connect(lambda _ids: self.viewport().update())

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._is_pressed, self._is_dragged = self._is_over_box(event), True
        # a press on the box ticks, and does not sort
        if not self._is_pressed:
            super().mousePressEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if not self._is_pressed:
            super().mouseReleaseEvent(event)
        elif self._is_over_box(event):
            self._runs.toggle_all()
        self._is_pressed = self._is_dragged = False

    def _note_width(self, section: int, _old: int, width: int) -> None:
        # what the table fits by itself is no choice of the user
        if self._is_dragged and width:
            self.width_chosen.emit(section, width)

    def _is_over_box(self, event: QMouseEvent) -> bool:
        is_left = event.button() == Qt.MouseButton.LeftButton
        return is_left and self.logicalIndexAt(event.position().toPoint()) == Column.TICK

    def paintSection(self, painter: QPainter, rect: QRect, logicalIndex: int) -> None:  # noqa: N803 - Qt's name
        palette, column = theme().palette, Column(logicalIndex)
        painter.fillRect(rect, QColor(palette.bg1))
        painter.setPen(QColor(palette.line))
        painter.drawLine(rect.bottomLeft(), rect.bottomRight())
        painter.save()
        if column is Column.TICK:
            _draw_tick(painter, rect, self._runs.ticks(), self._runs.rowCount() > 0, palette)
        else:
            words, is_right = self._runs.heading(column)[0], self._runs.is_right(column)
            margin = 2 if is_right else _PAD if rect.left() > 0 else 2 * _PAD
            inner = QRectF(rect).adjusted(margin, 0, -_PAD, 0)
            is_sorted = self.sortIndicatorSection() == logicalIndex
            look = Look(500, "text2" if is_sorted else "text3", size=11)
            paint_words(painter, inner, words, look, is_right=is_right)
            if is_sorted:
                width = min(text_width(words, 500, 11), inner.width())
                left = inner.right() - width - _ARROW - 2 if is_right else inner.left() + width + 3
                is_falling = self.sortIndicatorOrder() is Qt.SortOrder.DescendingOrder
                name = "chevron-down" if is_falling else "chevron-up"
                _draw_sign(painter, left, rect, name, palette.text2, _ARROW)
        painter.restore()
