"""The dialog and the menu for the tags of runs, and for the note of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QLineEdit, QMenu, QPlainTextEdit, QWidget

from engine.experiment.problem import ProblemError
from engine.store.record import RunRecord
from engine.store.runs import cleaned_note, cleaned_tags
from gui.session.saved_runs import SavedRuns
from gui.widgets import Button, ElidedLabel, label, set_text
from gui.widgets.boxes import Part, Stretch, Surface, in_column, in_row
from gui.widgets.buttons import add_choice
from gui.widgets.labels import describe

_WIDTH, _NOTE_HEIGHT = 440, 132
_MOST_TAGS_OFFERED = 12


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
