"""What the form asks the window to run."""

from __future__ import annotations

from dataclasses import dataclass

from engine.experiment import Experiment


@dataclass(frozen=True)
class Request:
    """What the form asks the window to run: labelled experiments, which a comparison then sets side by side.

    Each is trained `repeats` times, in turns. `name` is what the user called the runs, or None where they are
    to be numbered. `title` is for a comparison, or for a single run that has a name; it is empty for one that
    is to be numbered.
    """

    title: str
    experiments: tuple[tuple[str, Experiment], ...]
    is_comparison: bool
    name: str | None = None
    repeats: int = 1
