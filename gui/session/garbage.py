"""Garbage collection in the window's thread only."""

from __future__ import annotations

import gc


def collect_due() -> None:
    """Collect garbage as often as Python would, but in this thread.

    Python collects in any thread that allocates, which could delete widgets in use.
    """
    counts = enumerate(zip(gc.get_count(), gc.get_threshold(), strict=True))
    due = [generation for generation, (count, threshold) in counts if count > threshold]
    if due:
        gc.collect(due[-1])
