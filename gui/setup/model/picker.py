"""Fill the model box, and use the user's own file as the model of the form."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from PySide6.QtCore import QObject, Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QFileDialog, QWidget

from engine.experiment.checks import Catalog
from engine.experiment.own.code import MODEL, Code, read_code, remote_problem
from engine.experiment.own.library_models import ModelRef
from engine.experiment.own.trust import TrustedCode
from engine.experiment.problem import Problem, ProblemError
from engine.export.files import TEMPLATE_NAME, write_template
from gui.setup.draft import Draft
from gui.setup.model.choices import CHECK, MOST_RECENT, NEW, OPEN, model_choices, models_in, with_recent
from gui.setup.model.search import SearchBox
from gui.widgets.messages import ask

_PYTHON = "Python files (*.py)"
# a module sets its own mode by train(), or by train(False)
_TRAINS = re.compile(r"\.(backward|fit)\(|^(?!.*\b(self|super)\b).*\.train\((?!False|mode)", re.MULTILINE)
_MODEL_FUNCTION = re.compile(rf"^\s*def {MODEL}\(", re.MULTILINE)


class ModelPicker(QObject):
    """Handles the model field: it opens, creates and reloads model files.

    Code is trusted, also after changes, only if the user named its path by opening, dropping or typing it.
    `changed` carries the draft with another model, and `script_opened` the path of a file that trains by
    itself. `reread` asks to follow the file on disk again, and `check_wanted` to check the model.
    """

    changed = Signal(object)  # Draft
    script_opened = Signal(object)  # Path
    reread = Signal()
    check_wanted = Signal()
    reported = Signal(object)  # Problem

    def __init__(self, box: SearchBox, trusted: TrustedCode, parent: QWidget) -> None:
        super().__init__(parent)
        self._window, self._box, self._trusted = parent, box, trusted
        self._draft: Draft | None = None
        self._file = FileOnDisk(trusted)
        self._recent: tuple[str, ...] = ()
        self._folder = Path.home()
        self._offered: tuple[object, ...] = ()
        self.pending: str | None = None
        """A path that is still being typed and not yet validated."""
        box.field.editingFinished.connect(self.finish)
        offers = {OPEN: self.open_file, NEW: self.create_file, CHECK: self.check_wanted.emit}
        box.picked.connect(lambda value: offers[value]() if value in offers else self.open(value))
        application = QGuiApplication.instance()
        assert isinstance(application, QGuiApplication)  # there are widgets
        application.applicationStateChanged.connect(self._on_application_state)

    def show(self, draft: Draft, catalog: Catalog | None) -> None:
        """Show the catalog, recent models, and the models of the selected file."""
        self._draft = draft
        offered = (catalog, self._recent, draft.code)
        if catalog is not None and offered != self._offered:
            self._offered = offered
            self._box.set_groups(model_choices(catalog, self._recent, draft.code))

    def follow(self, draft: Draft) -> tuple[Draft, Problem | None]:
        """Return the draft with the current code of its model file, and the problem if it cannot be read."""
        followed, problem = self._file.follow(draft)
        code = None if followed.has_kept_code else followed.code
        # where the file could not be read, the draft's code is not the file's
        if problem is None and code is not None and self._trusted.is_named(code.place):
            self._trusted.add(code)
        return followed, problem

    def set_model(self, text: str, *, is_typed: bool = False, is_finished: bool = False) -> None:
        """Set the model by its name, or by the path of a known file.

        With `is_typed`, the path may be any file. A typed path stays `pending` until its file exists or
        `finish` is called, unless it is `is_finished`.
        """
        self.pending = text if is_typed and not is_finished and _is_unfinished(text) else None
        if self._draft is None or self.pending is not None:
            return
        draft = self._draft.with_model(text)
        if draft.code is None:
            place = find_file(text.strip(), self._recent, is_typed=is_typed)
            if place is not None:
                # what is wrong with the file is told once the draft is followed
                with suppress(ProblemError):
                    draft = self._draft_with_file(draft, place)
        self.changed.emit(draft)

    def finish(self) -> None:
        """Set the model to the path that was being typed, even if the file does not exist."""
        if self.pending is not None:
            self.set_model(self.pending, is_typed=True, is_finished=True)

    def differs(self, draft: Draft) -> bool:
        """Return True if the draft's code differs from the current file."""
        return self._file.differs(draft)

    def use_file(self) -> None:
        """Replace the code of a run with the code on disk."""
        self._apply(self._file.use)

    def remember(self, draft: Draft) -> None:
        """Add the draft's model to the recent ones, unless it is a file that the user has not named."""
        name, code = draft.text("model").strip(), draft.code
        # with the folder of its file
        name = name if code is None else str(Path(code.folder, name))
        if self._may_offer(name):
            self._recent = with_recent(self._recent, name)

    def open(self, name: str) -> None:
        """Use a file as the model, by its path and optional class, and add it to the recent ones.

        A file that trains by itself is opened as a script.
        """
        if (script := _script_in(name)) is not None:
            self._folder = script.parent
            self.script_opened.emit(script)
        else:
            self._apply(lambda draft: self._draft_with_file(draft, name))

    def open_file(self) -> None:
        """Ask for a model file and use it."""
        title, folder = "Open a model", str(self._folder)
        chosen, _ = QFileDialog.getOpenFileName(self._window, title, folder, _PYTHON)
        if chosen:
            self.open(chosen)

    def create_file(self) -> None:
        """Ask for a path, write the template there, open it in an editor, and use it as the model."""
        title, path = "New model from the template", str(self._folder / TEMPLATE_NAME)
        chosen, _ = QFileDialog.getSaveFileName(self._window, title, path, _PYTHON)
        if not chosen:
            return
        place = Path(chosen).with_suffix(".py")
        # the dialog asked only about the name as it was typed
        question = f"{place.name} already exists. Replace it?"
        if place != Path(chosen) and place.exists() and not ask(self._window, question, "Replace", "Keep"):
            return
        try:
            written = write_template(place, force=True)
        except ProblemError as error:
            self.reported.emit(error.problem)
            return
        self.open(str(written))
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(written)))

    def state(self) -> list[str]:
        """Return the recently used models, newest first."""
        return list(self._recent)

    def restore(self, state: list[object]) -> None:
        names = (name for name in state if isinstance(name, str) and self._may_offer(name))
        self._recent = tuple(names)[:MOST_RECENT]

    def name_path(self, path: str) -> None:
        """Record that the user named this path of data."""
        self._trusted.name_path(path)

    def _may_offer(self, name: str) -> bool:
        file = ModelRef(name).file
        return file is None or self._trusted.is_named(Path(file))

    def _draft_with_file(self, draft: Draft, name: str) -> Draft:
        """Return the draft with a model file that the user has just named. Raises ProblemError."""
        named = opened(draft, name)
        assert named.code is not None  # it was read
        self._trusted.name(named.code)
        return named

    def _on_application_state(self, state: Qt.ApplicationState) -> None:
        # the user is back from another program, which may be an editor
        if state == Qt.ApplicationState.ApplicationActive:
            self.reread.emit()

    def _apply(self, change: Callable[[Draft], Draft]) -> None:
        if self._draft is None:
            return
        try:
            draft = change(self._draft)
        except ProblemError as error:
            self.reported.emit(error.problem)
            return
        self.pending = None
        self.remember(draft)
        code = draft.code
        if code is not None:
            self._folder = Path(code.folder)
        self.changed.emit(draft)
        if code is not None and models_in(code) and draft.text("model") not in models_in(code):
            # which of its classes is the model
            self._box.setFocus()
            self._box.showPopup()


