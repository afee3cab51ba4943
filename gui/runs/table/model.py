"""The tree of all saved results: comparisons and studies with their runs, filtered, sorted and selected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import Any

from PySide6.QtCore import QAbstractItemModel, QMimeData, QModelIndex, QObject, Qt, Signal

from engine.store.record import RunRecord, Status
from engine.words.numbers import times
from gui.runs.table.columns import COLUMNS, COMPARED, NAME, PLACES, RATIO, STATUS, THROUGHPUT, TICK, WHEN
from gui.runs.table.columns import is_unreliable as is_unreliable_ratio
from gui.runs.table.rows import (
    KINDS,
    RUNS_MIME_TYPE,
    Heading,
    Item,
    ItemKind,
    Row,
    RowFilter,
    RunRow,
    StudyRow,
    begun,
    day_words,
    dragged_runs,
    items_of,
    set_baselines,
    short_time_text,
)
from gui.widgets.labels import plain_tip
from gui.widgets.table.columns import in_order
from gui.widgets.table.model import Index

_INVALID = QModelIndex()
_LAYOUT = "QList<QPersistentModelIndex>,QAbstractItemModel::LayoutChangeHint"
_BY_ROWS = QAbstractItemModel.LayoutChangeHint.VerticalSortHint
"""Views then keep a selection by rows. Cell by cell it takes seconds for thousands of rows."""
_BARE = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable
_GROUP = _BARE | Qt.ItemFlag.ItemIsDragEnabled
_RUN = _GROUP | Qt.ItemFlag.ItemNeverHasChildren
_NAMED_GROUP, _NAMED_RUN = _GROUP | Qt.ItemFlag.ItemIsEditable, _RUN | Qt.ItemFlag.ItemIsEditable
_TICKABLE = _GROUP | Qt.ItemFlag.ItemIsUserCheckable
_HEADING = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemNeverHasChildren
"""Combined once: a view asks for the flags of each row whenever rows change."""
_TICKED = {Qt.CheckState.Checked: "selected", Qt.CheckState.PartiallyChecked: "partly selected"}
_PICTURES_HEADING = ("img/s", "Images trained per second, excluding warm-up")
_DEFAULT_BASELINE = "the first run of its own comparison"
_FAILED = (Status.FAILED, Status.INTERRUPTED)


class RunsModel(QAbstractItemModel):
    """The rows of the results, with the runs of a comparison or a sweep below it.

    Sorted by time, days have headings. In any other order, the rows are a flat list of runs. `rows` are the
    top rows, `lines` all runs by id, shown or not, `found` the ids of the runs that match the filter, and
    `tags` the most frequent tags first. It sorts and filters by itself: QSortFilterProxyModel takes seconds
    for 10,000 runs.
    """

    tags_changed = Signal()
    checked_changed = Signal(object)  # tuple[str, ...]
    rename_requested = Signal(object, str)  # Item or RunRow, the new name

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.columns = COLUMNS
        self.rows: list[Row] = []
        self.lines: dict[str, RunRow] = {}
        self.items: tuple[Item, ...] = ()
        self.found: set[str] = set()
        self.tags: tuple[str, ...] = ()
        self.baseline: str | None = None
        self.paused: str | None = None
        self.sorted_by = (WHEN, Qt.SortOrder.DescendingOrder)
        self._below: list[tuple[RunRow, ...]] = []
        self._top: dict[str, int] = {}
        self._inner: dict[str, tuple[int, int]] = {}
        self._studies: tuple[StudyRow, ...] = ()
        self._kind: ItemKind | None = None
        self._filter = RowFilter()
        self._ordered: list[RunRow] | None = None
        self._next: str | None = None
        self._only_pictures = True
        self._checked: set[str] = set()
        self._progress: dict[str, float] = {}

    def set_runs(self, runs: Iterable[RunRecord]) -> None:
        """Replace all runs. Selection, progress and scroll position are kept."""
        lines = {run.id: self._line(run) for run in runs}
        if lines == self.lines:
            return
        had_tags, self.lines = bool(self.tags), lines
        queued = [line.run for line in lines.values() if line.run.status is Status.QUEUED]
        self._next = min(queued, key=lambda run: run.number).id if queued else None
        self._only_pictures = all(line.has_pictures for line in lines.values())
        tags = Counter(tag for line in lines.values() for tag in line.run.tags)
        self.tags = tuple(tag for tag, _ in tags.most_common())
        running = {key for key, line in lines.items() if line.run.status is Status.RUNNING}
        self._progress = {key: known for key, known in self._progress.items() if key in running}
        self.paused = self.paused if self.paused in running else None
        self._group()
        self.headerDataChanged.emit(Qt.Orientation.Horizontal, THROUGHPUT, THROUGHPUT)
        if had_tags != bool(self.tags):
            self.tags_changed.emit()
        self.set_checked(self._checked)

    def _line(self, run: RunRecord) -> RunRow:
        line = self.lines.get(run.id)
        # the store returns the same record while a run is unchanged
        return line if line is not None and (line.run is run or line.run == run) else RunRow(run)

    def set_studies(self, studies: Iterable[StudyRow]) -> None:
        """Replace all studies."""
        held, self._studies = self._studies, tuple(studies)
        if held != self._studies:
            self._group()

    def update_run(self, run: RunRecord) -> None:
        """Add a run, or show what has changed in it."""
        self.set_runs({**{run_id: line.run for run_id, line in self.lines.items()}, run.id: run}.values())

    def set_baseline(self, run_id: str | None) -> None:
        """Set the baseline of all runs. None, or an unknown run, means the first run of each comparison."""
        if run_id != self.baseline:
            self.baseline = run_id
            self._group()
            self.headerDataChanged.emit(Qt.Orientation.Horizontal, RATIO, max(COMPARED))

    def _group(self) -> None:
        self._ordered = None
        set_baselines(self.lines.values(), self.lines.get(self.baseline or ""))
        self.items = items_of(self.lines.values(), self._studies)
        self._show()

    def set_filter(self, text: str) -> None:
        """Show the results that match `text`, as `RowFilter` understands it."""
        self._filter = RowFilter(text)
        self._show()

    def choose_kind(self, kind: ItemKind | None) -> None:
        """Show the results of one kind, or all for None."""
        self._kind = kind
        self._show()

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        self.sorted_by, self._ordered = (column, order), None
        self._show()

    @property
    def _is_tree(self) -> bool:
        return self.sorted_by[0] == WHEN

    @property
    def _is_descending(self) -> bool:
        return self.sorted_by[1] is Qt.SortOrder.DescendingOrder

    def _show(self) -> None:
        of_kind = (line for line in self.lines.values() if self._is_of_kind(line))
        self.found = {line.key for line in self._filter.among(of_kind)}
        rows: list[Row] = self._tree() if self._is_tree else self._flat()
        below = [self._found_in(row) if isinstance(row, Item) else () for row in rows]
        top = dict(zip((row.key for row in rows), range(len(rows)), strict=True))
        inner = {line.key: (n, place) for place, lines in enumerate(below) for n, line in enumerate(lines)}
        if list(top) == list(self._top) and inner == self._inner:
            self.rows, self._below = rows, below
            self._emit_columns(0, len(COLUMNS) - 1)
            return
        self.layoutAboutToBeChanged[_LAYOUT].emit([], _BY_ROWS)  # type: ignore[index]
        before = self.persistentIndexList()
        keys = [self.row_at(index).key for index in before]
        self.rows, self._below, self._top, self._inner = rows, below, top, inner
        after = [self.index_of(key, index.column()) for key, index in zip(keys, before, strict=True)]
        self.changePersistentIndexList(before, after)
        self.layoutChanged[_LAYOUT].emit([], _BY_ROWS)  # type: ignore[index]

    def _is_of_kind(self, line: RunRow) -> bool:
        return self._kind in (None, "sweep" if line.run.sweep else "comparison")

    def _is_wanted(self, item: Item) -> bool:
        return self._kind in (None, item.kind) and item.study is not None and self._filter(item.study)

    def _found_in(self, item: Item) -> tuple[RunRow, ...]:
        # a study is found by its own words, which its runs need not have
        return tuple(line for line in item.lines if line.key in self.found) or item.lines

    def _flat(self) -> list[Row]:
        if self._ordered is None:
            column = self.columns[self.sorted_by[0]]
            value = column.value or (lambda line: column.text(line).casefold())
            # the pinned are on top in either direction; among equals the newest is first
            newest = sorted(self.lines.values(), key=lambda line: line.run.number, reverse=True)
            ordered = in_order(newest, value, descends=self._is_descending)
            self._ordered = sorted(ordered, key=lambda line: not line.is_pinned)
        bare = [item for item in self.items if not item.lines and self._is_wanted(item)]
        newest_first = sorted(bare, key=lambda item: item.when, reverse=True)
        return [*(line for line in self._ordered if line.key in self.found), *newest_first]

    def _tree(self) -> list[Row]:
        found = self.found
        roots: list[Item | RunRow] = [
            item
            for item in self.items
            if self._is_wanted(item) or any(line.key in found for line in item.lines)
        ]
        roots += [line for key in found if (line := self.lines[key]).item is None]
        roots.sort(key=lambda root: root.place_in_time, reverse=self._is_descending)
        today, words = date.today(), ""
        rows: list[Row] = []
        for root in sorted(roots, key=lambda root: not root.is_pinned):
            rank, seconds, _ = root.place_in_time
            day = date.fromtimestamp(abs(seconds))
            heading = "Pinned" if root.is_pinned else "In progress" if rank else day_words(day, today)
            if heading != words:
                words = heading
                rows.append(Heading(words))
            rows.append(root)
        return rows

    def row_at(self, index: Index) -> Row:
        """Return the row of a valid index."""
        group = index.internalId()
        return self.rows[index.row()] if group == 0 else self._below[group - 1][index.row()]

    def index_of(self, key: str, column: int = NAME) -> QModelIndex:
        """Return the index of a run, by its id, or of an item, by its key. Invalid if it is not shown."""
        if (place := self._top.get(key)) is not None:
            return self.createIndex(place, column, 0)
        row, group = self._inner.get(key, (0, -1))
        return self.createIndex(row, column, group + 1) if group >= 0 else QModelIndex()

    def position(self, key: str) -> tuple[int, int]:
        """Return a key that sorts shown rows from top to bottom."""
        row, group = self._inner.get(key, (-1, self._top.get(key, -1)))
        return group, row

    def item(self, key: str) -> Item | None:
        """Return the item with that key, shown or not."""
        return next((item for item in self.items if item.key == key), None)

    def owner(self, run_id: str) -> Item | None:
        """Return the comparison or sweep that a run belongs to, if any."""
        line = self.lines.get(run_id)
        return None if line is None else line.item

    def runs_of(self, row: Row) -> tuple[RunRecord, ...]:
        """Return the run of a row, or the runs below it that pass the filter."""
        if isinstance(row, RunRow):
            return (row.run,)
        return tuple(line.run for line in self._found_in(row)) if isinstance(row, Item) else ()

    def set_progress(self, run_id: str, fraction: float, is_paused: bool = False) -> None:
        """Set how far a running run is, 0 to 1, and whether it is paused."""
        self._progress[run_id] = min(max(fraction, 0.0), 1.0)
        self.paused = run_id if is_paused else None
        if self.index_of(run_id).isValid():
            self.dataChanged.emit(self.index_of(run_id, THROUGHPUT), self.index_of(run_id, STATUS))

    def progress(self, run_id: str) -> float | None:
        """Return the progress of a run, 0 to 1, or None if unknown."""
        return self._progress.get(run_id)

    def set_checked(self, ids: Iterable[str]) -> None:
        """Select exactly these runs."""
        wanted = self.lines.keys() & set(ids)
        if wanted != self._checked:
            self._checked = wanted
            self._emit_columns(TICK, STATUS)
            self.checked_changed.emit(self.checked())

    def checked(self) -> tuple[str, ...]:
        """Return the selected runs, oldest first."""
        ticked = [line.run for key, line in self.lines.items() if key in self._checked]
        return tuple(run.id for run in sorted(ticked, key=lambda run: run.number))

    def toggle(self, rows: Iterable[Row]) -> None:
        """Select the runs of some rows, or deselect them if all are selected."""
        ids = self._tickable(rows)
        self.set_checked(self._checked - ids if ids <= self._checked else self._checked | ids)

    def ticks(self, rows: Iterable[Row] | None = None) -> Qt.CheckState:
        """Return whether all, some or none of the runs in rows, or of all shown, are selected."""
        if not self._checked:
            return Qt.CheckState.Unchecked
        ids = self._tickable(self.rows if rows is None else rows)
        ticked = len(ids & self._checked)
        if ticked == 0:
            return Qt.CheckState.Unchecked
        return Qt.CheckState.Checked if ticked == len(ids) else Qt.CheckState.PartiallyChecked

    def can_tick(self, row: Row) -> bool:
        """Return True if a row has a run that has started."""
        return bool(self._tickable([row]))

    def _tickable(self, rows: Iterable[Row]) -> set[str]:
        runs = (run for row in rows for run in self.runs_of(row))
        return {run.id for run in runs if run.status is not Status.QUEUED}

    def index(self, row: int, column: int, parent: Index = _INVALID) -> QModelIndex:
        # a view asks for each row whenever rows change
        group = parent.row() + 1 if parent.isValid() else 0
        count = self.rowCount(parent) if group else len(self.rows)
        is_there = 0 <= row < count and 0 <= column < len(COLUMNS)
        return self.createIndex(row, column, group) if is_there else QModelIndex()

    def parent(self, index: Index = _INVALID) -> QModelIndex:  # type: ignore[override]
        group = index.internalId() if index.isValid() else 0
        return self.createIndex(group - 1, 0, 0) if group else QModelIndex()

    def rowCount(self, parent: Index = _INVALID) -> int:
        if not parent.isValid():
            return len(self.rows)
        return 0 if parent.column() or parent.internalId() else len(self._below[parent.row()])

    def columnCount(self, parent: Index = _INVALID) -> int:
        return len(COLUMNS)

    def hasChildren(self, parent: Index = _INVALID) -> bool:
        return self.rowCount(parent) > 0

    def heading(self, column: int) -> tuple[str, str]:
        """Return the heading of a column, which names the baseline, and its tooltip."""
        if column == THROUGHPUT and self._only_pictures:
            return _PICTURES_HEADING
        words, tip = self.columns[column].title, self.columns[column].tip
        if column not in COMPARED:
            return words, tip
        chosen = self.lines.get(self.baseline or "")
        if chosen is None:
            words = "Ratio" if column == RATIO else words.format("first")
            return words, tip.format(_DEFAULT_BASELINE)
        return words.format(chosen.name), tip.format(f"“{chosen.run.title}”")

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation is not Qt.Orientation.Horizontal:
            return None
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return self.heading(section)[0]
            case Qt.ItemDataRole.ToolTipRole:
                return plain_tip(self.heading(section)[1])
            case Qt.ItemDataRole.TextAlignmentRole:
                return self.columns[section].alignment
        return None

    def result(self, row: Row) -> str:
        """Return the result of a study, or why a run has no metrics. It spans the columns of metrics."""
        if isinstance(row, Item):
            return row.result
        if isinstance(row, Heading) or row.run.status in (Status.FINISHED, Status.STOPPED):
            return ""
        if row.run.status in _FAILED:
            return row.failure if row.overview.samples_per_second is None else ""
        return self.text(row, STATUS)

    def text(self, row: Row, column: int) -> str:
        """Return the text of a cell."""
        if isinstance(row, Heading):
            return row.words if column == NAME else ""
        if isinstance(row, Item):
            return self._item_text(row, column)
        if column == STATUS and row.key == self.paused:
            return "Paused"
        return self._when(row) if column == WHEN else self.columns[column].text(row)

    def _item_text(self, item: Item, column: int) -> str:
        if column == NAME:
            return f"{item.title}, {item.about}"
        if column == WHEN:
            return self._moment(item.when, is_pinned=item.is_pinned)
        if column == RATIO:
            ratio = f"{times(item.ratio)}×" if item.ratio is not None else ""
            return "failed" if item.is_failed else ratio
        # the result is painted across all metrics
        return {PLACES["MODEL"]: item.model, THROUGHPUT: item.result}.get(column, "")

    def _when(self, line: RunRow) -> str:
        if line.run.status is Status.QUEUED:
            return "next" if line.key == self._next else "later"
        if line.run.status is Status.RUNNING:
            return "now"
        is_below = self._is_tree and line.item is not None
        return "" if is_below else self._moment(begun(line.run), is_pinned=line.is_pinned)

    def _moment(self, moment: datetime, *, is_pinned: bool) -> str:
        if self._is_tree and not is_pinned:
            # the heading above says the day
            return f"{moment.astimezone():%H:%M}"
        return short_time_text(moment, datetime.now().astimezone())

    def is_unreliable(self, row: Row, column: int = RATIO) -> bool:
        """Return True if a ratio of times is not reliable, because a run was disturbed."""
        if isinstance(row, Item):
            return column == RATIO and row.is_spoiled
        figure = COMPARED.get(column)
        return isinstance(row, RunRow) and figure is not None and is_unreliable_ratio(row, figure)

    def tip(self, row: Row, column: int) -> str:
        """Return the tooltip of a cell, or "" for none."""
        if isinstance(row, RunRow):
            about = self.columns[column].about
            return about(row) if about is not None else ""
        if isinstance(row, Heading) or column == TICK:
            return ""
        parts = row.title, row.about, row.result, row.study.device if row.study else ""
        return "\n".join(filter(None, parts))

    def spoken(self, row: Row, column: int) -> str:
        """Return the text of a cell for screen readers."""
        if isinstance(row, Heading):
            return row.words
        if column == TICK:
            name = row.title if isinstance(row, Item) else row.run.title
            return f"{name}, {_TICKED.get(self.ticks([row]), 'not selected')}"
        caution = ", unreliable" if self.is_unreliable(row, column) else ""
        words = f"{self.heading(column)[0]}: {self.text(row, column)}{caution}"
        if column != NAME:
            return words
        if isinstance(row, Item):
            return f"{words}, {KINDS[row.kind][0]}"
        pinned = ", pinned" if row.is_pinned else ""
        baseline = ", the baseline" if row.key == self.baseline else ""
        note = f". Note: {row.run.note}" if row.run.note else ""
        return f"{words}{pinned}{baseline}{note}"

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        row, column = self.row_at(index), index.column()
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return self.text(row, column)
            case Qt.ItemDataRole.EditRole:
                return self._name(row)
            case Qt.ItemDataRole.CheckStateRole if column == TICK and self.runs_of(row):
                return self.ticks([row])
            case Qt.ItemDataRole.ToolTipRole:
                return plain_tip(self.tip(row, column)) or None
            case Qt.ItemDataRole.AccessibleTextRole:
                return self.spoken(row, column)
        return None

    def _name(self, row: Row) -> str:
        return row.name if isinstance(row, RunRow) else row.title if isinstance(row, Item) else row.words

    def setData(self, index: Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        row, column = self.row_at(index), index.column()
        if role == Qt.ItemDataRole.CheckStateRole and column == TICK and self.can_tick(row):
            self.toggle([row])
            return True
        name = str(value).strip()
        if role == Qt.ItemDataRole.EditRole and column == NAME and name != self._name(row):
            if name:
                self.rename_requested.emit(row, name)
            return bool(name)
        return False

    def flags(self, index: Index) -> Qt.ItemFlag:
        if not index.isValid():
            return Qt.ItemFlag.NoItemFlags
        row, column = self.row_at(index), index.column()
        if isinstance(row, Heading):
            return _HEADING
        if column == TICK and self.can_tick(row):
            return _TICKABLE
        if isinstance(row, RunRow):
            return _NAMED_RUN if column == NAME else _RUN
        if not row.lines:
            return _BARE
        return _NAMED_GROUP if column == NAME and row.kind == "comparison" else _GROUP

    def mimeTypes(self) -> list[str]:
        return [RUNS_MIME_TYPE, "text/plain"]

    def mimeData(self, indexes: Sequence[QModelIndex]) -> QMimeData:
        runs = (run for index in indexes for run in self.runs_of(self.row_at(index)))
        return dragged_runs(tuple(dict.fromkeys((run.id, run.title) for run in runs)))

    def supportedDragActions(self) -> Qt.DropAction:
        return Qt.DropAction.CopyAction

    def _emit_columns(self, first: int, last: int) -> None:
        for parent in (
            QModelIndex(),
            *(self.index(place, 0) for place, lines in enumerate(self._below) if lines),
        ):
            if (count := self.rowCount(parent)) > 0:
                self.dataChanged.emit(self.index(0, first, parent), self.index(count - 1, last, parent))
