"""Garbage collection in the window's thread only."""

from __future__ import annotations

import gc


def collect_due() -> None:
    """Collect as often as Python does by itself, which collects in whichever thread allocates.

    In another thread that would delete widgets while the window uses them.
    """
    counts = enumerate(zip(gc.get_count(), gc.get_threshold(), strict=True))
    due = [generation for generation, (count, threshold) in counts if count > threshold]
    if due:
        gc.collect(due[-1])