_Stamp = tuple[tuple[int, int] | None, ...]
"""The time of change in nanoseconds and the size in bytes of each file. None for a deleted file."""


class FileOnDisk:
    """Reads a model file, and reads it again when it or a module that it imports from its folder changes."""

    def __init__(self, trusted: TrustedCode) -> None:
        self._trusted = trusted
        self._place: Path | None = None
        self._stamp: _Stamp = ()
        self._beside: Iterable[str] = ()
        self._read: Code | Problem | None = None

    def read(self, code: Code) -> Code | Problem:
        """Read the current file of `code`. Return a problem if it cannot be read."""
        place = code.place
        if (problem := remote_problem(place)) is not None and not self._trusted.may_look(place):
            return problem
        if place != self._place:
            self._place, self._read, self._beside = place, None, code.beside
        if self._read is None or _stamp(place, self._beside) != self._stamp:
            try:
                self._read = read_code(place)
                self._beside = self._read.beside
            except ProblemError as error:
                self._read = error.problem
            self._stamp = _stamp(place, self._beside)
        return self._read

    def follow(self, draft: Draft) -> tuple[Draft, Problem | None]:
        """Return the draft with the current code of its model file, and the problem if it cannot be read."""
        code = draft.code
        if code is None:
            return _brought(draft)
        if draft.has_kept_code:
            return draft, None
        found = self.read(code)
        if isinstance(found, Problem):
            return draft, found
        is_same = (found.sha256, found.folder) == (code.sha256, code.folder)
        return (draft if is_same else draft.with_change("code", found.to_json())), None

    def differs(self, draft: Draft) -> bool:
        """Return True if the draft has the code of a run or preset, and its file differs."""
        code = draft.code
        if code is None or not draft.has_kept_code:
            return False
        found = self.read(code)
        return isinstance(found, Code) and found.sha256 != code.sha256

    def use(self, draft: Draft) -> Draft:
        """Return the draft with the code on disk, and with the data that it provides. Raises ProblemError."""
        code = draft.code
        if code is None:
            return draft
        return draft.with_code(self._trusted.reread(code), draft.model.class_name)


