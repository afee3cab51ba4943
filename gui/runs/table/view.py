"""The table view of the runs: columns, painted headings, keys, highlighted rows, and the drag picture."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import (
    QItemSelection,
    QItemSelectionModel,
    QModelIndex,
    QPointF,
    QRect,
    QRectF,
    Qt,
    Signal,
)
from PySide6.QtGui import QColor, QDrag, QFontMetrics, QKeyEvent, QMouseEvent, QPainter, QPixmap, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QApplication,
    QHeaderView,
    QTableView,
    QWidget,
)

from engine.store.record import RunRecord, Status
from gui.runs.table.delegate import ROW_HEIGHT, RunsDelegate, draw_tick
from gui.runs.table.line import NUMBERS, Column
from gui.runs.table.model import RunsModel
from gui.theme.fonts import font
from gui.theme.icons import draw_icon
from gui.theme.theme import theme

_HEIGHT, _DRAG_PAD, _WIDEST = 28, 12, 240


def drag_pixmap(runs: Sequence[RunRecord]) -> QPixmap:
    """A chip with the run's name, or how many runs there are."""
    face, palette = font(12, 600), theme().palette
    metrics = QFontMetrics(face)
    whole = runs[0].name if len(runs) == 1 else f"{len(runs):,} runs"
    words = metrics.elidedText(whole, Qt.TextElideMode.ElideRight, _WIDEST)
    place = QRect(0, 0, metrics.horizontalAdvance(words) + 2 * _DRAG_PAD, _HEIGHT)
    screen = QApplication.primaryScreen()
    ratio = screen.devicePixelRatio() if screen else 1.0
    picture = QPixmap(round(place.width() * ratio), round(place.height() * ratio))
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


_PAD, _ARROW = 8, 12


class RunsHeader(QHeaderView):
    """A box that ticks all, the arrow beside the sorted column's word, and figures' headings at the right."""

    def __init__(self, runs: RunsModel, parent: QWidget | None = None) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self._runs = runs
        self._is_pressed = False
        self._font = font(11, 500)
        self.setSectionsClickable(True)
        self.setHighlightSections(False)
        self.setMinimumSectionSize(24)
        self.setAccessibleName("Columns of the runs; press one to sort by it")
        self.setToolTip("Press a heading to sort by it")
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
            self._runs.toggle_all()
        self._is_pressed = False

    def _is_over_box(self, event: QMouseEvent) -> bool:
        is_left = event.button() == Qt.MouseButton.LeftButton
        return is_left and self.logicalIndexAt(event.position().toPoint()) == Column.TICK

    def paintSection(self, painter: QPainter, rect: QRect, logicalIndex: int) -> None:  # noqa: N803 - Qt's name
        palette, column = theme().palette, Column(logicalIndex)
        is_sorted = self.sortIndicatorSection() == logicalIndex
        painter.fillRect(rect, QColor(palette.bg1))
        painter.setPen(QColor(palette.line))
        painter.drawLine(rect.bottomLeft(), rect.bottomRight())
        if column is Column.TICK:
            painter.save()
            draw_tick(painter, rect, self._runs.ticks(), self._runs.rowCount() > 0, palette)
            painter.restore()
            return
        words = str(self.model().headerData(logicalIndex, Qt.Orientation.Horizontal))
        inner = rect.adjusted(_PAD, 0, -_PAD, 0)
        painter.setFont(self._font)
        painter.setPen(QColor(palette.text2 if is_sorted else palette.text3))
        side = Qt.AlignmentFlag.AlignRight if column in NUMBERS else Qt.AlignmentFlag.AlignLeft
        painter.drawText(inner, side | Qt.AlignmentFlag.AlignVCenter, words)
        if is_sorted:
            width = QFontMetrics(self._font).horizontalAdvance(words)
            left = inner.right() - width - _ARROW - 2 if column in NUMBERS else inner.left() + width + 3
            self._paint_arrow(painter, QPointF(left, rect.center().y() - _ARROW / 2 + 1), palette.text2)

    def _paint_arrow(self, painter: QPainter, corner: QPointF, ink: str) -> None:
        falling = self.sortIndicatorOrder() is Qt.SortOrder.DescendingOrder
        box = QRectF(corner.x(), corner.y(), _ARROW, _ARROW)
        draw_icon(painter, box, "chevron-down" if falling else "chevron-up", ink)


