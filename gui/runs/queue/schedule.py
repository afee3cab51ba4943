"""When what waits will begin and be over, as far as the durations are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from gui.session.items import QueueItem, seconds_of


@dataclass(frozen=True)
class Slot:
    """An item with the times at which it will begin and be over; None where that is unknown."""

    item: QueueItem
    begins: datetime | None
    ends: datetime | None


@dataclass(frozen=True)
class Schedule:
    """The slots in the queue's order, and how long all that is not held still takes.

    It takes `at_least` that long where a duration is unknown. While the queue `rests`, or there is no engine
    that can be used, nothing that waits has a time.
    """

    slots: tuple[Slot, ...]
    seconds: float
    at_least: bool
    rests: bool
    now: datetime
    has_engine: bool = True

    @property
    def items(self) -> tuple[QueueItem, ...]:
        return tuple(slot.item for slot in self.slots)

    @property
    def waiting(self) -> int:
        """How many wait, held or not."""
        return sum(not item.is_running for item in self.items)

    @property
    def held(self) -> int:
        return sum(item.is_held for item in self.items)

    @property
    def ends(self) -> datetime:
        """When all is done, at the earliest if it takes `at_least` its seconds."""
        return self.now + timedelta(seconds=self.seconds)


def schedule(items: Sequence[QueueItem], now: datetime, *, rests: bool, has_engine: bool = True) -> Schedule:
    """The times of all items, of which the one in progress comes first; held ones have none."""
    slots: dict[str, Slot] = {}
    clock: datetime | None = now
    for item in sorted(items, key=lambda item: not item.is_running):
        if item.is_held or (not item.is_running and (rests or not has_engine)):
            slots[item.key] = Slot(item, None, None)
            continue
        begins, seconds = clock, item.seconds_left
        clock = None if clock is None or seconds is None else clock + timedelta(seconds=seconds)
        slots[item.key] = Slot(item, begins, clock)
    total, at_least = seconds_of(items)
    return Schedule(
        slots=tuple(slots[item.key] for item in items),
        seconds=total,
        at_least=at_least,
        rests=rests,
        now=now,
        has_engine=has_engine,
    )
