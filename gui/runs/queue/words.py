"""What the queue says: states, times and offers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from engine.store.queue import WaitingItem
from engine.words.numbers import NONE, clock_text, duration, share_text
from gui.runs.queue.schedule import Schedule, Slot
from gui.session.items import QueueItem, counted_work

KIND_ICONS: Mapping[str, str] = {
    "run": "play",
    "limit": "limit",
    "numerics": "pulse",
    "profile": "profile",
    "sweep": "sweep",
    "tune": "tune",
}
EMPTY = (
    "Nothing waits.",
    "While something is in progress, what else you start waits here and begins by itself: runs, limits, "
    "numerics, profiles, sweeps and tunings. The queue survives the end of the program.",
)


def empty_words(left: Sequence[WaitingItem]) -> tuple[str, ...]:
    """What the page says while it has no rows: a statement, a hint, and a button if something is left."""
    return (left_words(left), "Nothing of it begins until you press Go on.", "Go on") if left else EMPTY


def time_text(moment: datetime | None, now: datetime) -> str:
    """When an item begins or is over, as far as that is known."""
    return NONE if moment is None else clock_text(moment, now)


def state_text(item: QueueItem) -> str:
    """Whether it runs, waits or is held; how far it is comes as a bar where it is known."""
    if item.is_running:
        return "Running" if item.progress is None else share_text(item.progress)
    return "Held" if item.is_held else "Waiting"


def begins_text(slot: Slot, now: datetime) -> str:
    """When an item begins."""
    return "now" if slot.item.is_running else time_text(slot.begins, now)


def duration_text(item: QueueItem) -> str:
    """How long an item still takes."""
    return NONE if item.seconds_left is None else duration(item.seconds_left)


def summary_text(schedule: Schedule) -> str:
    """How much waits and how long it takes, above the table; empty where there is nothing."""
    if not schedule.slots:
        return ""
    parts = [f"{schedule.waiting:,} waiting"]
    if schedule.held:
        parts.append(f"{schedule.held:,} held")
    counted = [item for item in schedule.items if not item.is_held]
    if any(item.seconds_left is not None for item in counted):
        parts.append(f"{'at least ' if schedule.at_least else ''}{duration(schedule.seconds)}")
    if not schedule.has_engine:
        parts.append("begins once the engine is set up")
    elif schedule.rests:
        is_busy = any(item.is_running for item in counted)
        parts.append("stops after this one" if is_busy else "the queue rests")
    elif counted and not schedule.at_least:
        parts.append(f"everything done at {clock_text(schedule.ends, schedule.now)}")
    return " · ".join(parts)


def left_words(left: Sequence[WaitingItem]) -> str:
    """Says what an earlier window left: "2 runs and a profile are still in the queue from last time."."""
    what = counted_work(item.kind for item in left)
    verb = "is" if len(left) == 1 else "are"
    return f"{what[:1].upper()}{what[1:]} {verb} still in the queue from last time."
