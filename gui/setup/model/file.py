"""Keeps the code of a draft as it is on disk, unless it is the code of a run. No Qt."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from engine.experiment.own.code import MODEL, Code, model_file, read_code
from engine.experiment.problem import Problem, ProblemError
from gui.setup.draft import Draft

_Stamp = tuple[tuple[int, int] | None, ...]
"""When each file was changed, in nanoseconds, and its size in bytes; None for a file that is gone."""


class FileOnDisk:
    """Reads a workload file again when it, or a module beside it, has changed."""

    def __init__(self) -> None:
        self._place: Path | None = None
        self._stamp: _Stamp = ()
        self._beside: Iterable[str] = ()
        self._read: Code | Problem | None = None

    def read(self, code: Code) -> Code | Problem:
        """What the file of `code` holds now, or why it cannot be read."""
        place = Path(code.folder, code.file)
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

    def follow(self, draft: Draft, folders: Iterable[str] = ()) -> tuple[Draft, Problem | None]:
        """The draft with its model's code as it is on disk; else why that cannot be read.

        The file of a name without code is looked for in the working directory and in `folders`.
        """
        code = draft.code
        if code is None:
            return _looked_for(draft, folders)
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
        split = model_file(draft.text("model").strip())
        return draft.with_code(read_code(Path(code.folder, code.file)), split[1] if split else None)


def opened(draft: Draft, name: str) -> Draft:
    """The draft with the model of a file, named by its path and perhaps a class. Raises ProblemError.

    Where the file has no `model()` and only one class, that is the model.
    """
    path, class_name = model_file(name) or (name, None)
    code = read_code(path)
    if class_name is None and MODEL not in code.defines and len(code.classes) == 1:
        class_name = code.classes[0]
    return draft.with_code(code, class_name)


def _looked_for(draft: Draft, folders: Iterable[str]) -> tuple[Draft, Problem | None]:
    name = draft.text("model").strip()
    split = model_file(name)
    if split is None:
        return draft, None
    places = (name, *(str(Path(folder, name)) for folder in folders))
    try:
        return opened(draft, next(filter(_is_there, places), name)), None
    except ProblemError as error:
        return draft, error.problem


def _is_there(name: str) -> bool:
    split = model_file(name)
    try:
        return split is not None and Path(split[0]).expanduser().is_file()
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
