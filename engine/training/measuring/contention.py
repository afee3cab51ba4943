"""What to say of a CPU run beside which other programs took the processor: they share its cores."""

from __future__ import annotations

import os

from engine.busyness import TOLERATED_SHARE


def contention_note(share: float) -> str | None:
    """What to say of a speed that was measured beside other programs; None where it is little."""
    if share < TOLERATED_SHARE:
        return None
    return (
        f"other programs took {100 * share:.0f} % of the processor meanwhile ({os.cpu_count()} cores), "
        "so the speed is lower than it could be"
    )
