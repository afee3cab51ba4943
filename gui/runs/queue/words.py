"""What the queue's dock says: states, times and offers."""

from __future__ import annotations

from collections.abc import Sequence

from engine.store.queue.waiting import WaitingItem
from gui.session.queue import counted_work


def left_words(left: Sequence[WaitingItem]) -> str:
    """Says what an earlier window left: "2 runs and a timing are still in the queue from last time."."""
    what = counted_work(item.kind for item in left)
    verb = "is" if len(left) == 1 else "are"
    return f"{what[:1].upper()}{what[1:]} {verb} still in the queue from last time."
