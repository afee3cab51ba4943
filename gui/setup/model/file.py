"""Keeps the code of a draft as it is on disk, unless it is the code of a run. No Qt."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from engine.experiment.model_ref import ModelRef
from engine.experiment.own.code import MODEL, Code, read_code, remote_problem
from engine.experiment.problem import Problem, ProblemError
from gui.setup.draft import Draft

_Stamp = tuple[tuple[int, int] | None, ...]
"""When each file was changed, in nanoseconds, and its size in bytes; None for a file that is gone."""


class FileOnDisk:
    """Reads a workload file again when it, or a module beside it, has changed.

    `is_named` says whether the user named a path here; no other is followed to another machine.
    """

    def __init__(self, is_named: Callable[[Path], bool]) -> None:
        self._is_named = is_named
        self._place: Path | None = None
        self._stamp: _Stamp = ()
        self._beside: Iterable[str] = ()
        self._read: Code | Problem | None = None

    def read(self, code: Code) -> Code | Problem:
        """What the file of `code` holds now, or why it cannot be read."""
        place = code.place
        if (problem := remote_problem(place)) is not None and not self._is_named(place):
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
        """The draft with its model's code as it is on disk; else why that cannot be read."""
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
        """Whether the draft keeps the code of a run or preset, and its file is there with other code."""
        code = draft.code
        if code is None or not draft.has_kept_code:
            return False
        found = self.read(code)
        return isinstance(found, Code) and found.sha256 != code.sha256

    def use(self, draft: Draft) -> Draft:
        """The draft with the code on disk in place of what it keeps, and its dataset. Raises ProblemError."""
        code = draft.code
        if code is None:
            return draft
        return draft.with_code(read_code(code.place), draft.model.class_name)


def opened(draft: Draft, name: str) -> Draft:
    """The draft with the model of a file, named by its path and perhaps a class. Raises ProblemError.

    Where the file has no `model()` and only one class, that is the model.
    """
    model = ModelRef(name)
    code, class_name = read_code(model.file or name), model.class_name
    if class_name is None and MODEL not in code.defines and len(code.classes) == 1:
        class_name = code.classes[0]
    return draft.with_code(code, class_name)


def place_of(name: str, recent: Iterable[str], *, is_typed: bool) -> str | None:
    """The path of the file that a name stands for: of a recent one, or else of any, if it was typed."""
    model = ModelRef(name)
    files = [file for other in recent if (file := ModelRef(other).file) is not None]
    known = next((file for file in files if model.file in (file, Path(file).name)), None)
    return model.in_file(known) if known is not None else name if is_typed and _is_there(model) else None


def _brought(draft: Draft) -> tuple[Draft, Problem | None]:
    """The draft with the file whose path it brings without the text; else why that cannot be read."""
    name = draft.model
    if name.file is None:
        return draft, None
    if (problem := remote_problem(name)) is not None:
        return draft, problem
    if not _is_whole(name) and _is_there(name):
        # only who wrote a path that is not whole knows which folder it is in
        return draft, None
    try:
        return opened(draft, name), None
    except ProblemError as error:
        return draft, error.problem


def _is_whole(name: str) -> bool:
    return name.startswith("~") or Path(name).is_absolute()


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