# roomy, and compact
_WIDTHS = {
    Column.TICK: (40, 40),
    Column.MARKER: (28, 24),
    Column.NAME: (106, 84),
    Column.TAGS: (120, 84),
    Column.WHEN: (68, 72),
    Column.MODEL: (104, 80),
    Column.DATASET: (112, 104),
    Column.PRECISION: (102, 84),
    Column.RECIPE: (76, 64),
    Column.BATCH: (64, 56),
    Column.SPEED: (76, 70),
    Column.PEAK: (84, 74),
    Column.ACCURACY: (72, 60),
    Column.RATIO: (84, 68),
    Column.STATUS: (156, 124),
}
_ROOMY, _COMPACT = ({column: widths[place] for column, widths in _WIDTHS.items()} for place in (0, 1))
# room for the longest precision and a speed of seven figures, in order of need
_WIDER = {Column.PRECISION: 102, Column.SPEED: 76, Column.MODEL: 100}
_NARROW, _NAME_SHARE, _LONGEST_NAME = 780, 0.25, 200
"""In a wider table the name gets its share before the dispensable columns get any."""
# hidden in a narrow table, in this order; the name's tooltip has their values
_DISPENSABLE = (Column.DATASET, Column.BATCH, Column.RECIPE, Column.TAGS, Column.WHEN, Column.MODEL)


