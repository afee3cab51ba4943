"""Shows on a terminal how a run goes; where stderr is no terminal it stays silent."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from engine.cli.output import progress_console
from engine.events import Epoch, Event, Log, Phase, Samples, Started


class RunProgress:
    """One line that follows the events of one run; `title` names it."""

    def __init__(self, title: str) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=28),
            TextColumn("step {task.completed:,.0f} of {task.fields[steps]}"),
            TextColumn("{task.fields[figures]}"),
            TimeElapsedColumn(),
            console=progress_console(),
            disable=not sys.stderr.isatty(),
        )
        self._title = title
        self._task = self._progress.add_task(title, total=None, steps="–", figures="")
        self._accuracy = ""

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def show(self, event: Event) -> None:
        """Takes one event of the run."""
        if isinstance(event, Started):
            done, total = event.resumed_step or 0, event.total_steps
            self._progress.update(self._task, completed=done, total=total, steps=f"{total:,}")
        elif isinstance(event, Phase):
            how_far = "" if event.fraction is None else f" {100 * event.fraction:.0f} %"
            self._progress.update(self._task, description=f"{self._title}: {event.name.value}{how_far}")
        elif isinstance(event, Samples) and event.step:
            figures = f"{event.samples_per_second[-1]:,.0f} samples/s  loss {event.loss[-1]:.3f}"
            self._progress.update(self._task, completed=event.step[-1], figures=f"{figures}{self._accuracy}")
        elif isinstance(event, Epoch) and event.validation_accuracy is not None:
            self._accuracy = f"  accuracy {100 * event.validation_accuracy:.1f} %"
        elif isinstance(event, Log) and sys.stderr.isatty():
            self._progress.console.print(event.message, soft_wrap=True)
