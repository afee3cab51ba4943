"""Shows on a terminal how a search for the largest batch goes."""

from __future__ import annotations

from rich.progress import SpinnerColumn

from engine.cli.progress_line import ProgressLine, text_column
from engine.events import Phase
from engine.probe_events import ProbeStarted, TrialBegun, TrialEnded
from engine.probing import ProbeEvent


class ProbeProgress(ProgressLine):
    """One line that follows the trials of one search; `title` names it."""

    def __init__(self, title: str) -> None:
        super().__init__(title, SpinnerColumn(), text_column("{task.description}"))
        self._trials = self._fits = 0
        self._trying = ""

    def show(self, event: ProbeEvent) -> None:
        """Takes one event of the search."""
        if isinstance(event, ProbeStarted):
            self._update(description=f"{self._title}: getting ready")
        elif isinstance(event, TrialBegun):
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
        self._update(description=text)
