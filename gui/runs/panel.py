"""The table of results with its filter, foot and menus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtWidgets import QMenu, QStackedWidget, QWidget

from engine.store.record import RunRecord, Status
from gui.runs.bar import FilterBar, NoRuns, TableFoot
from gui.runs.table.columns import COLUMNS, COMPARED, FIXED, PLACES, SETTINGS, USUAL
from gui.runs.table.model import RunsModel
from gui.runs.table.rows import Item, ItemKind, RunRow, StudyRow, name_of_side
from gui.runs.table.view import RunsTable
from gui.runs.tags import TagsDialog, add_tags, toggled
from gui.session.experiments import Experiments
from gui.session.kinds import baseline_first, why_nothing_to_find
from gui.widgets import divider
from gui.widgets.actions import keys_of
from gui.widgets.boxes import Surface, in_column, wide
from gui.widgets.labels import plain_tip

_GROUPS = ("Model and training", "Optimizer and schedule", "Step and loss scale", "Loading and saving")
_GROUP_OF = {"optimizer": 1, "schedule": 1, "step": 2, "scaler": 2, "measure": 2} | dict.fromkeys(
    ("data", "validation", "checkpoint"), 3
)


@dataclass(frozen=True)
class MenuEntry:
    """An entry of a menu: its text and its action. If disabled, `against` is the reason."""

    words: str
    do: Callable[[], object]
    against: str | None = None


def add_entries(menu: QMenu, entries: Sequence[MenuEntry]) -> None:
    """Add entries to a menu. The tooltip of a disabled one says why."""
    menu.setToolTipsVisible(True)
    for entry in entries:
        action = menu.addAction(entry.words)
        action.setToolTip(plain_tip(entry.against or entry.words))
        action.setEnabled(entry.against is None)
        action.triggered.connect(lambda _=False, do=entry.do: do())


def fill_columns(menu: QMenu, table: RunsTable, model: RunsModel) -> None:
    """Fill a menu with all columns: metrics, differences and settings. Shown columns are checked."""

    def add(menu: QMenu, columns: Iterable[int]) -> None:
        menu.setToolTipsVisible(True)
        for column in columns:
            words, tip = model.heading(column)
            action = menu.addAction(words.replace("&", "&&"))
            action.setToolTip(plain_tip(tip))
            action.setCheckable(True)
            action.setChecked(table.is_shown(column))
            action.toggled.connect(lambda is_shown, column=column: table.choose(column, is_shown))

    menu.clear()
    menu.setAccessibleName("Columns")
    add(menu, (column for column in USUAL if column not in FIXED))
    menu.addSeparator()
    others = [column for column in range(len(COLUMNS)) if column not in USUAL and column not in SETTINGS]
    add(menu.addMenu("Metrics"), (column for column in others if column not in COMPARED))
    add(menu.addMenu("Relative to the baseline"), (column for column in others if column in COMPARED))
    menu.addSeparator()
    groups = {column: _GROUP_OF.get(key.partition(".")[0], 0) for column, key in SETTINGS.items()}
    for place, words in enumerate(_GROUPS):
        add(menu.addMenu(words), (column for column, group in groups.items() if group == place))
    menu.addSeparator()
    usual = menu.addAction("Default columns")
    usual.setToolTip("Show the default columns in their default order and widths")
    usual.triggered.connect(lambda _=False: table.reset_columns())


class RunsPanel(Surface):
    """The table of results with its bars and menus.

    It changes the runs and the queue of `experiments`. The signals ask for what needs other parts of the
    window.
    """

    experiments: Experiments
    opened = Signal(object)  # Item or RunRow: what was clicked or moved to
    delete_wanted = Signal(object)  # tuple[str, ...]
    undo_wanted = Signal()
    race_requested = Signal(object)  # tuple[str, ...]: a single run means its whole comparison
    export_asked = Signal(object)  # tuple[str, ...]
    use_settings_requested = Signal(object)  # RunRecord
    find_nan_requested = Signal(object)  # RunRecord
    profile_requested = Signal(object)  # tuple[str, ...]
    sweep_requested = Signal(str)  # sweep id
    resume_requested = Signal(str)
    open_requested = Signal(str)
    details_requested = Signal(str)
    study_deleted = Signal(object)  # StudyRow
    import_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("dock", parent=parent)
        self.model = RunsModel(self)
        self.checked_changed, self.set_progress = self.model.checked_changed, self.model.set_progress
        self.checked, self.set_checked = self.model.checked, self.model.set_checked
        self.table = RunsTable(self.model)
        self.bar, self.foot = FilterBar(), TableFoot()
        self.filter = self.bar.filter
        self.columns = QMenu("Columns", self)
        self._can_undo = False
        self._empty = NoRuns(self._show_everything, self.undo_wanted.emit)
        self.welcome = self._empty.welcome
        self.pages = QStackedWidget()
        self.pages.addWidget(self.table)
        self.pages.addWidget(self._empty)
        in_column(self.bar, wide(self.pages), divider(), self.foot, parent=self, spacing=0)
        self._connect()
        self._refresh()

    def _connect(self) -> None:
        table, bar, foot = self.table, self.bar, self.foot
        self.model.checked_changed.connect(self._refresh)
        self.model.rename_requested.connect(self._rename)
        table.customContextMenuRequested.connect(self._show_menu)
        table.opened.connect(self.opened)
        table.open_wanted.connect(self.open_requested)
        table.delete_wanted.connect(self.delete_highlighted)
        table.pin_wanted.connect(lambda runs: self.pin(runs[0], runs))
        table.note_wanted.connect(self.edit_note)
        table.end_wanted.connect(self._end)
        header = table.header()
        header.customContextMenuRequested.connect(lambda at: self.columns.popup(header.mapToGlobal(at)))
        self.columns.aboutToShow.connect(lambda: fill_columns(self.columns, table, self.model))
        menu = QMenu(self)
        menu.setAccessibleName("Columns and import")
        menu.addMenu(self.columns)
        menu.addSeparator()
        importing = menu.addAction(f"Import runs from an archive…\t{keys_of('import')}")
        importing.triggered.connect(lambda _=False: self.import_wanted.emit())
        bar.columns.setMenu(menu)
        bar.kind_chosen.connect(self.choose_kind)
        self.filter.textChanged.connect(self._filter)
        foot.untick.clicked.connect(lambda: self.set_checked(()))
        foot.delete.clicked.connect(lambda: self._delete(self._ticked()))

    def set_runs(self, runs: Sequence[RunRecord]) -> None:
        """Show exactly these runs. Selected and highlighted runs stay so."""
        self.model.set_runs(runs)
        self._refresh()

    def set_studies(self, studies: Sequence[StudyRow]) -> None:
        """Replace all studies."""
        self.model.set_studies(studies)
        self._refresh()

    def choose_kind(self, kind: ItemKind | None) -> None:
        """Show the results of one kind, or all for None."""
        self.bar.show_kind(kind)
        self.model.choose_kind(kind)
        self._refresh()

    def update_run(self, run: RunRecord) -> None:
        """Add a run, or show what has changed in it."""
        self.model.update_run(run)
        self._refresh()

    def set_can_undo(self, can_undo: bool) -> None:
        """Set whether deleted runs can be restored, which an empty table offers."""
        self._can_undo = can_undo
        self._refresh()

    def state(self) -> dict[str, Any]:
        """Return the state that survives a restart: columns, order and baseline, as plain JSON values."""
        column, order = self.model.sorted_by
        return {
            "columns": self.table.columns(),
            "column": COLUMNS[column].name,
            "descending": order is Qt.SortOrder.DescendingOrder,
            "baseline": self.model.baseline,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a state that `state` returned. Raises KeyError or another error for anything else."""
        self.table.set_columns(state["columns"])
        order = Qt.SortOrder.DescendingOrder if state["descending"] else Qt.SortOrder.AscendingOrder
        self.table.sortByColumn(PLACES[state["column"]], order)
        self.model.set_baseline(state["baseline"])

    def delete_highlighted(self) -> None:
        """Delete the highlighted runs and studies. Queued runs are removed from the queue."""
        self._delete(self.table.highlighted())
        for row in self.table.highlighted_rows():
            if isinstance(row, Item) and row.study is not None and not row.study.is_unfinished:
                self.study_deleted.emit(row.study)

    def _end(self, run: RunRecord) -> None:
        if run.status is Status.RUNNING:
            self.experiments.stop()
        else:
            self.experiments.dequeue(run.id)

    def _delete(self, runs: Sequence[RunRecord]) -> None:
        for run in runs:
            if run.status is Status.QUEUED:
                self.experiments.dequeue(run.id)
        if over := tuple(run.id for run in runs if run.status.is_over):
            self.delete_wanted.emit(over)

    def pin(self, run: RunRecord, runs: Sequence[RunRecord]) -> None:
        """Pin runs to the top, or unpin them where `run` is pinned."""
        self.experiments.runs.set_pinned(tuple(chosen.id for chosen in runs), not run.is_pinned)

    def edit_note(self, run: RunRecord) -> None:
        """Open the dialog for the tags and the note of a run, at the note."""
        self.edit_tags((run,)).note.setFocus()

    def edit_tags(self, runs: Sequence[RunRecord]) -> TagsDialog:
        """Open the dialog for the tags of runs, and for the note of a single run."""
        dialog = TagsDialog(runs, self.experiments.runs, self)
        dialog.open()
        return dialog

    def item_menu(self, item: Item) -> QMenu:
        """Return the context menu of a study without runs, or of the runs below an item."""
        if item.lines:
            return self.menu_for(item.lines[0].run, tuple(line.run for line in item.lines), item.key)
        menu = QMenu(self)
        menu.setAccessibleName(f"Actions for {item.title}")
        if (study := item.study) is not None:
            unfinished = "This has not ended yet." if study.is_unfinished else None
            delete = "Delete…" if study.kind == "sweep" else "Delete"
            entries = [
                MenuEntry("Open", lambda: self.opened.emit(item)),
                MenuEntry(delete, lambda: self.study_deleted.emit(study), unfinished),
            ]
            add_entries(menu, entries)
        return menu

    def menu_for(self, run: RunRecord, runs: tuple[RunRecord, ...] = (), key: str | None = None) -> QMenu:
        """Return the context menu of a run, or of the `runs` of the item with that `key`."""
        menu = QMenu(self)
        menu.setAccessibleName(f"Actions for {run.title}")
        highlighted = self.table.highlighted()
        marked = runs or (highlighted if run.id in {chosen.id for chosen in highlighted} else (run,))
        add_entries(menu, self._entries(run, marked, key or run.id))
        add_tags(
            menu,
            marked,
            self.model.tags,
            lambda tag: self.experiments.runs.set_tags(toggled(marked, tag)),
            lambda: self.edit_tags(marked).tags.setFocus(),
        )
        add_entries(menu, [MenuEntry("Note…", lambda: self.edit_note(run))])
        menu.addSeparator()
        add_entries(menu, self._place_entries(run, marked))
        menu.addSeparator()
        add_entries(menu, self._last_entries(run, marked))
        return menu

    def _entries(self, run: RunRecord, marked: Sequence[RunRecord], key: str) -> list[MenuEntry]:
        unborn = "This run has not started yet." if run.status is Status.QUEUED else None
        ids, ticked = tuple(chosen.id for chosen in marked), self.checked()
        # a run that is not ticked is meant by itself
        raced = ticked if len(ticked) > 1 and run.id in ticked else (run.id,)
        is_alone = len(raced) == 1 and run.comparison is None
        alone = "Select two or more runs to replay them." if is_alone else None
        item = self.model.item(key)
        is_named = item is None or item.kind == "comparison"
        unnamed = None if is_named else "Only runs and comparisons can be renamed here."
        profiled = tuple(run.id for run in baseline_first(marked))
        unprofiled = self.experiments.why_not_profiled(profiled)
        return [
            MenuEntry("Show its curves", lambda: self.open_requested.emit(run.id), unborn),
            MenuEntry("Details", lambda: self.details_requested.emit(run.id), unborn),
            MenuEntry("Use these settings", lambda: self.use_settings_requested.emit(run)),
            MenuEntry("Compare only these", lambda: self.set_checked(ids), unborn),
            MenuEntry("Replay", lambda: self.race_requested.emit(raced), unborn or alone),
            MenuEntry("Export…", lambda: self.export_asked.emit(ids), unborn),
            MenuEntry("Profile", lambda: self.profile_requested.emit(profiled), unprofiled),
            MenuEntry(
                "Find the first NaN", lambda: self.find_nan_requested.emit(run), why_nothing_to_find(run)
            ),
            MenuEntry("Rename", lambda: self.table.rename(key), unnamed),
        ]

    def _place_entries(self, run: RunRecord, marked: Sequence[RunRecord]) -> list[MenuEntry]:
        pin = "Unpin\tP" if run.is_pinned else "Pin to the top\tP"
        entries = [MenuEntry(pin, lambda: self.pin(run, marked))]
        if self.model.baseline != run.id:
            unborn = None if run.status.is_over else "This run has no results yet."
            entries.append(MenuEntry("Use as baseline", lambda: self.model.set_baseline(run.id), unborn))
        if self.model.baseline is not None:
            entries.append(MenuEntry("Clear the baseline", lambda: self.model.set_baseline(None)))
        if (sweep := run.sweep) is not None:
            entries.append(MenuEntry("Show its sweep", lambda: self.sweep_requested.emit(sweep)))
        return entries

    def _last_entries(self, run: RunRecord, marked: Sequence[RunRecord]) -> list[MenuEntry]:
        experiments = self.experiments
        if run.status is Status.RUNNING:
            return [MenuEntry("Stop", experiments.stop)]
        if run.status is Status.QUEUED:
            held = experiments.why_not_started(run)
            return [
                MenuEntry("Run", lambda: experiments.resume_waiting((run.id,)), held),
                MenuEntry("Remove from the queue", lambda: self._delete(marked)),
            ]
        ended = experiments.why_not_resumed(run)
        return [
            MenuEntry("Resume", lambda: self.resume_requested.emit(run.id), ended),
            MenuEntry("Delete", lambda: self._delete(marked)),
        ]

    def _ticked(self) -> tuple[RunRecord, ...]:
        return tuple(self.model.lines[run_id].run for run_id in self.checked())

    def _show_everything(self) -> None:
        self.choose_kind(None)
        self.filter.clear()

    def _filter(self, text: str) -> None:
        self.model.set_filter(text)
        self._refresh()

    def _rename(self, row: Item | RunRow, name: str) -> None:
        if isinstance(row, RunRow):
            self.experiments.runs.rename(row.key, name)
            return
        for line in row.lines:
            self.experiments.runs.rename(line.key, name_of_side(line, name))

    def _show_menu(self, place: QPoint) -> None:
        index = self.table.indexAt(place)
        row = self.model.row_at(index) if index.isValid() else None
        if isinstance(row, Item | RunRow):
            menu = self.menu_for(row.run) if isinstance(row, RunRow) else self.item_menu(row)
            menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            menu.popup(self.table.viewport().mapToGlobal(place))

    def _refresh(self) -> None:
        total = len(self.model.lines)
        studies = sum(item.kind != "comparison" for item in self.model.items)
        self.foot.show_counts(len(self.model.found), total, studies, len(self.checked()))
        looked_for = self.filter.text().strip()
        self._empty.show_reason(looked_for, has_any=bool(total or studies), can_undo=self._can_undo)
        self.pages.setCurrentIndex(0 if self.model.rowCount() else 1)
