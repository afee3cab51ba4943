"""One line on a terminal that follows something; where stderr is no terminal it stays silent."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, Self

from rich.progress import Progress, ProgressColumn, TextColumn, TimeElapsedColumn

from engine.cli.output import progress_console, warning
from engine.text import printable


class ProgressLine:
    """The columns, with the time that has passed as the last; there while it is entered.

    `title` is the first description, and `fields` are what the columns read beside it.
    """

    def __init__(self, title: str, *columns: ProgressColumn, **fields: Any) -> None:
        self._title = title = printable(title)
        self._progress = Progress(
            *columns, TimeElapsedColumn(), console=progress_console(), disable=not sys.stderr.isatty()
        )
        self._task = self._progress.add_task(title, total=None, **fields)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def _update(self, **changes: Any) -> None:
        self._progress.update(self._task, **changes)

    def _say(self, text: str, *, always: bool = False) -> None:
        """Writes a remark above the line; where there is no line, only one that is `always` told."""
        if not self._progress.disable:
            self._progress.console.print(printable(text), soft_wrap=True)
        elif always:
            warning(text)


def text_column(form: str) -> TextColumn:
    """A column of text in which nothing is markup: a preset's title and a run's name are anybody's."""
    return TextColumn(form, markup=False)
