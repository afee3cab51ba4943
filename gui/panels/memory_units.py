"""Units of memory."""

from __future__ import annotations

from collections.abc import Sequence


def memory_unit(values_mib: Sequence[float | None]) -> tuple[str, float]:
    """GiB, or MiB while everything is below one GiB; and how many MiB that is."""
    largest = max((value for value in values_mib if value is not None), default=1024.0)
    return ("GiB", 1024.0) if largest >= 1024.0 else ("MiB", 1.0)
