"""The dialog for the tags of runs, and for the note of a single run."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QDialog,
    QFrame,
    QHBoxLayout,
    QLineEdit,
    QPlainTextEdit,
    QVBoxLayout,
    QWidget,
)

from engine.experiment.problem import ProblemError
from engine.store.edits import cleaned_note, cleaned_tags
from engine.store.record import RunRecord
from gui.widgets import Button, ElidedLabel, label, set_text

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
