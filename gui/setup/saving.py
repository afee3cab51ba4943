"""The user's own presets: save the form as a preset, rename and delete presets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QInputDialog, QWidget

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
from engine.experiment.problem import ProblemError
from engine.experiment.sweep import VARIANT, Grid
from engine.words.numbers import counted
from gui.setup.draft import Draft
from gui.setup.fields import NONE
from gui.setup.question import QuestionBox
from gui.widgets import ElidedLabel, IconButton
from gui.widgets.actions import connect_button, make_action, set_enabled
from gui.widgets.boxes import in_column, in_row, wide
from gui.widgets.labels import plain_tip
from gui.widgets.messages import ask

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

    `chosen` carries the draft to show after the list of presets has changed. `deleted` carries a sentence on
    the deleted preset, and a function that brings it back.
    """

    chosen = Signal(object)  # Draft
    deleted = Signal(str, object)  # Callable[[], None]
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
        draft = self._draft
        if draft is None or not self.save_action.isEnabled():
            return
        names = ", ".join(name for name, _ in experiments)
        if grid is not None:
            names = f"{counted(grid.size, 'combination')} of {' × '.join(axis.title for axis in grid.axes)}"

        def save(title: str) -> Preset | None:
            own = {preset.title.casefold() for preset in all_presets() if preset.is_own}
            is_taken = title.strip().casefold() in own
            if is_taken and not ask(self._window, f"Replace your preset “{title}”?", "Replace", "Keep"):
                return None
            return save_preset(title, experiments, grid, replace=is_taken)

        saved = self._ask_title("Save as a preset", f"Saves the current form: {names}.", save)
        if saved is not None:
            self.chosen.emit(draft.saved_as(saved))

    def _rename(self) -> None:
        draft = self._draft
        if draft is not None:
            about = "The list and the command line will use the new name."
            rename = partial(rename_own, draft.preset)
            renamed = self._ask_title("Rename the preset", about, rename, draft.preset.title)
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
        self.deleted.emit(f"Deleted the preset “{draft.preset.title}”.", bring_back)

    def _ask_title(
        self, heading: str, about: str, save: Callable[[str], Preset | None], title: str = ""
    ) -> Preset | None:
        """Ask for a title until `save` accepts it or the user cancels, and return the result of `save`."""
        hint = about
        while True:
            words = plain_tip(f"{hint}\n\nTitle")
            title, is_given = QInputDialog.getText(self._window, heading, words, text=title)
            if not is_given or not title.strip():
                return None
            try:
                return save(title)
            except ProblemError as error:
                if error.problem.key != "title":
                    self.reported.emit(error.problem)
                    return None
                hint = f"{error.problem.message} {error.problem.remedy}"


class SetupHead(QWidget):
    """The title of the form, the question, and buttons for presets and for resetting the form."""

    def __init__(self, presets: OwnPresets, reset: QAction, parent: QWidget) -> None:
        super().__init__(parent)
        buttons = []
        for icon, name, action in (
            ("pencil", "Rename the preset", presets.rename_action),
            ("trash", "Delete the preset", presets.delete_action),
            ("save", "Save as a preset", presets.save_action),
            ("reset", "Reset the form", reset),
        ):
            # without a parent it would be shown as a window of its own for a moment
            buttons.append(IconButton(icon, name, parent=self))
            connect_button(buttons[-1], action)
        title = ElidedLabel(role="title")
        # the buttons of an own preset leave room for the shorter one
        title.set_whole_text("What do you want to know?", "Question")
        self.question_box = QuestionBox(self)
        row = in_row(wide(title), *buttons, margins=(0, 0, -4, 0), spacing=4)
        self._column = in_column(row, self.question_box, parent=self, spacing=6)
        self.set_compact(False)

    def set_compact(self, is_compact: bool) -> None:
        """Fit into a low window."""
        self.question_box.set_compact(is_compact)
        self._column.setContentsMargins(16, 6 if is_compact else 14, 16, 8 if is_compact else 12)
