"""The user's own presets: save the form as a preset, rename and delete presets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QDialog, QLineEdit, QWidget

from engine.experiment.experiment import Experiment, flattened, from_dotted, layered
from engine.experiment.presets import (
    Preset,
    Variant,
    all_presets,
    delete_own,
    rename_own,
    restore_own,
    save_own,
)
from engine.experiment.problem import Problem, ProblemError
from engine.experiment.sweep import VARIANT, Grid
from engine.words.numbers import counted
from gui.setup.draft import Draft
from gui.setup.fields import NONE
from gui.setup.foot import make_action, set_enabled
from gui.widgets import Button, Field, label
from gui.widgets.boxes import Stretch, in_column, in_row

Experiments = Sequence[tuple[str, Experiment]]
"""Experiments with their labels."""


def save_preset(
    title: str,
    experiments: Experiments,
    grid: Grid | None = None,
    *,
    replace: bool = False,
) -> Preset:
    """Save labeled experiments, or a grid of them, as a preset of the user. Raises ProblemError."""
    base = experiments[0][1]
    variants = [Variant(name, _overrides(base, experiment)) for name, experiment in experiments]
    swept = () if grid is None else (axis for axis in grid.axes if axis.key not in (VARIANT, "precision"))
    sweep = {axis.key: [NONE if value is None else value for value in axis.values] for axis in swept}
    return save_own(title, base, variants if len(variants) > 1 else (), sweep=sweep, replace=replace)


def _overrides(base: Experiment, experiment: Experiment) -> dict[str, object]:
    common = flattened(base)
    different = {
        # TOML has no null; the experiment understands the word
        key: "none" if value is None else value
        for key, value in flattened(experiment).items()
        if (value != common[key] or key == "precision") and not (key in ("epochs", "steps") and value is None)
    }
    return layered(*(from_dotted(key, value) for key, value in different.items()))


class OwnPresets(QObject):
    """The actions to save the form as a preset, and to rename and delete the user's presets.

    `chosen` carries the draft to show after the list of presets has changed. `deleted` carries the deleted
    preset's draft and a function that brings it back.
    """

    chosen = Signal(object)  # Draft
    deleted = Signal(object, object)  # Draft, Callable[[], None]
    reported = Signal(object)  # Problem

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._window = parent
        self._draft: Draft | None = None
        self.form: Callable[[], tuple[Experiments, Grid | None]] = lambda: ((), None)
        """Returns the labeled experiments to save and their grid, after pending input is read."""
        self.save_action = make_action(parent, "Save as a preset…", self._save)
        self.rename_action = make_action(parent, "Rename the preset…", self._rename)
        self.delete_action = make_action(parent, "Delete the preset", self._delete)

    def refresh(self, draft: Draft | None, against: str | None) -> None:
        """Enable the actions for the form's draft. `against`: why it cannot be saved, or None."""
        self._draft = draft
        set_enabled(self.save_action, against, "Save these settings as your own preset")
        for action in (self.rename_action, self.delete_action):
            action.setVisible(draft is not None and draft.preset.is_own)

    def _save(self) -> None:
        experiments, grid = self.form()
        if not self.save_action.isEnabled():
            return
        own = [preset.title for preset in all_presets() if preset.is_own]
        saved = self._answer(save_dialog(experiments, own, self._window, grid))
        if saved is not None:
            self.chosen.emit(Draft(saved))

    def _rename(self) -> None:
        if (draft := self._draft) is not None:
            renamed = self._answer(rename_dialog(draft.preset, self._window))
            if renamed is not None:
                self.chosen.emit(replace(draft, preset=renamed))

    def _delete(self) -> None:
        """Delete the preset. Its settings stay in the form, as changes to the first preset."""
        if (draft := self._draft) is None:
            return

        def bring_back() -> None:
            try:
                restore_own(draft.preset, text)
            except ProblemError as error:
                self.reported.emit(error.problem)
            else:
                self.chosen.emit(draft)

        try:
            text = delete_own(draft.preset)
        except ProblemError as error:
            self.reported.emit(error.problem)
            return
        self.chosen.emit(Draft.from_state(draft.to_state(), all_presets()[0], has_gpu=draft.has_gpu))
        self.deleted.emit(draft, bring_back)

    def _answer(self, dialog: TitleDialog) -> Preset | None:
        try:
            if dialog.exec() == QDialog.DialogCode.Accepted:
                return dialog.saved
            if dialog.problem is not None:
                self.reported.emit(dialog.problem)
            return None
        finally:
            dialog.deleteLater()


class TitleDialog(QDialog):
    """A dialog that asks for a title and calls `save` with it. `saved` is the result of this call.

    A problem with the title is shown below the field. After any other problem the dialog closes, and
    `problem` is set.
    """

    def __init__(
        self,
        heading: str,
        about: str,
        save: Callable[[str], Preset | None],
        parent: QWidget | None = None,
        button: Callable[[str], str] = lambda _title: "Save",
    ) -> None:
        super().__init__(parent)
        self.saved: Preset | None = None
        self.problem: Problem | None = None
        self._write, self._button_words = save, button
        self.setWindowTitle(heading)
        self.setAccessibleName(heading)
        self.setMinimumWidth(360)
        self.title = QLineEdit()
        self.title.setMaxLength(100)
        self.title.setToolTip("The preset's title in the list")
        self.title.textChanged.connect(self._refresh)
        self.field = Field("Title", self.title)
        self.save_button = Button("Save", "primary", "Save under this title", do=self._save)
        self.save_button.setDefault(True)
        hint = label(about, "hint", wraps=True)
        cancel = Button("Cancel", "secondary", "Close without saving", do=self.reject)
        buttons = in_row(Stretch(), cancel, self.save_button, spacing=8)
        in_column(label(heading, "title"), hint, self.field, buttons, parent=self, margins=16, spacing=8)
        self._refresh()

    def _refresh(self) -> None:
        title = self.title.text().strip()
        self.field.set_problem(None)
        self.save_button.setText(self._button_words(title))
        self.save_button.setEnabled(bool(title))

    def _save(self) -> None:
        try:
            self.saved = self._write(self.title.text())
        except ProblemError as error:
            if error.problem.key == "title":
                self.field.set_problem(f"{error.problem.message} {error.problem.remedy}")
                return
            self.problem = error.problem
            self.reject()
            return
        self.accept()


def save_dialog(
    experiments: Experiments,
    own_titles: Sequence[str],
    parent: QWidget | None = None,
    grid: Grid | None = None,
) -> TitleDialog:
    """Create the dialog for a new preset. A preset of the user with the same title is replaced."""
    taken = {title.casefold() for title in own_titles}
    names = ", ".join(name for name, _ in experiments)
    if grid is not None:
        names = f"{counted(grid.size, 'combination')} of {' × '.join(axis.title for axis in grid.axes)}"

    def replaces(title: str) -> bool:
        return title.strip().casefold() in taken

    return TitleDialog(
        "Save as a preset",
        f"Saves the current form: {names}.",
        lambda title: save_preset(title, experiments, grid, replace=replaces(title)),
        parent,
        lambda title: "Replace" if replaces(title) else "Save",
    )


def rename_dialog(preset: Preset, parent: QWidget | None = None) -> TitleDialog:
    """Create the dialog that renames a preset of the user."""
    about = "The list and the command line will use the new name."
    dialog = TitleDialog(
        "Rename the preset", about, lambda title: rename_own(preset, title), parent, lambda _title: "Rename"
    )
    dialog.title.setText(preset.title)
    dialog.title.selectAll()
    return dialog