def opened(draft: Draft, name: str) -> Draft:
    """Return the draft with a model file, by its path and optional class. Raises ProblemError.

    If the file has no `model()` and only one class, that class is the model.
    """
    model = ModelRef(name)
    code, class_name = read_code(model.file or name), model.class_name
    if class_name is None and MODEL not in code.defines and len(code.classes) == 1:
        class_name = code.classes[0]
    return draft.with_code(code, class_name)


def _script_in(name: str) -> Path | None:
    """Return the path of a Python file that has no `model()`, and no other model or a training loop.

    The variable `model` of a file that trains is not a function.
    """
    model = ModelRef(name)
    try:
        code = read_code(model.file or name)
    except ProblemError:
        # whoever opens it as a model says what is wrong with it
        return None
    trains = _TRAINS.search(code.text) is not None
    has_model = _MODEL_FUNCTION.search(code.text) is not None or (MODEL in code.defines and not trains)
    is_script = model.class_name is None and not has_model and (trains or not code.classes)
    return code.place if is_script else None


def find_file(name: str, recent: Iterable[str], *, is_typed: bool) -> str | None:
    """Return the path of a named file: a recent one, or, if the name was typed, any file."""
    model = ModelRef(name)
    files = [file for other in recent if (file := ModelRef(other).file) is not None]
    known = next((file for file in files if model.file in (file, Path(file).name)), None)
    return model.in_file(known) if known is not None else name if is_typed and _is_there(model) else None


def _brought(draft: Draft) -> tuple[Draft, Problem | None]:
    """Return the draft with code for a bare path to a file, and the problem if it cannot be read."""
    name = draft.model
    if name.file is None:
        return draft, None
    if (problem := remote_problem(name)) is not None:
        return draft, problem
    if not (name.startswith("~") or Path(name).is_absolute()) and _is_there(name):
        # only who wrote a path that is not whole knows which folder it is in
        return draft, None
    try:
        return opened(draft, name), None
    except ProblemError as error:
        return draft, error.problem


def _is_unfinished(typed: str) -> bool:
    name, model = typed.strip(), ModelRef(typed.strip())
    is_path = "/" in name or "\\" in name or name.startswith("~") or name.endswith((".", ".p", ".py"))
    return is_path and model.library is None and not _is_there(model)


def _is_there(model: ModelRef) -> bool:
    try:
        return model.file is not None and Path(model.file).expanduser().is_file()
    except (OSError, RuntimeError, ValueError):
        return False


def _stamp(place: Path, beside: Iterable[str]) -> _Stamp:
    return tuple(_changed(path) for path in (place, *(place.parent / name for name in beside)))


def _changed(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size
