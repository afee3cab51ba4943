"""Fills the model box, and puts a file of the user's own into the form as its model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QFileDialog, QWidget

from engine.experiment.checks import Catalog
from engine.experiment.own.code import Code, model_file
from engine.experiment.problem import Problem, ProblemError
from engine.export.template import TEMPLATE_NAME, write_template
from gui.setup.draft import Draft
from gui.setup.model.choices import MOST_RECENT, NEW, OPEN, model_choices, models_in, with_recent
from gui.setup.model.file import FileOnDisk, opened
from gui.setup.model.search import SearchBox
from gui.widgets.messages import ask

_PYTHON = "Python files (*.py)"


class ModelPicker(QObject):
    """`drafted` carries a draft with another model, `problem_raised` why a file could not be taken.

    `code_chosen` carries the code of the user's file, and again when that has changed. `returned`: the user
    is back from another program, which may be an editor.
    """

    drafted = Signal(object)  # Draft
    problem_raised = Signal(object)  # Problem
    code_chosen = Signal(object)  # Code
    returned = Signal()

    def __init__(self, box: SearchBox, window: QWidget) -> None:
        super().__init__(window)
        self._box, self._window = box, window
        self._file = FileOnDisk()
        self._recent: tuple[str, ...] = ()
        self._folder = Path.home()
        self._draft: Draft | None = None
        self._chosen: Code | None = None
        self._offered: tuple[object, ...] = ()
        box.picked.connect(self._pick)
        application = QGuiApplication.instance()
        assert isinstance(application, QGuiApplication)  # there are widgets
        application.applicationStateChanged.connect(self._follow_application)

    def show(self, draft: Draft, catalog: Catalog | None) -> None:
        """Offers what the catalog has, what was used recently, and the models of the chosen file."""
        self._draft = draft
        offered = (catalog, self._recent, draft.code)
        if catalog is not None and offered != self._offered:
            self._offered = offered
            self._box.set_groups(model_choices(catalog, self._recent, draft.code))

    def follow(self, draft: Draft) -> tuple[Draft, Problem | None]:
        """The draft with its file as it is on disk, or why that cannot be read; none beside other models."""
        if "model" in draft.several:
            return draft, None
        split = (model_file(name) for name in self._recent)
        folders = [str(Path(found[0]).parent) for found in split if found]
        followed, problem = self._file.follow(draft, folders)
        code = None if followed.has_kept_code else followed.code
        if code is not None and code != self._chosen:
            self._chosen = code
            self.code_chosen.emit(code)
        return followed, problem

    def differs(self, draft: Draft) -> bool:
        """Whether the draft keeps other code than its file has now."""
        return self._file.differs(draft)

    def use_file(self) -> None:
        """Takes the code on disk in place of the code of a run."""
        draft = self._draft
        if draft is not None:
            self._take(lambda: self._file.use(draft))

    def used(self, draft: Draft) -> None:
        """Remembers the draft's model as a recent one."""
        self._recent = with_recent(self._recent, _lasting_name(draft))

    def open(self, name: str) -> None:
        """Takes a file as the model, named by its path and perhaps a class; it becomes a recent one."""
        draft = self._draft
        if draft is not None:
            self._take(lambda: opened(draft, name))

    def ask_for_file(self) -> None:
        """Asks for a workload file, and takes it."""
        title, folder = "Open a model", str(self._folder)
        chosen, _ = QFileDialog.getOpenFileName(self._window, title, folder, _PYTHON)
        if chosen:
            self.open(chosen)

    def ask_for_new(self) -> None:
        """Asks for a name, writes the template there, opens it in an editor, and takes it as the model."""
        title, path = "New model from the template", str(self._folder / TEMPLATE_NAME)
        chosen, _ = QFileDialog.getSaveFileName(self._window, title, path, _PYTHON)
        if not chosen:
            return
        place = Path(chosen).with_suffix(".py")
        # the dialog asked only about the name as it was typed
        if place != Path(chosen) and place.exists() and not self._may_replace(place):
            return
        try:
            written = write_template(place, force=True)
        except ProblemError as error:
            self.problem_raised.emit(error.problem)
            return
        self.open(str(written))
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(written)))

    def state(self) -> list[str]:
        """The recently used models, newest first."""
        return list(self._recent)

    def restore(self, state: list[object]) -> None:
        """Restores a `state`."""
        self._recent = tuple(name for name in state if isinstance(name, str))[:MOST_RECENT]

    def _may_replace(self, place: Path) -> bool:
        return ask(self._window, f"{place.name} is already there. Replace it?", "Replace", "Keep")

    def _follow_application(self, state: Qt.ApplicationState) -> None:
        if state == Qt.ApplicationState.ApplicationActive:
            self.returned.emit()

    def _pick(self, value: str) -> None:
        if value == OPEN:
            self.ask_for_file()
        elif value == NEW:
            self.ask_for_new()
        else:
            self.open(value)

    def _take(self, change: Callable[[], Draft]) -> None:
        try:
            draft = change()
        except ProblemError as error:
            self.problem_raised.emit(error.problem)
            return
        self.used(draft)
        code = draft.code
        if code is not None:
            self._folder = Path(code.folder)
        self.drafted.emit(draft)
        if code is not None and models_in(code) and draft.text("model") not in models_in(code):
            # which of its classes is the model
            self._box.setFocus()
            self._box.showPopup()


def _lasting_name(draft: Draft) -> str:
    """The model's name with the folder of its file."""
    name, code = draft.text("model").strip(), draft.code
    return name if code is None else str(Path(code.folder, name))
