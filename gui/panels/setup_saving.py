"""Saving the form as a preset of one's own: the dialog, and what is written."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtWidgets import QDialog, QHBoxLayout, QLineEdit, QVBoxLayout, QWidget

from engine.experiment import Experiment, flattened, from_dotted, layered
from engine.presets import Preset, Variant, save_own
from engine.problem import Problem, ProblemError
from gui.widgets import Button, Field, label


def save_preset(
    title: str, experiments: Sequence[tuple[str, Experiment]], *, replace: bool = False
) -> Preset:
    """Saves labelled experiments as one preset of the user's own. Raises ProblemError."""
    base = experiments[0][1]
    variants = [Variant(name, _overrides(base, experiment)) for name, experiment in experiments]
    return save_own(title, base, variants if len(variants) > 1 else (), replace=replace)


def _overrides(base: Experiment, experiment: Experiment) -> dict[str, object]:
    common = flattened(base)
    different = {
        # TOML has no null; the experiment reads the word
        key: "none" if value is None else value
        for key, value in flattened(experiment).items()
        if (value != common[key] or key == "precision") and not (key in ("epochs", "steps") and value is None)
    }
    return layered(*(from_dotted(key, value) for key, value in different.items()))


class SavePresetDialog(QDialog):
    """Asks for a title; `saved` is the new preset, and `problem` what kept it from being written."""

    def __init__(
        self,
        experiments: Sequence[tuple[str, Experiment]],
        own_titles: Sequence[str],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.saved: Preset | None = None
        self.problem: Problem | None = None
        self._experiments = tuple(experiments)
        self._own_titles = {title.casefold() for title in own_titles}
        self.setWindowTitle("Save as a preset")
        self.setAccessibleName("Save as a preset")
        self.setMinimumWidth(360)
        self.title = QLineEdit()
        self.title.setMaxLength(100)
        self.title.setToolTip("The preset's title in the list")
        self.title.textEdited.connect(self._refresh)
        self.field = Field("Title", self.title)
        self.save_button = Button("Save", "primary", "Save these settings under this title")
        self.save_button.setDefault(True)
        self.save_button.clicked.connect(self._save)
        cancel = Button("Cancel", "secondary", "Save nothing")
        cancel.clicked.connect(self.reject)
        self._lay_out(cancel)
        self._refresh()

    def _lay_out(self, cancel: Button) -> None:
        names = ", ".join(name for name, _ in self._experiments)
        about = label(f"Keeps the form as it is now: {names}.", "hint")
        about.setWordWrap(True)
        buttons = QHBoxLayout()
        buttons.setSpacing(8)
        buttons.addStretch()
        buttons.addWidget(cancel)
        buttons.addWidget(self.save_button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 16, 16, 16)
        layout.setSpacing(8)
        layout.addWidget(label("Save as a preset", "title"))
        layout.addWidget(about)
        layout.addWidget(self.field)
        layout.addLayout(buttons)

    def _replaces(self) -> bool:
        return self.title.text().strip().casefold() in self._own_titles

    def _refresh(self) -> None:
        self.field.set_problem(None)
        self.save_button.setText("Replace" if self._replaces() else "Save")
        self.save_button.setEnabled(bool(self.title.text().strip()))

    def _save(self) -> None:
        try:
            self.saved = save_preset(self.title.text(), self._experiments, replace=self._replaces())
        except ProblemError as error:
            if error.problem.key == "title":
                self.field.set_problem(f"{error.problem.message} {error.problem.remedy}")
                return
            self.problem = error.problem
            self.reject()
            return
        self.accept()
