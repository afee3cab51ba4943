"""The table of results with its filter, foot and menus, and the dialog for tags and notes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtWidgets import QDialog, QLineEdit, QMenu, QPlainTextEdit, QStackedWidget, QWidget

from engine.experiment.problem import ProblemError
from engine.store.record import RunRecord, Status
from engine.store.runs import cleaned_note, cleaned_tags
from gui.runs.bar import FilterBar, NoRuns, TableFoot
from gui.runs.table.columns import COMPARED, FIXED, USUAL, Column
from gui.runs.table.line import RunRow
from gui.runs.table.model import RunsModel
from gui.runs.table.rows import Item, ItemKind, StudyRow, name_of_side
from gui.runs.table.view import RunsTable
from gui.session.saved_runs import SavedRuns
from gui.session.studies import baseline_first, why_nothing_to_find
from gui.widgets import Button, ElidedLabel, divider, label, set_text
from gui.widgets.actions import keys_of
from gui.widgets.boxes import Part, Stretch, Surface, in_column, in_row, wide
from gui.widgets.buttons import add_choice
from gui.widgets.labels import describe, plain_tip

if TYPE_CHECKING:
    from gui.runs.controller import RunsController

_WIDTH, _NOTE_HEIGHT = 440, 132
_MOST_TAGS_OFFERED = 12
_GROUPS = ("Model and training", "Optimizer and schedule", "Step and loss scale", "Loading and saving")
_GROUP_OF = {"optimizer": 1, "schedule": 1, "step": 2, "scaler": 2, "measure": 2} | dict.fromkeys(
    ("data", "validation", "checkpoint"), 3
)


class TagsDialog(QDialog):
    """A dialog to edit the tags of several runs, or the tags and the note of a single one.

    For several runs it shows the tags that all have in common. Adding or removing a tag does so for each of
    them, and their other tags stay.
    """

    def __init__(self, runs: Sequence[RunRecord], saved: SavedRuns, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._runs, self._saved, self._shared = tuple(runs), saved, _shared_tags(runs)
        is_single = len(runs) == 1
        self.setWindowTitle("Tags and note" if is_single else "Tags")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setFixedWidth(_WIDTH)
        self.tags = QLineEdit(", ".join(self._shared))
        self.tags.setPlaceholderText("paper, table 2")
        self.tags.setAccessibleName("Tags")
        self.tags.setToolTip("Your own tags, separated by commas. Filter by one with tag:paper.")
        self.note = QPlainTextEdit(runs[0].note if is_single else "")
        self.note.setTabChangesFocus(True)
        self.note.setFixedHeight(_NOTE_HEIGHT)
        describe(self.note, "Note", "Your notes about this run")
        self._problem = label("", "problem", wraps=True)
        self._problem.hide()
        save = Button("Save", "strip", "Save the changes (Enter in the tags, Ctrl+Enter in the note)")
        save.setDefault(True)
        save.setShortcut("Ctrl+Return")
        save.clicked.connect(self.accept)
        cancel = Button("Cancel", "strip", "Discard the changes (Escape)", do=self.reject)
        frame = Surface("field", parent=self)
        frame.setVisible(is_single)
        in_column(self.note, parent=frame, margins=(8, 4, 4, 4))
        name = ElidedLabel(runs[0].name if is_single else f"{len(runs):,} runs", "title")
        note: tuple[Part, ...] = (8, label("Note", "label"), frame) if is_single else ()
        parts = (
            name,
            8,
            label("Tags, separated by commas", "label"),
            self.tags,
            *note,
            self._problem,
            12,
        )
        in_column(*parts, in_row(Stretch(), cancel, save), parent=self, margins=16, spacing=4)

    def accept(self) -> None:
        """Save the tags and the note, or say why they cannot be saved."""
        try:
            tags, note = cleaned_tags(self.tags.text().split(",")), cleaned_note(self.note.toPlainText())
            kept = [(run, [tag for tag in run.tags if tag not in self._shared]) for run in self._runs]
            chosen = [(run, cleaned_tags((*tags, *own))) for run, own in kept]
        except ProblemError as error:
            set_text(self._problem, f"{error.problem.message} {error.problem.remedy}")
            self._problem.show()
            return
        changed = {run.id: tags for run, tags in chosen if tags != run.tags}
        if changed:
            self._saved.set_tags(changed)
        if len(self._runs) == 1 and note != self._runs[0].note:
            self._saved.set_note(self._runs[0].id, note)
        super().accept()


def _shared_tags(runs: Sequence[RunRecord]) -> tuple[str, ...]:
    return tuple(tag for tag in runs[0].tags if all(tag in run.tags for run in runs)) if runs else ()


def toggled(runs: Sequence[RunRecord], tag: str) -> dict[str, tuple[str, ...]]:
    """Return the new tags of each run, by id, after toggling `tag`.

    The tag is removed if all runs have it, and else added to those without it.
    """
    if tag in _shared_tags(runs):
        return {run.id: tuple(own for own in run.tags if own != tag) for run in runs}
    return {run.id: (*run.tags, tag) for run in runs if tag not in run.tags}


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


def add_tags(
    menu: QMenu,
    runs: Sequence[RunRecord],
    known: Sequence[str],
    toggle: Callable[[str], object],
    others: Callable[[], object],
) -> None:
    """Add a menu of the most frequent tags, checked if all of the runs have them."""
    shared, submenu = _shared_tags(runs), menu.addMenu("Tags")
    submenu.setAccessibleName("Tags of the run")
    submenu.setObjectName("tags")
    for tag in dict.fromkeys((*shared, *known[:_MOST_TAGS_OFFERED])):
        add_choice(submenu, tag, partial(toggle, tag), is_chosen=tag in shared)
    submenu.addSeparator()
    submenu.addAction("Other tags…").triggered.connect(lambda _=False: others())


def fill_columns(menu: QMenu, table: RunsTable, model: RunsModel) -> None:
    """Fill a menu with all columns: metrics, differences and settings. Shown columns are checked."""

    def add(menu: QMenu, columns: Iterable[Column]) -> None:
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
    others = [column for column in Column if column not in USUAL and column.setting is None]
    add(menu.addMenu("Metrics"), (column for column in others if column not in COMPARED))
    add(menu.addMenu("Relative to the baseline"), (column for column in others if column in COMPARED))
    menu.addSeparator()
    settings = {column: key.partition(".")[0] for column in Column if (key := column.setting) is not None}
    for place, words in enumerate(_GROUPS):
        add(
            menu.addMenu(words),
            (column for column, key in settings.items() if _GROUP_OF.get(key, 0) == place),
        )
    menu.addSeparator()
    usual = menu.addAction("Default columns")
    usual.setToolTip("Show the default columns in their default order and widths")
    usual.triggered.connect(lambda _=False: table.reset_columns())


class RunsPanel(Surface):
    """The table of results with its bars and menus.

    `edits` changes saved runs and the queue. The signals ask other parts of the window to show something.
    """

    edits: RunsController
    opened = Signal(object)  # Item or RunRow: what was clicked or moved to
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
        self.table = RunsTable(self)
        self.bar, self.foot = FilterBar(), TableFoot()
        self.filter = self.bar.filter
        self.columns = QMenu("Columns", self)
        self._can_undo = False
        self._empty = NoRuns(self._show_everything, lambda: self.edits.undo())
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
        header = table.horizontalHeader()
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
            "column": column.name,
            "descending": order is Qt.SortOrder.DescendingOrder,
            "baseline": self.model.baseline,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a state that `state` returned. Raises KeyError or another error for anything else."""
        self.table.set_columns(state["columns"])
        order = Qt.SortOrder.DescendingOrder if state["descending"] else Qt.SortOrder.AscendingOrder
        self.table.sortByColumn(Column[state["column"]], order)
        self.model.set_baseline(state["baseline"])

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

    def edit_note(self, run: RunRecord) -> None:
        """Open the dialog for the tags and the note of a run, at the note."""
        self.edit_tags((run,)).note.setFocus()

    def edit_tags(self, runs: Sequence[RunRecord]) -> TagsDialog:
        """Open the dialog for the tags of runs, and for the note of a single run."""
        dialog = TagsDialog(runs, self.edits.runs, self)
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
            lambda tag: self.edits.runs.set_tags(toggled(marked, tag)),
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
        profiled = tuple(run.id for run in baseline_first(marked))
        unprofiled = self.edits.experiments.why_not_profiled(profiled)
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
            MenuEntry("Rename", lambda: self.table.rename(key)),
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
        experiments = self.edits.experiments
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
            self.edits.runs.rename(row.key, name)
            return
        for line in row.lines:
            self.edits.runs.rename(line.key, name_of_side(line.run, name))

    def _show_menu(self, place: QPoint) -> None:
        index = self.table.indexAt(place)
        row = self.model.shown[index.row()] if index.isValid() else None
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
