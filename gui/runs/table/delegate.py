"""Paints the cells of the table: ticks, names with their icons, figures, results, tags as chips."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from PySide6.QtCore import (
    QAbstractItemModel,
    QEvent,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QPoint,
    QPointF,
    QRect,
    QRectF,
    Qt,
    Signal,
)
from PySide6.QtGui import QColor, QFont, QFontMetrics, QHelpEvent, QMouseEvent, QPainter, QPen
from PySide6.QtWidgets import (
    QAbstractItemView,
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
from gui.runs.table.columns import NUMBERS, RIGHT, Column
from gui.runs.table.line import Line, status_words
from gui.runs.table.model import RunsModel
from gui.runs.table.rows import KINDS, Heading, Item
from gui.theme.fonts import font
from gui.theme.icons import draw_icon
from gui.theme.theme import Palette, theme
from gui.widgets import draw_bar, draw_marker
from resources.looks import MarkFill

_HEIGHT, _INNER, _GAP = 18, 6, 4
_LEAST = 24


def draw_chips(painter: QPainter, room: QRect, tags: Sequence[str], face: QFont, palette: Palette) -> None:
    """Draws the tags that fit, the last one perhaps elided, and how many more there are."""
    metrics = QFontMetrics(face)
    painter.setFont(face)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    left = room.left()
    for place, tag in enumerate(tags):
        later = len(tags) - place - 1
        rest = metrics.horizontalAdvance(f"+{later + 1}")
        reserved = metrics.horizontalAdvance(f"+{later}") + _GAP if later else 0
        free = room.right() + 1 - left - reserved
        if place and free < min(metrics.horizontalAdvance(tag), _LEAST) + 2 * _INNER:
            more = QRect(left, room.top(), rest + _GAP, room.height())
            painter.setPen(QColor(palette.text3))
            painter.drawText(more, Qt.AlignmentFlag.AlignVCenter, f"+{later + 1}")
            return
        # an advance is rounded, and a tag that just fits would be elided
        width = min(metrics.horizontalAdvance(tag) + 2 * _INNER + 2, free)
        chip = QRect(left, room.center().y() - _HEIGHT // 2 + 1, width, _HEIGHT)
        painter.setPen(QColor(palette.line2))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(chip.toRectF().adjusted(0.5, 0.5, -0.5, -0.5), 4, 4)
        words = metrics.elidedText(tag, Qt.TextElideMode.ElideRight, width - 2 * _INNER)
        painter.setPen(QColor(palette.text2))
        painter.drawText(chip, Qt.AlignmentFlag.AlignCenter, words)
        left += width + _GAP


ROW_HEIGHT = 28
_PAD = 8
_BOX = 16
_BAR_WIDTH, _BAR_HEIGHT = 72, 4
_BUTTON = 24
_NOTE = 14
_WIDEST_HEADING, _LEAST_MODEL = 200, 72
_CHEVRON, _ICON_GAP, _BELOW = 20, 8, 32
"""Where the chevron ends, the gap after an icon, and where a run below an item begins."""
_FAST = recipe_title(FAST)
_WEIGHTS = dict.fromkeys(NUMBERS, 500) | {Column.NAME: 500, Column.RATIO: 600}
_STATUS_ICONS = {
    Status.QUEUED: "ring",
    Status.FINISHED: "check",
    Status.STOPPED: "stop",
    Status.FAILED: "cross-outline",
    Status.INTERRUPTED: "cross-outline",
}
_BUTTONS = {
    Status.RUNNING: ("stop", "Stop this run. What it has trained so far is kept."),
    Status.QUEUED: ("cross", "Take this run out of the queue."),
}


def draw_tick(painter: QPainter, cell: QRect, state: Qt.CheckState, able: bool, palette: Palette) -> None:
    """The box of a row, or of the heading, which may be ticked in part."""
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


class Spans(Protocol):
    """The view, as far as the delegate needs it."""

    marked: frozenset[str]

    def figures_span(self) -> tuple[int, int]: ...
    def name_inset(self) -> int: ...


class RunsDelegate(QStyledItemDelegate):
    """Paints every cell from the theme's tokens; handles clicks on a tick, a chevron or a row's button."""

    stop_requested = Signal()
    take_out_requested = Signal(str)
    note_pressed = Signal(str)

    def __init__(self, model: RunsModel, view: Spans, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._model, self._view = model, view
        self._fonts: dict[int, QFont] = {weight: font(12, weight) for weight in (400, 500, 600)}
        self._small, self._day = font(11, 500), font(11, 400)

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        palette, column, row = theme().palette, Column(index.column()), index.row()
        rect, shown = _rect(option), self._model.row(row)
        painter.save()
        if isinstance(shown, Heading):
            self._paint_heading(painter, rect, shown, palette)
        else:
            self._paint_ground(painter, rect, shown, column, row, _is_selected(option), palette)
            self._paint_cell(painter, rect, shown, column, row, palette)
        painter.restore()

    def _paint_cell(
        self, painter: QPainter, rect: QRect, shown: Item | Line, column: Column, row: int, palette: Palette
    ) -> None:
        if column is Column.TICK:
            if self._model.runs_at(row):
                draw_tick(painter, rect, self._model.tick(row), self._model.can_tick(row), palette)
        elif column is Column.NAME:
            rect.setLeft(rect.left() + self._view.name_inset())
            if isinstance(shown, Item):
                self._paint_item(painter, rect, shown, palette)
            else:
                self._paint_run(painter, rect, row, shown, palette)
        elif self._is_across(rect) and (result := self._model.result(row)):
            self._paint_result(painter, rect, row, shown, result, palette)
        elif column is Column.TAGS and isinstance(shown, Line):
            draw_chips(painter, rect.adjusted(_PAD, 0, -_PAD, 0), shown.run.tags, self._small, palette)
        elif column is Column.STATUS and isinstance(shown, Line):
            self._paint_status(painter, rect, shown.run, palette)
        else:
            self._paint_words(painter, rect, row, column, palette)

    def createEditor(
        self, parent: QWidget, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> QWidget:
        editor = QLineEdit(parent)
        editor.setMaxLength(200)
        editor.setAccessibleName("Name")
        editor.setToolTip("Enter keeps the new name, Escape the old one")
        return editor

    def editorEvent(
        self,
        event: QEvent,
        model: QAbstractItemModel,
        option: QStyleOptionViewItem,
        index: QModelIndex | QPersistentModelIndex,
    ) -> bool:
        if event.type() is not QEvent.Type.MouseButtonRelease or not isinstance(event, QMouseEvent):
            return False
        if event.button() is not Qt.MouseButton.LeftButton:
            return False
        column, row, place = Column(index.column()), index.row(), event.position()
        if column is Column.TICK:
            return self._model.setData(index, None, Qt.ItemDataRole.CheckStateRole)
        shown = self._model.row(row)
        if isinstance(shown, Item):
            edge = _rect(option).left() + self._view.name_inset() + _CHEVRON
            is_chevron = column is Column.NAME and place.x() < edge
            if is_chevron:
                self._model.fold(shown, not self._model.is_folded(shown))
            return is_chevron
        if isinstance(shown, Heading):
            return False
        if column is Column.NAME and shown.run.note and _note_rect(_rect(option)).contains(place):
            self.note_pressed.emit(shown.run.id)
            return True
        if not self._is_on_button(_rect(option), shown.run, place.toPoint()):
            return False
        if shown.run.status is Status.RUNNING:
            self.stop_requested.emit()
        else:
            self.take_out_requested.emit(shown.run.id)
        return True

    def helpEvent(
        self,
        event: QHelpEvent,
        view: QAbstractItemView,
        option: QStyleOptionViewItem,
        index: QModelIndex | QPersistentModelIndex,
    ) -> bool:
        shown = self._model.row(index.row()) if index.isValid() else None
        if isinstance(shown, Line) and self._is_on_button(_rect(option), shown.run, event.pos()):
            QToolTip.showText(event.globalPos(), _BUTTONS[shown.run.status][1], view)
            return True
        return super().helpEvent(event, view, option, index)

    def button_rect(self, rect: QRect) -> QRect:
        """Where a row in this rectangle has its button: at the end of the figures."""
        left, width = self._view.figures_span()
        return QRect(left + width - _BUTTON - 4, rect.center().y() - _BUTTON // 2 + 1, _BUTTON, _BUTTON)

    def _is_on_button(self, rect: QRect, run: RunRecord, place: QPoint) -> bool:
        return run.status in _BUTTONS and self.button_rect(rect).contains(place)

    def _is_across(self, rect: QRect) -> bool:
        left, width = self._view.figures_span()
        return left <= rect.left() < left + width

    def _paint_heading(self, painter: QPainter, rect: QRect, heading: Heading, palette: Palette) -> None:
        # every cell paints its part of what goes across all of them
        painter.setClipRect(rect)
        painter.setFont(self._day)
        painter.setPen(QColor(palette.text3))
        across = QRect(16, rect.top(), 4 * _WIDEST_HEADING, rect.height())
        painter.drawText(across, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, heading.words)

    def _paint_ground(
        self,
        painter: QPainter,
        rect: QRect,
        shown: Item | Line,
        column: Column,
        row: int,
        selected: bool,
        palette: Palette,
    ) -> None:
        is_marked = shown.key in self._view.marked
        is_ticked = self._model.tick(row) is not Qt.CheckState.Unchecked
        if selected or is_marked or is_ticked:
            painter.fillRect(rect, QColor(palette.bg2))
        if is_marked and rect.left() <= 0:
            painter.fillRect(0, rect.top(), 2, rect.height(), QColor(palette.pri))

    def _paint_item(self, painter: QPainter, rect: QRect, item: Item, palette: Palette) -> None:
        middle = rect.center().y() + 1
        if item.lines:
            name = "chevron-right" if self._model.is_folded(item) else "chevron-down"
            draw_icon(painter, QRectF(rect.left(), middle - 7, 14, 14), name, palette.text2)
        kind = "cross-outline" if item.is_failed else KINDS[item.kind][1]
        draw_icon(painter, QRectF(rect.left() + _CHEVRON, middle - 7, 14, 14), kind, palette.text2)
        inner = rect.adjusted(_CHEVRON + 14 + _ICON_GAP, 0, -_PAD, 0)
        if item.is_pinned:
            inner = self._paint_sign(painter, inner, "pin", palette.text2)
        weight = 600 if item.lines and not item.is_failed else 500
        self._draw_text(painter, inner, item.title, weight, palette.text, Qt.AlignmentFlag.AlignLeft)
        used = QFontMetrics(self._fonts[weight]).horizontalAdvance(item.title) + _ICON_GAP
        wanted = QFontMetrics(self._fonts[400]).horizontalAdvance(item.model)
        if inner.width() - used >= min(wanted, _LEAST_MODEL):
            rest = inner.adjusted(used, 0, 0, 0)
            self._draw_text(painter, rest, item.model, 400, palette.text3, Qt.AlignmentFlag.AlignLeft)

    def _paint_run(self, painter: QPainter, rect: QRect, row: int, line: Line, palette: Palette) -> None:
        run, left = line.run, rect.left() + (_BELOW if self._model.is_below(row) else _CHEVRON)
        fill: MarkFill = "hollow" if run.status is Status.QUEUED else "full"
        place = QPointF(left + 7, rect.center().y() + 1)
        precision = line.overview.precision
        if run.status in (Status.FAILED, Status.INTERRUPTED):
            draw_icon(painter, QRectF(left, place.y() - 7, 14, 14), "cross-outline", palette.text2)
        else:
            ink = palette.look(precision, run.colour).color
            draw_marker(painter, place, precision, fill=fill, color=ink)
        icons = (
            ("note", bool(run.note)),
            ("pin", run.is_pinned),
            ("flag", run.id == self._model.baseline),
        )
        inner = rect.adjusted(left + 14 + _ICON_GAP - rect.left(), 0, -_PAD, 0)
        for name in (name for name, is_due in icons if is_due):
            # a note, which can be pressed, is the outermost
            inner = self._paint_sign(painter, inner, name, palette.text3 if name == "note" else palette.text2)
        text = self._model.text(row, Column.NAME)
        # "Show me, FP32": the names of a comparison differ at their end
        keeps_end = run.label is not None and run.label in run.name
        elide = Qt.TextElideMode.ElideLeft if keeps_end else Qt.TextElideMode.ElideRight
        self._draw_text(painter, inner, text, 500, palette.text, Qt.AlignmentFlag.AlignLeft, elide)
        if line.overview.recipe == FAST:
            used = QFontMetrics(self._fonts[500]).horizontalAdvance(text) + 3
            if used + 14 <= inner.width():
                bolt = QRectF(inner.left() + used, rect.center().y() - 6, 14, 14)
                draw_icon(painter, bolt, "bolt", palette.text)

    def _paint_sign(self, painter: QPainter, inner: QRect, name: str, ink: str) -> QRect:
        """Draws a sign at the end of a name's room, and returns the room that is left."""
        draw_icon(painter, QRectF(inner.right() - _NOTE + 1, inner.center().y() - 6, _NOTE, _NOTE), name, ink)
        return inner.adjusted(0, 0, -_NOTE - 4, 0)

    def _paint_result(
        self, painter: QPainter, rect: QRect, row: int, shown: Item | Line, result: str, palette: Palette
    ) -> None:
        """Paints this cell's part of the result, which goes across all figures."""
        left, width = self._view.figures_span()
        across = QRect(left, rect.top(), width, rect.height()).adjusted(_PAD, 0, -_PAD, 0)
        painter.setClipRect(rect)
        if isinstance(shown, Line) and shown.run.status in _BUTTONS:
            glyph = self.button_rect(rect).toRectF().adjusted(5, 5, -5, -5)
            draw_icon(painter, glyph, _BUTTONS[shown.run.status][0], palette.text2)
            across.adjust(0, 0, -_BUTTON, 0)
            if shown.run.status is Status.RUNNING and not self._model.is_paused(shown.run.id):
                self._paint_progress(painter, across, shown.run, palette)
                return
        if QFontMetrics(self._fonts[400]).horizontalAdvance(result) <= across.width():
            self._draw_text(painter, across, result, 400, palette.text2, Qt.AlignmentFlag.AlignRight)

    def _paint_words(
        self, painter: QPainter, rect: QRect, row: int, column: Column, palette: Palette
    ) -> None:
        text = self._model.text(row, column)
        is_base = column is Column.RATIO and self._model.is_base(row)
        ink = palette.text if column in NUMBERS and text != NONE and not is_base else palette.text2
        ink = palette.text3 if text == NONE or is_base else ink
        side = Qt.AlignmentFlag.AlignRight if column in RIGHT else Qt.AlignmentFlag.AlignLeft
        weight = 400 if is_base else _WEIGHTS.get(column, 400)
        if self._model.is_spoiled(row, column):
            weight, ink = 400, palette.text3
            right = rect.right() - _PAD - QFontMetrics(self._fonts[400]).horizontalAdvance(text) - 4
            draw_icon(painter, QRectF(right - 12, rect.center().y() - 5, 12, 12), "info", ink)
        self._draw_text(painter, rect.adjusted(_PAD, 0, -_PAD, 0), text, weight, ink, side)
        if column is Column.RECIPE and text == _FAST:
            left = rect.left() + _PAD + QFontMetrics(self._fonts[400]).horizontalAdvance(text) + 3
            draw_icon(painter, QRectF(left, rect.center().y() - 6, 14, 14), "bolt", ink)

    def _paint_status(self, painter: QPainter, rect: QRect, run: RunRecord, palette: Palette) -> None:
        inner = rect.adjusted(_PAD, 0, -_PAD, 0)
        ink = palette.text3 if run.status is Status.QUEUED else palette.text2
        draw_icon(painter, _icon_rect(inner), _STATUS_ICONS.get(run.status, "play"), ink)
        words = inner.adjusted(20, 0, 0, 0)
        self._draw_text(painter, words, status_words(run), 400, ink, Qt.AlignmentFlag.AlignLeft)

    def _paint_progress(self, painter: QPainter, inner: QRect, run: RunRecord, palette: Palette) -> None:
        fraction = self._model.progress(run.id) or 0.0
        most = QFontMetrics(self._fonts[600]).horizontalAdvance("100 %")
        width = max(16, min(_BAR_WIDTH, inner.width() - 12 - most))
        left = inner.right() - most - 12 - width
        ink = palette.look(run.experiment.precision, run.colour).color
        track = QRectF(left, inner.center().y() - 1, width, _BAR_HEIGHT)
        draw_bar(painter, track, fraction, ink, palette.bg3)
        words = f"{fraction:.0%}".replace("%", " %")
        self._draw_text(painter, inner, words, 600, palette.text, Qt.AlignmentFlag.AlignRight)

    def _draw_text(
        self,
        painter: QPainter,
        rect: QRect,
        text: str,
        weight: int,
        ink: str,
        side: Qt.AlignmentFlag,
        elide: Qt.TextElideMode = Qt.TextElideMode.ElideRight,
    ) -> None:
        face = self._fonts[weight]
        painter.setFont(face)
        painter.setPen(QColor(ink))
        elided = QFontMetrics(face).elidedText(text, elide, max(rect.width(), 0))
        painter.drawText(rect, side | Qt.AlignmentFlag.AlignVCenter, elided)


def _rect(option: QStyleOptionViewItem) -> QRect:
    return QRect(option.rect)


def _is_selected(option: QStyleOptionViewItem) -> bool:
    return bool(option.state & QStyle.StateFlag.State_Selected)


def _icon_rect(inner: QRect) -> QRectF:
    return QRectF(inner.left(), inner.center().y() - 6, 14, 14)


def _note_rect(rect: QRect) -> QRectF:
    return QRectF(rect.right() - _PAD - _NOTE + 1, rect.center().y() - _NOTE / 2 + 1, _NOTE, _NOTE)
