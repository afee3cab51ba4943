"""What the form says of a grid: its size, what is left out, memory and time. No Qt."""

from __future__ import annotations

from datetime import datetime, timedelta

from engine.words.numbers import clock_text, counted, duration, memory_text
from gui.setup.draft import Draft
from gui.setup.grid.survey import Survey
from gui.setup.grid.values import cleaned

PENDING = "Checking the cells…"


def button_words(draft: Draft, count: int) -> str:
    """The button's text: "Compare 12 cells, 3 times each"."""
    compares = len(draft.ticked) > 1 or "step.recipe" in draft.several
    repeats = cleaned("repeat", draft.repeats)
    each = f", {repeats} times each" if repeats.isdecimal() and int(repeats) > 1 else ""
    return f"{'Compare' if compares else 'Train'} {counted(count, 'cell')}{each}"


def plan_words(survey: Survey) -> str:
    """What will be trained: "12 cells, 24 runs"."""
    assert survey.grid is not None
    runs = (survey.grid.size - survey.left_out) * survey.plan.repeats
    at_least = "at least " if survey.plan.precision_percent is not None else ""
    return f"{counted(survey.grid.size, 'cell')}, {at_least}{counted(runs, 'run')}"


def left_out_words(survey: Survey) -> str:
    """How many cells are left out and why the first of them is; empty for none."""
    grid, why = survey.grid, survey.fit.why
    if grid is None or not why:
        return ""
    first = min(why)
    name, needed = grid.name(grid.cells[first].places), survey.fit.needed_mib
    count = f"{len(why):,} of {counted(grid.size, 'cell')}"
    if first in needed:
        verb = "will not fit" if all(index in needed for index in why) else "are left out"
        return f"{count} {verb}: {name} needs about {memory_text(needed[first])}."
    verb = "cannot be trained here" if not any(index in needed for index in why) else "are left out"
    return f"{count} {verb}. {name}: {why[first]}"


def memory_words(survey: Survey) -> str:
    """The memory that the cells to train need; empty while none is forecast."""
    needed = [mib for index, mib in survey.fit.needed_mib.items() if index not in survey.fit.why]
    if not needed:
        return ""
    least, most = memory_text(min(needed)), memory_text(max(needed))
    return f"Needs about {least}" + (f" to {most}" if most != least else "")


def time_words(survey: Survey, now: datetime) -> str:
    """How long the sweep takes and when it is over, as far as is known."""
    limit, estimate = survey.plan.time_limit_seconds, survey.estimate
    if estimate is None:
        return "The time is known after the pilots" + (
            "" if limit is None else f", at most {duration(limit)}"
        )
    end = now + timedelta(seconds=estimate.seconds_left)
    rough = "; more exactly after the pilots" if estimate.is_rough else ""
    return f"About {duration(estimate.seconds_left)}, until {clock_text(end, now)}{rough}"
