"""The menus of the runs table, and the dialog for the tags and the note of runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import QColor, QIcon, QPainter, QPixmap
from PySide6.QtWidgets import (
    QDialog,
    QFrame,
    QHBoxLayout,
    QLineEdit,
    QMenu,
    QPlainTextEdit,
    QVBoxLayout,
    QWidget,
)

from engine.experiment.experiment import named
from engine.experiment.problem import ProblemError
from engine.store.edits import cleaned_note, cleaned_tags
from engine.store.record import RunRecord
from gui.runs.table.columns import COMPARED, FIXED, USUAL, Column
from gui.runs.table.model import RunsModel
from gui.runs.table.view import RunsTable
from gui.theme.theme import theme
from gui.widgets import Button, ElidedLabel, label, set_text
from gui.widgets.labels import plain_tip

_WIDTH, _NOTE_HEIGHT = 440, 132


class MarksDialog(QDialog):
    """`tags_chosen` carries tuples by run id, `note_written` a run id and the note; both on Save.

    Of several runs it shows the tags that all of them have: a tag added or removed there is added to or
    removed from all of them, and their other tags stay.
    """

    tags_chosen = Signal(object)
    note_written = Signal(str, str)

    def __init__(self, runs: Sequence[RunRecord], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._runs = tuple(runs)
        self._shared = shared_tags(runs)
        self.setWindowTitle("Tags and note" if len(runs) == 1 else "Tags")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setFixedWidth(_WIDTH)
        self.tags = QLineEdit(", ".join(self._shared))
        self.tags.setPlaceholderText("paper, figure 2")
        self.tags.setAccessibleName("Tags")
        self.tags.setToolTip("Tags of your own, with commas between them; filter by them with tag:paper")
        self.note = QPlainTextEdit(runs[0].note if len(runs) == 1 else "")
        self.note.setTabChangesFocus(True)
        self.note.setFixedHeight(_NOTE_HEIGHT)
        self.note.setAccessibleName("Note")
        self.note.setToolTip("What you want to remember of this run")
        self._problem = label("", "problem")
        self._problem.setWordWrap(True)
        self._problem.hide()
        self._lay_out()

    def accept(self) -> None:
        """Emits the tags and the note, or says why they cannot be saved."""
        try:
            tags, note = cleaned_tags(self.tags.text().split(",")), cleaned_note(self.note.toPlainText())
            chosen = {run.id: self._tags_of(run, tags) for run in self._runs}
        except ProblemError as error:
            set_text(self._problem, f"{error.problem.message} {error.problem.remedy}")
            self._problem.show()
            return
        changed = {run.id: chosen[run.id] for run in self._runs if chosen[run.id] != run.tags}
        if changed:
            self.tags_chosen.emit(changed)
        if len(self._runs) == 1 and note != self._runs[0].note:
            self.note_written.emit(self._runs[0].id, note)
        super().accept()

    def _tags_of(self, run: RunRecord, tags: tuple[str, ...]) -> tuple[str, ...]:
        own = tuple(tag for tag in run.tags if tag not in self._shared)
        return cleaned_tags((*tags, *own))

    def _lay_out(self) -> None:
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 16, 16, 16)
        column.setSpacing(4)
        name = self._runs[0].name if len(self._runs) == 1 else f"{len(self._runs):,} runs"
        column.addWidget(ElidedLabel(name, "title"))
        column.addSpacing(8)
        column.addWidget(label("Tags, with commas between them", "label"))
        column.addWidget(self.tags)
        if len(self._runs) == 1:
            column.addSpacing(8)
            column.addWidget(label("Note", "label"))
            column.addWidget(self._framed_note())
        column.addWidget(self._problem)
        column.addSpacing(12)
        column.addLayout(self._buttons())

    def _framed_note(self) -> QFrame:
        frame = QFrame()
        frame.setProperty("surface", "field")
        inside = QVBoxLayout(frame)
        inside.setContentsMargins(8, 4, 4, 4)
        inside.addWidget(self.note)
        return frame

    def _buttons(self) -> QHBoxLayout:
        save = Button("Save", "strip", "Keep these (Enter in the tags, Ctrl+Enter in the note)")
        save.setDefault(True)
        save.setShortcut("Ctrl+Return")
        save.clicked.connect(self.accept)
        cancel = Button("Cancel", "strip", "Leave it as it was (Escape)")
        cancel.setAutoDefault(False)
        cancel.clicked.connect(self.reject)
        row = QHBoxLayout()
        row.addStretch()
        row.addWidget(cancel)
        row.addWidget(save)
        return row


def shared_tags(runs: Sequence[RunRecord]) -> tuple[str, ...]:
    """The tags that all of the runs have."""
    return tuple(tag for tag in runs[0].tags if all(tag in run.tags for run in runs)) if runs else ()


def toggled(runs: Sequence[RunRecord], tag: str) -> dict[str, tuple[str, ...]]:
    """Every run's tags with `tag` added, or removed if all of them have it."""
    if tag in shared_tags(runs):
        return {run.id: tuple(own for own in run.tags if own != tag) for run in runs}
    return {run.id: (*run.tags, tag) for run in runs if tag not in run.tags}


_MOST_TAGS_OFFERED = 12


