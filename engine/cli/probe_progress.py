"""Shows on a terminal how a search goes; where stderr is no terminal it stays silent."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self

from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from engine.cli.output import progress_console
from engine.events import Phase
from engine.probe_events import TrialBegun, TrialEnded
from engine.probing import ProbeEvent


class ProbeProgress:
    """One line that follows the trials of one search; `title` names it."""

    def __init__(self, title: str) -> None:
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=progress_console(),
            disable=not sys.stderr.isatty(),
        )
        self._title = title
        self._task = self._progress.add_task(title)
        self._trials = self._fits = 0
        self._trying = ""

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def show(self, event: ProbeEvent) -> None:
        """Takes one event of the search."""
        if isinstance(event, TrialBegun):
            self._trials += 1
            self._trying = f"trying {event.batch_size:,}"
            self._describe("")
        elif isinstance(event, Phase):
            how_far = "" if event.fraction is None else f" {100 * event.fraction:.0f} %"
            self._describe(f" ({event.name.value}{how_far})")
        elif isinstance(event, TrialEnded) and event.trial.fits:
            self._fits = max(self._fits, event.trial.batch_size)

    def _describe(self, doing: str) -> None:
        known = f", {self._fits:,} fits" if self._fits else ""
        text = f"{self._title}: trial {self._trials}{known}, {self._trying}{doing}"
        self._progress.update(self._task, description=text)
