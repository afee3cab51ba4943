"""The table of all saved results, with its filter, its foot and the menus of its rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtWidgets import QMenu, QStackedWidget, QWidget

from engine.store.record import RunRecord, Status
from gui.runs.bar import FilterBar, NoRuns, TableFoot
from gui.runs.folders import FolderList, in_folder
from gui.runs.menu import (
    Entry,
    MarksDialog,
    add_colors,
    add_entries,
    add_folders,
    add_tags,
    fill_columns,
    toggled,
    why_no_ranges,
)
from gui.runs.table.line import Line
from gui.runs.table.model import RunsModel
from gui.runs.table.rows import Item, ItemKind, StudyRow, name_of_side
from gui.runs.table.view import RunsTable
from gui.runs.views import Views
from gui.session.studies import baseline_first, why_nothing_to_find
from gui.widgets import divider
from gui.widgets.boxes import Surface, in_column, wide
from gui.widgets.shortcuts import keys_of

if TYPE_CHECKING:
    from gui.runs.controller import RunsController


class RunsPanel(Surface):
    """The left side of Results. `edits` changes saved runs and the queue. The signals ask other parts of the
    window to show something.
    """

    edits: RunsController
    opened = Signal(object)  # Item or Line: what was clicked or moved to
    race_requested = Signal(object)  # tuple[str, ...]: a single run means its whole comparison
    export_asked = Signal(object)  # tuple[str, ...]
    use_settings_requested = Signal(object)  # RunRecord
    find_nan_requested = Signal(object)  # RunRecord
    ranges_requested = Signal(object)  # RunRecord
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
        self.table = RunsTable(self)
        self.bar, self.foot = FilterBar(), TableFoot()
        self.filter = self.bar.filter
        self.folders = FolderList(self)
        self.views = Views(self)
        self.columns = QMenu("Columns", self)
        self._can_undo = False
        self._empty = NoRuns(self._show_everything, lambda: self.edits.undo())
        self.welcome = self._empty.welcome
        self.pages = QStackedWidget()
        self.pages.addWidget(self.table)
        self.pages.addWidget(self._empty)
        in_column(self.bar, self.folders, wide(self.pages), divider(), self.foot, parent=self, spacing=0)
        self._connect()
        self._refresh()

    def _connect(self) -> None:
        table, bar, foot = self.table, self.bar, self.foot
        self.model.checked_changed.connect(self._refresh)
        self.model.rename_requested.connect(self._rename)
        table.customContextMenuRequested.connect(self._show_menu)
        header = table.horizontalHeader()
        header.customContextMenuRequested.connect(lambda at: self.columns.popup(header.mapToGlobal(at)))
        self.columns.aboutToShow.connect(lambda: fill_columns(self.columns, table, self.model))
        menu = QMenu(self)
        menu.setAccessibleName("Columns and views")
        menu.addMenu(self.views)
        menu.addMenu(self.columns)
        menu.addSeparator()
        importing = menu.addAction(f"Import runs from an archive…\t{keys_of('import')}")
        importing.triggered.connect(lambda _=False: self.import_wanted.emit())
        bar.columns.setMenu(menu)
        bar.kind_chosen.connect(self.choose_kind)
        bar.folders.toggled.connect(self.folders.setVisible)
        self.filter.textChanged.connect(self._filter)
        foot.untick.clicked.connect(lambda: self.set_checked(()))
        foot.delete.clicked.connect(lambda: self._delete(self._ticked()))
        foot.move_to.clicked.connect(self._open_folders)

    def set_runs(self, runs: Sequence[RunRecord]) -> None:
        """Show exactly these runs. Selected and highlighted runs stay so."""
        self.model.take(runs)
        self._refresh()

    def set_studies(self, studies: Sequence[StudyRow]) -> None:
        """Replace all studies."""
        self.model.take_studies(studies)
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
        """The state that survives a restart: the table, the saved views, and the folders made here."""
        return {**self.views.state(), "folders": list(self.folders.made())}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a state that `state` returned. Raises KeyError or another error for anything else."""
        self.views.restore(state)
        self.folders.set_made(map(str, state.get("folders", ())))

    def delete_highlighted(self) -> None:
        """Delete the highlighted runs and studies. Queued runs are removed from the queue."""
        self._delete(self.table.highlighted())
        for item in self.table.highlighted_items():
            if item.study is not None and not item.study.is_unfinished:
                self.study_deleted.emit(item.study)

    def _delete(self, runs: Sequence[RunRecord]) -> None:
        for run in runs:
            if run.status is Status.QUEUED:
                self.edits.experiments.dequeue(run.id)
        if over := tuple(run.id for run in runs if run.status.is_over):
            self.edits.delete(over)

    def pin(self, run: RunRecord, runs: Sequence[RunRecord]) -> None:
        """Pin runs to the top, or unpin them where `run` is pinned."""
        self.edits.runs.set_pinned(tuple(chosen.id for chosen in runs), not run.is_pinned)

    def move_runs(self, run_ids: Iterable[str], folder: str) -> None:
        """Move runs to a folder; "" for none."""
        self.edits.runs.set_folders(dict.fromkeys(run_ids, folder))

    def edit_note(self, run: RunRecord) -> None:
        """Open the dialog for the tags and the note of a run, at the note."""
        self.edit_marks((run,)).note.setFocus()

    def edit_marks(self, runs: Sequence[RunRecord]) -> MarksDialog:
        """Open the dialog for the tags of runs, and for the note of a single run."""
        dialog = MarksDialog(runs, self.edits.runs, self)
        dialog.open()
        return dialog

    def item_menu(self, item: Item) -> QMenu:
        """The context menu of a study without runs, or else that of the runs below an item."""
        if item.lines:
            return self.menu_for(item.lines[0].run, tuple(line.run for line in item.lines), item.key)
        menu = QMenu(self)
        menu.setAccessibleName(f"Actions for {item.title}")
        if (study := item.study) is not None:
            unfinished = "This has not ended yet." if study.is_unfinished else None
            delete = "Delete…" if study.kind == "sweep" else "Delete"
            entries = [
                Entry("Open", lambda: self.opened.emit(item)),
                Entry(delete, lambda: self.study_deleted.emit(study), unfinished),
            ]
            add_entries(menu, entries)
        return menu

    def menu_for(self, run: RunRecord, runs: tuple[RunRecord, ...] = (), key: str | None = None) -> QMenu:
        """The context menu of a run, or of the `runs` of an item of that `key`."""
        menu = QMenu(self)
        menu.setAccessibleName(f"Actions for {run.title}")
        highlighted = self.table.highlighted()
        marked = runs or (highlighted if run.id in {chosen.id for chosen in highlighted} else (run,))
        ids, saved = tuple(chosen.id for chosen in marked), self.edits.runs
        add_entries(menu, self._entries(run, marked, key or run.id))
        add_tags(
            menu,
            marked,
            self.model.tags,
            lambda tag: saved.set_tags(toggled(marked, tag)),
            lambda: self.edit_marks(marked).tags.setFocus(),
        )
        self._add_folders(menu, marked)
        add_colors(menu, marked, lambda colour: saved.set_colour(ids, colour))
        add_entries(menu, [Entry("Note…", lambda: self.edit_note(run))])
        menu.addSeparator()
        add_entries(menu, self._place_entries(run, marked))
        menu.addSeparator()
        add_entries(menu, self._last_entries(run, marked))
        return menu

    def _add_folders(self, menu: QMenu, runs: Sequence[RunRecord]) -> QMenu:
        ids = tuple(run.id for run in runs)
        return add_folders(
            menu,
            runs,
            self.folders.names(),
            lambda folder: self.move_runs(ids, folder),
            lambda: self.folders.ask_for_new(lambda folder: self.move_runs(ids, folder)),
        )

    def _entries(self, run: RunRecord, marked: Sequence[RunRecord], key: str) -> list[Entry]:
        unborn = "This run has not started yet." if run.status is Status.QUEUED else None
        ids, ticked = tuple(chosen.id for chosen in marked), self.checked()
        # a run that is not ticked is meant by itself
        raced = ticked if len(ticked) > 1 and run.id in ticked else (run.id,)
        is_alone = len(raced) == 1 and run.comparison is None
        alone = "Select two or more runs to show them side by side." if is_alone else None
        profiled = tuple(run.id for run in baseline_first(marked))
        unprofiled = self.edits.experiments.why_not_profiled(profiled)
        return [
            Entry("Show its curves", lambda: self.open_requested.emit(run.id), unborn),
            Entry("Details", lambda: self.details_requested.emit(run.id), unborn),
            Entry("Use these settings", lambda: self.use_settings_requested.emit(run)),
            Entry("Compare only these", lambda: self.set_checked(ids), unborn),
            Entry("Show side by side", lambda: self.race_requested.emit(raced), unborn or alone),
            Entry("Export…", lambda: self.export_asked.emit(ids), unborn),
            Entry("Profile", lambda: self.profile_requested.emit(profiled), unprofiled),
            Entry("Find the first NaN", lambda: self.find_nan_requested.emit(run), why_nothing_to_find(run)),
            Entry("Show sampled ranges", lambda: self.ranges_requested.emit(run), why_no_ranges(run)),
            Entry("Rename", lambda: self.table.rename(key)),
        ]

    def _place_entries(self, run: RunRecord, marked: Sequence[RunRecord]) -> list[Entry]:
        pin = "Unpin\tP" if run.is_pinned else "Pin to the top\tP"
        entries = [Entry(pin, lambda: self.pin(run, marked))]
        if self.model.baseline != run.id:
            unborn = None if run.status.is_over else "This run has no results yet."
            entries.append(Entry("Use as baseline", lambda: self.model.set_baseline(run.id), unborn))
        if self.model.baseline is not None:
            entries.append(Entry("Clear the baseline", lambda: self.model.set_baseline(None)))
        if (sweep := run.sweep) is not None:
            entries.append(Entry("Show its sweep", lambda: self.sweep_requested.emit(sweep)))
        return entries

    def _last_entries(self, run: RunRecord, marked: Sequence[RunRecord]) -> list[Entry]:
        experiments = self.edits.experiments
        if run.status is Status.RUNNING:
            return [Entry("Stop", experiments.stop)]
        if run.status is Status.QUEUED:
            held = experiments.why_not_started(run)
            return [
                Entry("Run", lambda: experiments.resume_waiting((run.id,)), held),
                Entry("Remove from the queue", lambda: self._delete(marked)),
            ]
        ended = experiments.why_not_resumed(run)
        return [
            Entry("Resume", lambda: self.resume_requested.emit(run.id), ended),
            Entry("Delete", lambda: self._delete(marked)),
        ]

    def rename_folder(self, folder: str, name: str) -> None:
        """Move the runs of a folder to one of another name."""
        self.move_runs(self.model.in_folder(folder), name)
        self._filter_by(folder, name)

    def delete_folder(self, folder: str) -> None:
        if run_ids := self.model.in_folder(folder):
            self.edits.delete_folder(folder, run_ids)
        self._filter_by(folder, "")

    def _filter_by(self, folder: str, other: str) -> None:
        text = self.filter.text()
        if f'folder:"{folder}"'.casefold() in text.casefold():
            self.filter.setText(in_folder(text, other))

    def _ticked(self) -> tuple[RunRecord, ...]:
        return tuple(self.model.lines[run_id].run for run_id in self.checked())

    def _open_folders(self) -> None:
        menu, button = QMenu(self), self.foot.move_to
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        folders = self._add_folders(menu, self._ticked())
        folders.popup(button.mapToGlobal(button.rect().topLeft() - QPoint(0, folders.sizeHint().height())))

    def _show_everything(self) -> None:
        self.choose_kind(None)
        self.filter.clear()

    def _filter(self, text: str) -> None:
        self.model.set_filter(text)
        self.folders.mark(text)
        self._refresh()

    def _rename(self, row: Item | Line, name: str) -> None:
        if isinstance(row, Line):
            self.edits.runs.rename(row.key, name)
            return
        for line in row.lines:
            self.edits.runs.rename(line.key, name_of_side(line.run, name))

    def _show_menu(self, place: QPoint) -> None:
        index = self.table.indexAt(place)
        row = self.model.shown[index.row()] if index.isValid() else None
        if isinstance(row, Item | Line):
            menu = self.menu_for(row.run) if isinstance(row, Line) else self.item_menu(row)
            menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            menu.popup(self.table.viewport().mapToGlobal(place))

    def _refresh(self) -> None:
        total = len(self.model.lines)
        studies = sum(item.kind != "comparison" for item in self.model.items)
        self.foot.show_counts(len(self.model.found), total, studies, len(self.checked()))
        self.folders.show_counts(self.model.folders)
        looked_for = self.filter.text().strip()
        self._empty.tell(looked_for, has_any=bool(total or studies), can_undo=self._can_undo)
        self.pages.setCurrentIndex(0 if self.model.rowCount() else 1)
