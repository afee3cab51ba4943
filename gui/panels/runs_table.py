"""The table view of the runs: its columns, keys and highlighted rows."""

from __future__ import annotations

from PySide6.QtCore import QItemSelection, QItemSelectionModel, QModelIndex, Qt, Signal
from PySide6.QtGui import QDrag, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QAbstractButton, QAbstractItemView, QHeaderView, QTableView

from engine.records.record import RunRecord, Status
from gui.panels.runs_columns import Column
from gui.panels.runs_delegate import ROW_HEIGHT, RunsDelegate
from gui.panels.runs_drag import drag_pixmap
from gui.panels.runs_header import RunsHeader
from gui.panels.runs_model import RunsModel

_ROOMY = {
    Column.TICK: 40,
    Column.MARKER: 28,
    Column.NAME: 106,
    Column.TAGS: 120,
    Column.WHEN: 68,
    Column.MODEL: 104,
    Column.DATASET: 112,
    Column.PRECISION: 102,
    Column.RECIPE: 76,
    Column.BATCH: 64,
    Column.SPEED: 76,
    Column.PEAK: 84,
    Column.ACCURACY: 72,
    Column.RATIO: 84,
    Column.STATUS: 156,
}
_COMPACT = {
    Column.TICK: 40,
    Column.MARKER: 24,
    Column.NAME: 80,
    Column.TAGS: 84,
    Column.WHEN: 72,
    Column.MODEL: 80,
    Column.DATASET: 104,
    Column.PRECISION: 84,
    Column.RECIPE: 64,
    Column.BATCH: 56,
    Column.SPEED: 70,
    Column.PEAK: 66,
    Column.ACCURACY: 60,
    Column.RATIO: 68,
    Column.STATUS: 136,
}
# with the longest names of a precision and a speed of seven figures whole; the first needs it most
_WIDER = {Column.PRECISION: 102, Column.SPEED: 76, Column.PEAK: 74, Column.MODEL: 100}
_NARROW, _NAME_SHARE, _LONGEST_NAME = 780, 0.25, 200
"""Beyond that many pixels a name has its share before what can be told elsewhere has any."""
# what a narrow table does without, first to go first; the tip of the name still tells it
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
        """Opens the name of a run for editing in its cell."""
        row = self._runs.row_of(run_id)
        if row is not None:
            self.edit(self._runs.index(row, Column.NAME))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if self.state() == QTableView.State.EditingState:
            # the Return that ends the renaming of a run is not one that opens it
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
        # set anew only when the table changes its density: in between the user's own widths hold
        if widths != self._widths:
            self._widths = widths
            for column, width in widths.items():
                self.setColumnWidth(column, width)
        for column in _DISPENSABLE:
            self.setColumnHidden(column, column in hidden)


def fitting(room: int, has_tags: bool) -> tuple[dict[Column, int], set[Column]]:
    """The widths of the columns in so many pixels, and the columns for which there is no room."""
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
