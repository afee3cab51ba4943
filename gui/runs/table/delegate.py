"""Paints the cells of the runs table: ticks, markers, words, figures, tags as chips, and the status."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import (
    QAbstractItemModel,
    QEvent,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
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
from gui.runs.table.columns import COMPARED, NUMBERS, Column
from gui.runs.table.model import RunsModel
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
_FAST = recipe_title(FAST)
_STRONG = (Column.NAME, Column.PRECISION, *NUMBERS)
_WEIGHTS = dict.fromkeys(NUMBERS, 500) | {Column.NAME: 600, Column.RATIO: 600}
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


class RunsDelegate(QStyledItemDelegate):
    """Paints every cell from the theme's tokens; handles clicks on a tick or a row's button."""

    stop_requested = Signal()
    take_out_requested = Signal(str)
    note_pressed = Signal(str)

    def __init__(self, model: RunsModel, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._model = model
        self._fonts: dict[int, QFont] = {weight: font(12, weight) for weight in (400, 500, 600)}
        self._small = font(11, 500)

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        palette, column, row = theme().palette, Column(index.column()), index.row()
        rect, run = _rect(option), self._model.run(row)
        painter.save()
        self._paint_ground(painter, rect, column, row, _is_selected(option), palette)
        if column is Column.TICK:
            self._paint_tick(painter, rect, row, palette)
        elif column is Column.MARKER:
            hollow = run.status is Status.QUEUED
            precision = self._model.line(row).overview.precision
            ink = palette.look(precision, run.colour).color
            fill: MarkFill = "hollow" if hollow else "full"
            draw_marker(painter, rect.toRectF().center(), precision, fill=fill, color=ink)
        elif column is Column.STATUS:
            self._paint_status(painter, rect, row, run, palette)
        elif column is Column.TAGS:
            draw_chips(painter, rect.adjusted(_PAD, 0, -_PAD, 0), run.tags, self._small, palette)
        elif column is Column.NAME:
            self._paint_name(painter, rect, row, run, palette)
        else:
            self._paint_words(painter, rect, row, column, palette)
        painter.restore()

    def createEditor(
        self, parent: QWidget, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> QWidget:
        editor = QLineEdit(parent)
        editor.setMaxLength(200)
        editor.setAccessibleName("Name of the run")
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
        column, row = Column(index.column()), index.row()
        if column is Column.TICK:
            wanted = Qt.CheckState.Unchecked if self._model.is_checked(row) else Qt.CheckState.Checked
            return self._model.setData(index, wanted, Qt.ItemDataRole.CheckStateRole)
        run, place = self._model.run(row), event.position()
        if column is Column.NAME and run.note and _note_rect(_rect(option)).contains(place):
            self.note_pressed.emit(run.id)
            return True
        if column is not Column.STATUS or not _button_rect(_rect(option)).contains(place.toPoint()):
            return False
        if run.status is Status.RUNNING:
            self.stop_requested.emit()
        elif run.status is Status.QUEUED:
            self.take_out_requested.emit(run.id)
        return run.status in _BUTTONS

    def helpEvent(
        self,
        event: QHelpEvent,
        view: QAbstractItemView,
        option: QStyleOptionViewItem,
        index: QModelIndex | QPersistentModelIndex,
    ) -> bool:
        if index.isValid() and Column(index.column()) is Column.STATUS:
            button = _BUTTONS.get(self._model.run(index.row()).status)
            if button is not None and _button_rect(_rect(option)).contains(event.pos()):
                QToolTip.showText(event.globalPos(), button[1], view)
                return True
        return super().helpEvent(event, view, option, index)

    def _paint_ground(
        self, painter: QPainter, rect: QRect, column: Column, row: int, selected: bool, palette: Palette
    ) -> None:
        if selected or self._model.is_checked(row):
            painter.fillRect(rect, QColor(palette.bg2))
        if selected and column is Column.TICK:
            painter.fillRect(rect.left(), rect.top(), 2, rect.height(), QColor(palette.pri))

    def _paint_tick(self, painter: QPainter, rect: QRect, row: int, palette: Palette) -> None:
        state = Qt.CheckState.Checked if self._model.is_checked(row) else Qt.CheckState.Unchecked
        draw_tick(painter, rect, state, self._model.can_tick(row), palette)

    def _paint_name(self, painter: QPainter, rect: QRect, row: int, run: RunRecord, palette: Palette) -> None:
        icons = (("note", bool(run.note)), ("pin", run.is_pinned), ("flag", self._model.is_baseline(row)))
        names = [name for name, is_due in icons if is_due]
        self._paint_words(
            painter, rect.adjusted(0, 0, -len(names) * (_NOTE + 4), 0), row, Column.NAME, palette
        )
        for place, name in enumerate(names):
            # a note, which can be pressed, is the outermost
            ink = palette.text3 if name == "note" else palette.text2
            draw_icon(painter, _note_rect(rect).translated(-place * (_NOTE + 4), 0), name, ink)

    def _paint_words(
        self, painter: QPainter, rect: QRect, row: int, column: Column, palette: Palette
    ) -> None:
        text = self._model.text(row, column)
        ink = palette.text3 if text == NONE else palette.text if column in _STRONG else palette.text2
        side = Qt.AlignmentFlag.AlignRight if column in NUMBERS else Qt.AlignmentFlag.AlignLeft
        weight = _WEIGHTS.get(column, 400)
        if column in COMPARED and self._model.is_spoiled(row, column):
            weight, ink = 400, palette.text3
            right = rect.right() - _PAD - QFontMetrics(self._fonts[400]).horizontalAdvance(text) - 4
            draw_icon(painter, QRectF(right - 12, rect.center().y() - 6, 12, 12), "info", ink)
        run = self._model.run(row)
        # "Show me, FP32": the names of a comparison differ at their end
        keeps_end = column is Column.NAME and run.label is not None and run.label in run.name
        elide = Qt.TextElideMode.ElideLeft if keeps_end else Qt.TextElideMode.ElideRight
        self._draw_text(painter, rect.adjusted(_PAD, 0, -_PAD, 0), text, weight, ink, side, elide)
        if column is Column.RECIPE and text == _FAST:
            left = rect.left() + _PAD + QFontMetrics(self._fonts[400]).horizontalAdvance(text) + 3
            draw_icon(painter, QRectF(left, rect.center().y() - 6, 14, 14), "bolt", ink)

    def _paint_status(
        self, painter: QPainter, rect: QRect, row: int, run: RunRecord, palette: Palette
    ) -> None:
        inner = rect.adjusted(_PAD, 0, -_PAD, 0)
        is_paused = self._model.is_paused(row)
        if run.status is Status.RUNNING and not is_paused:
            self._paint_progress(painter, inner, row, run, palette)
        else:
            ink = palette.text3 if run.status is Status.QUEUED else palette.text2
            draw_icon(painter, _icon_rect(inner), "pause" if is_paused else _STATUS_ICONS[run.status], ink)
            words = self._model.text(row, Column.STATUS)
            self._draw_text(painter, inner.adjusted(20, 0, 0, 0), words, 400, ink, Qt.AlignmentFlag.AlignLeft)
        if run.status in _BUTTONS:
            glyph = _button_rect(rect).toRectF().adjusted(5, 5, -5, -5)
            draw_icon(painter, glyph, _BUTTONS[run.status][0], palette.text2)

    def _paint_progress(
        self, painter: QPainter, inner: QRect, row: int, run: RunRecord, palette: Palette
    ) -> None:
        fraction = self._model.progress(row) or 0.0
        most = QFontMetrics(self._fonts[600]).horizontalAdvance("100 %")
        room = min(_BAR_WIDTH, inner.width() - 12 - most - 4 - _BUTTON - 2)
        track = QRectF(inner.left(), inner.center().y() - 1, max(room, 16), _BAR_HEIGHT)
        ink = palette.look(run.experiment.precision, run.colour).color
        draw_bar(painter, track, fraction, ink, palette.bg3)
        words = inner.adjusted(round(track.width()) + 12, 0, 0, 0)
        self._draw_text(
            painter,
            words,
            f"{fraction:.0%}".replace("%", " %"),
            600,
            palette.text,
            Qt.AlignmentFlag.AlignLeft,
        )

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


def _button_rect(rect: QRect) -> QRect:
    return QRect(rect.right() - _BUTTON - 10, rect.center().y() - _BUTTON // 2 + 1, _BUTTON, _BUTTON)