@dataclass(frozen=True)
class Entry:
    """A line of the menu: its words, its action, and why it is disabled (None if it is not)."""

    words: str
    do: Callable[[], object]
    against: str | None = None


def add_entries(menu: QMenu, entries: Sequence[Entry]) -> None:
    """Adds lines to a menu; the tooltip of a disabled one says why."""
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
    """Adds a menu of the most frequent tags, checked if all of the runs have them."""
    submenu = menu.addMenu("Tags")
    submenu.setAccessibleName("Tags of the run")
    shared = shared_tags(runs)
    for tag in dict.fromkeys((*shared, *known[:_MOST_TAGS_OFFERED])):
        action = submenu.addAction(tag.replace("&", "&&"))
        action.setCheckable(True)
        action.setChecked(tag in shared)
        action.triggered.connect(lambda _=False, tag=tag: toggle(tag))
    if submenu.actions():
        submenu.addSeparator()
    submenu.addAction("Other tags…").triggered.connect(lambda _=False: others())


def why_no_ranges(run: RunRecord) -> str | None:
    """Why the run has no sampled ranges to show; None if it has."""
    is_sampled = run.experiment.measure.range_every > 0
    return None if is_sampled else f"None were sampled: {named('measure.range_every')} was 0."


def add_colours(menu: QMenu, runs: Sequence[RunRecord], choose: Callable[[str | None], object]) -> None:
    """Adds a menu of the colours that a run can have of its own; the shared one is checked."""
    submenu = menu.addMenu("Colour")
    submenu.setAccessibleName("Colour of the run")
    submenu.setObjectName("colours")
    shared = {run.colour for run in runs}
    for colour, words in ((None, "Default"), *((name, name.capitalize()) for name in theme().palette.own)):
        action = submenu.addAction(words)
        action.setToolTip(f"{words}, in the table and in all charts")
        if colour is not None:
            action.setIcon(_swatch(theme().palette.own[colour].color))
        action.setCheckable(True)
        action.setChecked(shared == {colour})
        action.triggered.connect(lambda _=False, colour=colour: choose(colour))


def _swatch(ink: str) -> QIcon:
    picture = QPixmap(16, 16)
    picture.fill(Qt.GlobalColor.transparent)
    painter = QPainter(picture)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(ink))
    painter.drawEllipse(QRectF(3, 3, 10, 10))
    painter.end()
    return QIcon(picture)


def add_folders(
    menu: QMenu,
    runs: Sequence[RunRecord],
    names: Sequence[str],
    move: Callable[[str], object],
    make: Callable[[], object],
) -> QMenu:
    """Adds a menu of the folders, and returns it; the one that all of the runs are in is checked."""
    submenu = menu.addMenu("Folder")
    submenu.setAccessibleName("Folder of the run")
    submenu.setObjectName("folders")
    shared = {run.folder for run in runs}
    for name in ("", *names):
        action = submenu.addAction(name.replace("&", "&&") or "No folder")
        action.setCheckable(True)
        action.setChecked(shared == {name})
        action.triggered.connect(lambda _=False, name=name: move(name))
    submenu.addSeparator()
    submenu.addAction("New folder…").triggered.connect(lambda _=False: make())
    return submenu


_GROUPS = ("Model and training", "Optimizer and schedule", "Step and loss scale", "Loading and saving")
_GROUP_OF = {"optimizer": 1, "schedule": 1, "step": 2, "scaler": 2, "measure": 2} | dict.fromkeys(
    ("data", "validation", "checkpoint"), 3
)


def fill_columns(menu: QMenu, table: RunsTable, model: RunsModel) -> None:
    """Fills a menu with all columns, those that are shown checked: figures, differences and settings."""
    menu.clear()
    menu.setToolTipsVisible(True)
    menu.setAccessibleName("Columns")
    for column in USUAL:
        if column not in FIXED:
            _add_column(menu, table, model, column)
    menu.addSeparator()
    others = [column for column in Column if column not in USUAL and column.setting is None]
    figures = [column for column in others if column not in COMPARED]
    differences = [column for column in others if column in COMPARED]
    for words, columns in (("Figures", figures), ("Against the baseline", differences)):
        submenu = menu.addMenu(words)
        submenu.setToolTipsVisible(True)
        for column in columns:
            _add_column(submenu, table, model, column)
    menu.addSeparator()
    settings = [menu.addMenu(words) for words in _GROUPS]
    for submenu in settings:
        submenu.setToolTipsVisible(True)
    for column in Column:
        if (key := column.setting) is not None:
            _add_column(settings[_GROUP_OF.get(key.partition(".")[0], 0)], table, model, column)
    menu.addSeparator()
    usual = menu.addAction("Usual columns")
    usual.setToolTip("Show the usual columns in their usual order and widths")
    usual.triggered.connect(lambda _=False: table.reset_columns())


def _add_column(menu: QMenu, table: RunsTable, model: RunsModel, column: Column) -> None:
    words, tip = model.heading(column)
    action = menu.addAction(words.replace("&", "&&"))
    action.setToolTip(plain_tip(tip))
    action.setCheckable(True)
    action.setChecked(table.is_shown(column))
    action.toggled.connect(lambda is_shown: table.choose(column, is_shown))
