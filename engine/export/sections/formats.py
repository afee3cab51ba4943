"""The formats that a kind of saved work is exported in, chosen by the ending of the path."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from engine.experiment.problem import ProblemError, request_problem
from engine.export.files import check_free, place

Record = TypeVar("Record")


@dataclass(frozen=True)
class SavedFormat(Generic[Record]):
    """A format: `suffix` ends its paths, and `title` is its name in menus.

    `write`, a function "module.name" of engine.export, takes a record and the path; its module is imported
    at the first use.
    """

    suffix: str
    title: str
    write: str

    def writer(self) -> Callable[[Record, Path], None]:
        """The function itself."""
        module, _, name = self.write.rpartition(".")
        writer: Callable[[Record, Path], None] = getattr(
            importlib.import_module(f"engine.export.{module}"), name
        )
        return writer


@dataclass(frozen=True)
class SavedFormats(Generic[Record]):
    """All formats of `noun`, such as "a diagnosis"."""

    noun: str
    formats: tuple[SavedFormat[Record], ...]

    @property
    def endings(self) -> str:
        """The endings of paths, with commas between them."""
        return ", ".join(form.suffix for form in self.formats)

    def export(self, record: Record, path: str | Path, *, force: bool = False) -> Path:
        """Writes a record in the format that `path` asks for, and returns the path.

        Existing files are kept unless `force`. Raises ProblemError; nothing is left half-written.
        """
        form, target = self._format_for(path), Path(path)
        with place(target, force=force) as temporary:
            form.writer()(record, temporary)
        return target

    def check(self, path: str | Path, *, force: bool = False) -> None:
        """Raises ProblemError where `export` to `path` would, as far as that is known before."""
        self._format_for(path)
        check_free(Path(path), force=force)

    def _format_for(self, path: str | Path) -> SavedFormat[Record]:
        text = os.fspath(path)
        name = Path(text).name.lower()
        form = next((form for form in self.formats if name.endswith(form.suffix)), None)
        if form is None:
            raise ProblemError(
                request_problem(
                    f"'{text}' names no format that {self.noun} is exported in.",
                    f"End it in {self.endings}.",
                    key="to",
                    value=text,
                    allowed=self.endings,
                )
            )
        return form
