"""The table of everything saved with its filter and foot, and the menus of what can be done with a row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtWidgets import QFrame, QMenu, QStackedWidget, QWidget

from engine.store.record import RunRecord, Status
from gui.runs.bar import FilterBar, NoRuns, TableFoot
from gui.runs.folders import FolderList, in_folder
from gui.runs.menu import (
    Entry,
    MarksDialog,
    add_colours,
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
from gui.widgets.boxes import in_column, wide
from gui.widgets.shortcuts import keys_of

_NOT_RESUMED = "Runs cannot be resumed here."
_NOT_BEGUN = "Runs cannot be begun here."
_NOT_PROFILED = "Runs cannot be profiled here."


class RunsPanel(QFrame):
    """The left of Results. It shows what is saved and emits requests; controllers carry them out."""

    checked_changed = Signal(object)  # tuple[str, ...]
    opened = Signal(object)  # Item or Line: what was clicked or moved to
    race_requested = Signal(object)  # tuple[str, ...]: a single run means its whole comparison
    delete_requested = Signal(object)  # tuple[str, ...]
    export_asked = Signal(object)  # tuple[str, ...]
    use_settings_requested = Signal(object)  # RunRecord
    find_nan_requested = Signal(object)  # RunRecord
    ranges_requested = Signal(object)  # RunRecord
    profile_requested = Signal(object)  # tuple[str, ...]
    rename_requested = Signal(object, str)  # RunRecord, the new name
    tags_requested = Signal(object)  # Mapping[str, tuple[str, ...]]: the tags of each run by its id
    note_requested = Signal(str, str)  # run id, the note
    pin_requested = Signal(object, bool)  # tuple[str, ...], whether they are to be pinned
    colour_requested = Signal(object, object)  # tuple[str, ...], one of OWN_COLOURS or None
    folders_requested = Signal(object)  # Mapping[str, str]: the folder of each run by its id, "" for none
    folder_deleted = Signal(str, object)  # the folder, tuple[str, ...]: its runs
    sweep_requested = Signal(str)  # sweep id
    stop_requested = Signal()
    take_out_requested = Signal(str)
    begin_requested = Signal(str)
    resume_requested = Signal(str)
    open_requested = Signal(str)
    details_requested = Signal(str)
    study_deleted = Signal(object)  # StudyRow
    import_wanted = Signal()
    show_me_wanted = Signal()
    experiment_wanted = Signal()
    limit_wanted = Signal()
    undo_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "dock")
        self.model = RunsModel(self)
        self.table = RunsTable(self.model)
        self.bar, self.foot = FilterBar(), TableFoot()
        self.filter = self.bar.filter
        self.folders = FolderList()
        self.views = Views(self.table, self.model, self.filter, self)
        self.columns = QMenu("Columns", self)
        self._can_undo = False
        self._kind: ItemKind | None = None
        self._resume_obstacle: Callable[[RunRecord], str | None] = lambda _run: _NOT_RESUMED
        self._begin_obstacle: Callable[[RunRecord], str | None] = lambda _run: _NOT_BEGUN
        self._profile_obstacle: Callable[[Sequence[str]], str | None] = lambda _run_ids: _NOT_PROFILED
        self._empty = NoRuns()
        self.pages = QStackedWidget()
        self.pages.addWidget(self.table)
        self.pages.addWidget(self._empty)
        in_column(self.bar, self.folders, wide(self.pages), divider(), self.foot, parent=self, spacing=0)
        self._connect()
        self._refresh()

    def set_runs(self, runs: Sequence[RunRecord]) -> None:
        """Shows these runs and no others; what is ticked and highlighted stays so."""
        self.model.take(runs)
        self._refresh()

    def set_studies(self, studies: Sequence[StudyRow]) -> None:
        """Shows these limits, numerics, profiles, sweeps and tunings, and no others."""
        self.model.take_studies(studies)
        self._refresh()

    def choose_kind(self, kind: ItemKind | None) -> None:
        """Shows what is of one kind; None for everything."""
        self._kind = kind
        self.bar.show_kind(kind)
        self.model.choose_kind(kind)
        self._refresh()

    def update_run(self, run: RunRecord) -> None:
        """Adds a run, or shows what has changed in it."""
        self.model.update_run(run)
        self._refresh()

    def set_progress(self, run_id: str, fraction: float, is_paused: bool = False) -> None:
        """How far a running run is, 0 to 1, and whether it is paused."""
        self.model.set_progress(run_id, fraction, is_paused)

    def set_checked(self, ids: Iterable[str]) -> None:
        """Ticks these runs and no others."""
        self.model.set_checked(ids)

    def checked(self) -> tuple[str, ...]:
        """The ticked runs, the oldest first."""
        return self.model.checked()

    def set_can_undo(self, can_undo: bool) -> None:
        """Whether deleted runs can be brought back, which an empty table offers."""
        self._can_undo = can_undo
        self._refresh()

    def set_resume_obstacle(self, obstacle: Callable[[RunRecord], str | None]) -> None:
        """Sets what says why a run that is over cannot be resumed; None if it can."""
        self._resume_obstacle = obstacle

    def offer_beginnings(self, offered: bool) -> None:
        """Offers, in place of an empty table, ways to begin, or none while nothing can be trained."""
        self._empty.welcome.show_offers(offered)

    def set_begin_obstacle(self, obstacle: Callable[[RunRecord], str | None]) -> None:
        """Sets what says why this window cannot begin a queued run; None if it can."""
        self._begin_obstacle = obstacle

    def set_profile_obstacle(self, obstacle: Callable[[Sequence[str]], str | None]) -> None:
        """Sets what says why runs cannot be profiled side by side; None if they can."""
        self._profile_obstacle = obstacle

    def state(self) -> dict[str, Any]:
        """What survives a restart: how the table looks, the saved views, and the folders made here."""
        return {**self.views.state(), "folders": list(self.folders.made())}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Takes back what `state` gave. Raises KeyError or another error for anything else."""
        self.views.restore(state)
        self.folders.set_made(map(str, state.get("folders", ())))

    def delete_highlighted(self) -> None:
        """Asks to delete the highlighted runs and studies; queued runs are taken out of the queue."""
        self._delete(self.table.highlighted())
        for item in self.table.highlighted_items():
            if item.study is not None and not item.study.is_unfinished:
                self.study_deleted.emit(item.study)

    def _delete(self, runs: Sequence[RunRecord]) -> None:
        for run in runs:
            if run.status is Status.QUEUED:
                self.take_out_requested.emit(run.id)
        over = tuple(run.id for run in runs if run.status.is_over)
        if over:
            self.delete_requested.emit(over)

    def item_menu(self, item: Item) -> QMenu:
        """The context menu of a study without runs, or else that of the runs below an item."""
        if item.lines:
            return self.menu_for(item.lines[0].run, tuple(line.run for line in item.lines), item.key)
        menu = QMenu(self)
        menu.setAccessibleName(f"What to do with {item.title}")
        study = item.study
        if study is not None:
            unfinished = "It has not ended yet." if study.is_unfinished else None
            entries = [
                Entry(
                    "Delete…" if study.kind == "sweep" else "Delete",
                    lambda: self.study_deleted.emit(study),
                    unfinished,
                )
            ]
            add_entries(menu, [Entry("Open", lambda: self.opened.emit(item)), *entries])
        return menu

    def menu_for(self, run: RunRecord, runs: tuple[RunRecord, ...] = (), key: str | None = None) -> QMenu:
        """The context menu of a run, or of the `runs` of an item of that `key`."""
        menu = QMenu(self)
        menu.setAccessibleName(f"What to do with {run.name}")
        marked = runs or self._marked(run)
        add_entries(menu, self._entries(run, marked, key or run.id))
        add_tags(
            menu,
            marked,
            self.model.tags(),
            lambda tag: self.tags_requested.emit(toggled(marked, tag)),
            lambda: self.edit_marks(marked).tags.setFocus(),
        )
        ids = tuple(chosen.id for chosen in marked)
        add_folders(
            menu,
            marked,
            self.folders.names(),
            lambda folder: self._move(ids, folder),
            lambda: self.folders.ask_for_new(lambda folder: self._move(ids, folder)),
        )
        add_colours(menu, marked, lambda colour: self.colour_requested.emit(ids, colour))
        add_entries(menu, [Entry("Note…", lambda: self.edit_marks((run,)).note.setFocus())])
        menu.addSeparator()
        add_entries(menu, self._place_entries(run, marked))
        menu.addSeparator()
        add_entries(menu, self._last_entries(run, marked))
        return menu

    def edit_marks(self, runs: Sequence[RunRecord]) -> MarksDialog:
        """Opens the dialog for the tags of runs, and for the note of a single run."""
        dialog = MarksDialog(runs, self)
        dialog.tags_chosen.connect(self.tags_requested)
        dialog.note_written.connect(self.note_requested)
        dialog.open()
        return dialog

    def _entries(self, run: RunRecord, marked: Sequence[RunRecord], key: str) -> list[Entry]:
        unborn = "It has not begun yet." if run.status is Status.QUEUED else None
        ids = tuple(chosen.id for chosen in marked)
        return [
            Entry("Show its curves", lambda: self.open_requested.emit(run.id), unborn),
            Entry("Details", lambda: self.details_requested.emit(run.id), unborn),
            Entry("Use these settings", lambda: self.use_settings_requested.emit(run)),
            Entry("Compare these alone", lambda: self.set_checked(ids), unborn),
            self._race_entry(run, unborn),
            Entry("Export…", lambda: self.export_asked.emit(ids), unborn),
            self._profile_entry(marked),
            Entry("Find the first NaN", lambda: self.find_nan_requested.emit(run), why_nothing_to_find(run)),
            Entry("Show sampled ranges", lambda: self.ranges_requested.emit(run), why_no_ranges(run)),
            Entry("Rename", lambda: self.table.rename(key)),
        ]

    def _place_entries(self, run: RunRecord, marked: Sequence[RunRecord]) -> list[Entry]:
        pin = "Unpin\tP" if run.is_pinned else "Pin to the top\tP"
        entries = [Entry(pin, lambda: self._pin(run, marked))]
        if self.model.baseline != run.id:
            unborn = None if run.status.is_over else "It has no figures yet."
            entries.append(Entry("Use as baseline", lambda: self.model.set_baseline(run.id), unborn))
        if self.model.baseline is not None:
            entries.append(Entry("No baseline", lambda: self.model.set_baseline(None)))
        if (sweep := run.sweep) is not None:
            entries.append(Entry("Show its sweep", lambda: self.sweep_requested.emit(sweep)))
        return entries

    def _move(self, run_ids: Iterable[str], folder: str) -> None:
        self.folders_requested.emit(dict.fromkeys(run_ids, folder))

    def _rename_folder(self, folder: str, name: str) -> None:
        self._move(self.model.in_folder(folder), name)
        self._filter_by(folder, name)

    def _delete_folder(self, folder: str) -> None:
        run_ids = self.model.in_folder(folder)
        if run_ids:
            self.folder_deleted.emit(folder, run_ids)
        self._filter_by(folder, "")

    def _filter_by(self, folder: str, other: str) -> None:
        """Filters by another folder than this one, if the filter names it."""
        text = self.filter.text()
        if f'folder:"{folder}"'.casefold() in text.casefold():
            self.filter.setText(in_folder(text, other))

    def _pin(self, run: RunRecord, runs: Sequence[RunRecord]) -> None:
        self.pin_requested.emit(tuple(chosen.id for chosen in runs), not run.is_pinned)

    def _race_entry(self, run: RunRecord, unborn: str | None) -> Entry:
        ticked = self.checked()
        # a run that is not ticked is meant by itself
        run_ids = ticked if len(ticked) > 1 and run.id in ticked else (run.id,)
        is_alone = len(run_ids) == 1 and run.comparison is None
        alone = "Tick two or more runs to show them side by side." if is_alone else None
        return Entry("Show side by side", lambda: self.race_requested.emit(run_ids), unborn or alone)

    def _profile_entry(self, marked: Sequence[RunRecord]) -> Entry:
        run_ids = tuple(run.id for run in baseline_first(marked))
        against = self._profile_obstacle(run_ids)
        return Entry("Profile", lambda: self.profile_requested.emit(run_ids), against)

    def _last_entries(self, run: RunRecord, marked: Sequence[RunRecord]) -> list[Entry]:
        if run.status is Status.RUNNING:
            return [Entry("Stop", self.stop_requested.emit)]
        if run.status is Status.QUEUED:
            waits = self._begin_obstacle(run)
            return [
                Entry("Run", lambda: self.begin_requested.emit(run.id), waits),
                Entry("Take out of the queue", lambda: self._delete(marked)),
            ]
        obstacle = self._resume_obstacle(run)
        return [
            Entry("Resume", lambda: self.resume_requested.emit(run.id), obstacle),
            Entry("Delete", lambda: self._delete(marked)),
        ]

    def _marked(self, run: RunRecord) -> tuple[RunRecord, ...]:
        """The highlighted runs if `run` is among them, else only `run`."""
        marked = self.table.highlighted()
        return marked if run.id in {chosen.id for chosen in marked} else (run,)

    def _connect(self) -> None:
        self.model.checked_changed.connect(self.checked_changed)
        self.model.checked_changed.connect(self._refresh)
        self.model.rename_requested.connect(self._rename)
        table, bar, foot = self.table, self.bar, self.foot
        table.stop_requested.connect(self.stop_requested)
        table.take_out_requested.connect(self.take_out_requested)
        table.open_requested.connect(self.open_requested)
        table.opened.connect(self.opened)
        table.delete_pressed.connect(self.delete_highlighted)
        table.note_pressed.connect(self._edit_note)
        table.pin_pressed.connect(lambda: self._pin(table.highlighted()[0], table.highlighted()))
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
        bar.runs_over_folders.connect(lambda: bar.folders.setChecked(True))
        self.folders.chosen.connect(lambda name: self.filter.setText(in_folder(self.filter.text(), name)))
        self.folders.runs_dropped.connect(self._move)
        self.folders.rename_requested.connect(self._rename_folder)
        self.folders.delete_requested.connect(self._delete_folder)
        self._empty.all_wanted.connect(self._show_everything)
        self._empty.undo_wanted.connect(self.undo_wanted)
        welcome = self._empty.welcome
        welcome.show_me_wanted.connect(self.show_me_wanted)
        welcome.experiment_wanted.connect(self.experiment_wanted)
        welcome.limit_wanted.connect(self.limit_wanted)
        self.filter.textChanged.connect(self._filter)
        foot.untick.clicked.connect(lambda: self.set_checked(()))
        foot.delete.clicked.connect(lambda: self._delete(self._ticked()))
        foot.move_to.clicked.connect(self._open_folders)

    def _ticked(self) -> tuple[RunRecord, ...]:
        return tuple(run for run_id in self.checked() if (run := self.model.known(run_id)) is not None)

    def _open_folders(self) -> None:
        ids, menu = self.checked(), QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        folders = add_folders(
            menu,
            self._ticked(),
            self.folders.names(),
            lambda folder: self._move(ids, folder),
            lambda: self.folders.ask_for_new(lambda folder: self._move(ids, folder)),
        )
        button = self.foot.move_to
        folders.popup(button.mapToGlobal(button.rect().topLeft() - QPoint(0, folders.sizeHint().height())))

    def _show_everything(self) -> None:
        self.choose_kind(None)
        self.filter.clear()

    def _filter(self, text: str) -> None:
        self.model.set_filter(text)
        self.folders.mark(text)
        self._refresh()

    def _rename(self, row: Item | Line, name: str) -> None:
        runs = [row.run] if isinstance(row, Line) else [line.run for line in row.lines]
        for run in runs:
            self.rename_requested.emit(run, name if isinstance(row, Line) else name_of_side(run, name))

    def _edit_note(self, run_id: str) -> None:
        run = self.model.known(run_id)
        if run is not None:
            self.edit_marks((run,)).note.setFocus()

    def _show_menu(self, place: QPoint) -> None:
        index = self.table.indexAt(place)
        row = self.model.row(index.row()) if index.isValid() else None
        if isinstance(row, Item | Line):
            menu = self.menu_for(row.run) if isinstance(row, Line) else self.item_menu(row)
            menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            menu.popup(self.table.viewport().mapToGlobal(place))

    def _refresh(self) -> None:
        total, studies = self.model.total, self.model.studies()
        self.foot.show_counts(self.model.shown_runs(), total, studies, len(self.checked()))
        self.folders.show_counts(self.model.folders())
        if total or studies:
            self._empty.tell_not_found(self.filter.text().strip())
        elif self._can_undo:
            self._empty.tell_deleted()
        else:
            self._empty.tell_none()
        self.pages.setCurrentIndex(0 if self.model.rowCount() else 1)
