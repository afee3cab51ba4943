"""Shows on a terminal how a run goes."""

from __future__ import annotations

from rich.progress import BarColumn

from engine.cli.progress_line import ProgressLine, text_column
from engine.events import Epoch, Event, Log, Phase, Samples, Started
from engine.records.figures import SPEED


class RunProgress(ProgressLine):
    """One line that follows the events of one run; `title` names it."""

    def __init__(self, title: str) -> None:
        super().__init__(
            title,
            text_column("{task.description}"),
            BarColumn(bar_width=28),
            text_column("step {task.completed:,.0f} of {task.fields[steps]}"),
            text_column("{task.fields[figures]}"),
            steps="–",
            figures="",
        )
        self._accuracy = ""

    def show(self, event: Event) -> None:
        """Takes one event of the run."""
        if isinstance(event, Started):
            done, total = event.resumed_step or 0, event.total_steps
            self._update(completed=done, total=total, steps=f"{total:,}")
        elif isinstance(event, Phase):
            how_far = "" if event.fraction is None else f" {100 * event.fraction:.0f} %"
            self._update(description=f"{self._title}: {event.name.value}{how_far}")
        elif isinstance(event, Samples) and event.step:
            figures = f"{SPEED.text_with_unit(event.samples_per_second[-1])}  loss {event.loss[-1]:.3f}"
            self._update(completed=event.step[-1], figures=f"{figures}{self._accuracy}")
        elif isinstance(event, Epoch) and event.validation_accuracy is not None:
            self._accuracy = f"  accuracy {100 * event.validation_accuracy:.1f} %"
        elif isinstance(event, Log):
            self._say(event.message, always=event.level == "problem")