class RunsTable(QTableView):
    """Whole rows are highlighted; Space ticks them, Enter shows their curves, F2 renames, Delete deletes."""

    stop_requested = Signal()
    take_out_requested = Signal(str)
    open_requested = Signal(str)
    delete_pressed = Signal()
    note_pressed = Signal(str)

    def __init__(self, model: RunsModel) -> None:
        super().__init__()
        self._runs = model
        self.setModel(model)
        self.setAccessibleName("Runs")
        self.setToolTip(
            "Saved runs. Double-click one to see its curves; right-click for more; drag it to Compare"
        )
        self._delegate = RunsDelegate(model, self)
        self._delegate.stop_requested.connect(self.stop_requested)
        self._delegate.take_out_requested.connect(self.take_out_requested)
        self._delegate.note_pressed.connect(self.note_pressed)
        self.setItemDelegate(self._delegate)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setTabKeyNavigation(False)
        self.setDragEnabled(True)
        self.setDragDropMode(QAbstractItemView.DragDropMode.DragOnly)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setHorizontalHeader(RunsHeader(model, self))
        self.setSortingEnabled(True)
        self._widths: dict[Column, int] = {}
        self._set_up_headers()
        self.doubleClicked.connect(self._double_clicked)
        self._kept: tuple[str, ...] = ()
        model.modelAboutToBeReset.connect(self._keep_highlights)
        model.modelReset.connect(self._bring_highlights_back)
        model.tags_changed.connect(self._fit_columns)

    def highlighted(self) -> tuple[RunRecord, ...]:
        """The runs of the highlighted rows, top to bottom."""
        rows = sorted(index.row() for index in self.selectionModel().selectedRows())
        return tuple(self._runs.run(row) for row in rows)

    def rename(self, run_id: str) -> None:
        """Edits the name of a run in its cell."""
        row = self._runs.row_of(run_id)
        if row is not None:
            self.edit(self._runs.index(row, Column.NAME))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if self.state() == QTableView.State.EditingState:
            # the Return that ends a renaming must not open the run
            super().keyPressEvent(event)
            return
        chosen = self.highlighted()
        key = event.key()
        if key == Qt.Key.Key_Space and chosen:
            self._toggle(chosen)
        elif key in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace) and chosen:
            self.delete_pressed.emit()
        elif key == Qt.Key.Key_F2 and chosen:
            self.rename(chosen[0].id)
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and chosen:
            self.open_requested.emit(chosen[0].id)
        else:
            super().keyPressEvent(event)

    def startDrag(self, supportedActions: Qt.DropAction) -> None:  # noqa: N803 - Qt's name
        drag = QDrag(self)
        drag.setMimeData(self._runs.mimeData(self.selectionModel().selectedRows()))
        drag.setPixmap(drag_pixmap(self.highlighted()))
        drag.exec(supportedActions, Qt.DropAction.CopyAction)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_columns()

    def _toggle(self, chosen: tuple[RunRecord, ...]) -> None:
        ids = {run.id for run in chosen if run.status is not Status.QUEUED}
        checked = set(self._runs.checked())
        wanted = checked - ids if ids <= checked else checked | ids
        self._runs.set_checked(wanted)

    def _keep_highlights(self) -> None:
        self._kept = tuple(run.id for run in self.highlighted())

    def _bring_highlights_back(self) -> None:
        rows = [row for run_id in self._kept if (row := self._runs.row_of(run_id)) is not None]
        selection = QItemSelection()
        for row in rows:
            selection.select(self._runs.index(row, 0), self._runs.index(row, len(Column) - 1))
        if rows:
            self.selectionModel().setCurrentIndex(
                self._runs.index(rows[0], Column.NAME), QItemSelectionModel.SelectionFlag.NoUpdate
            )
            self.selectionModel().select(selection, QItemSelectionModel.SelectionFlag.Select)

    def _double_clicked(self, index: QModelIndex) -> None:
        if index.column() not in (Column.TICK, Column.STATUS):
            self.open_requested.emit(self._runs.run(index.row()).id)

    def _set_up_headers(self) -> None:
        rows, columns = self.verticalHeader(), self.horizontalHeader()
        rows.hide()
        rows.setAccessibleName("Rows of the runs")
        rows.setToolTip("Rows of the runs")
        self.setCornerButtonEnabled(False)
        for corner in self.findChildren(QAbstractButton):
            corner.setAccessibleName("All runs")
            corner.setToolTip("All runs")
        rows.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        rows.setDefaultSectionSize(ROW_HEIGHT)
        columns.setFixedHeight(ROW_HEIGHT)
        columns.setSectionResizeMode(Column.NAME, QHeaderView.ResizeMode.Stretch)
        for fixed in (Column.TICK, Column.MARKER):
            columns.setSectionResizeMode(fixed, QHeaderView.ResizeMode.Fixed)
        self.sortByColumn(Column.WHEN, Qt.SortOrder.DescendingOrder)

    def _fit_columns(self) -> None:
        has_tags = bool(self._runs.tags())
        widths, hidden = fitting(self.viewport().width(), has_tags)
        # only when the density changes: until then the user's own widths hold
        if widths != self._widths:
            self._widths = widths
            for column, width in widths.items():
                self.setColumnWidth(column, width)
        for column in _DISPENSABLE:
            self.setColumnHidden(column, column in hidden)


def fitting(room: int, has_tags: bool) -> tuple[dict[Column, int], set[Column]]:
    """The widths of the columns in `room` pixels, and the columns that do not fit."""
    hidden = set[Column]() if has_tags else {Column.TAGS}
    tags = 0 if has_tags else _ROOMY[Column.TAGS]
    widths = _ROOMY if sum(_ROOMY.values()) - tags <= room else _COMPACT
    least = min(widths[Column.NAME] + max(0, int(_NAME_SHARE * (room - _NARROW))), _LONGEST_NAME)
    widths = {**widths, Column.NAME: least}
    spare = room - sum(width for column, width in widths.items() if column not in hidden)
    for column in _DISPENSABLE:
        if spare < 0 and column not in hidden:
            hidden.add(column)
            spare += widths[column]
    fitting = dict(widths)
    for column, width in _WIDER.items():
        more = width - widths[column]
        if column not in hidden and 0 < more <= spare:
            fitting[column] = width
            spare -= more
    return fitting, hidden
