"""Numbers for JSON, which knows neither NaN nor infinity: they travel as text, as in the protocol."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

_WORDS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def plain_column(values: NDArray[Any]) -> list[Any]:
    """A column as plain JSON values."""
    if np.all(np.isfinite(values)):
        return list(values.tolist())
    return [plain(value) for value in values.tolist()]


def plain(value: Any) -> Any:
    """A value as JSON has it; tuples and lists are gone through, and what is no number stays."""
    if isinstance(value, float) and not math.isfinite(value):
        return _WORDS[str(value)]
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return value
