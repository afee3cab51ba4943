"""Numbers as a person reads them aloud: a ratio, an amount of memory, a time."""

from __future__ import annotations

import math
from itertools import pairwise

_LARGEST, _SMALLEST = 1e9, 1e-6
_UNKNOWN = "–"
_MIB_PER_GIB = 1024.0


def number_text(value: float) -> str:
    """A ratio as it stands on a wall: "5.7", "1.03", "0.80", "0.004", "1,200".

    What is below 1 is never rounded up to it: 0.996 is "0.996". NaN, infinity and what is below 0 are "–".
    """
    if not math.isfinite(value) or value < 0:
        return _UNKNOWN
    if value < 0.1:
        return _small(value)
    if value < 1:
        return _below_one(value)
    if value > _LARGEST:
        return f"over {_LARGEST:,.0f}"
    if round(value, 2) < 2:
        return f"{value:.2f}"
    return f"{value:.1f}" if round(value, 1) < 100 else f"{value:,.0f}"


def pace_text(ratio: float) -> str:
    """How fast something was as people say it: "1.80 times as fast"; below 1 "1.25 times as long"."""
    if ratio < 1:
        return f"{number_text(1.0 / ratio if ratio > 0 else math.inf)} times as long"
    return f"{number_text(ratio)} times as fast"


def _small(value: float) -> str:
    if value == 0:
        return "0"
    if value < _SMALLEST:
        return f"under {_SMALLEST:.6f}"
    text = f"{value:.{1 - math.floor(math.log10(value))}f}".rstrip("0")
    return text if float(text) < 0.1 else "0.10"


def _below_one(value: float) -> str:
    """With as many digits as it takes to be seen to be below 1, though no more than mean something."""
    texts = (f"{value:.{digits}f}" for digits in (2, 3, 4))
    seen = next((text for text in texts if float(text) < 1), None)
    return seen or ("1.00" if value > 1 - _SMALLEST else "0.9999")


def range_text(low: float, high: float) -> str:
    """Two numbers that a third lies between, with digits enough to tell them apart: "5.5 and 5.9"."""
    texts = [number_text(low), number_text(high)]
    for digits in (2, 3, 4):
        if texts[0] != texts[1]:
            break
        texts = [f"{low:,.{digits}f}", f"{high:,.{digits}f}"]
    return " and ".join(texts)


def memory_text(mib: float) -> str:
    """An amount of memory given in MiB: "10.2 GiB", "940 MiB"; what is no amount is "–"."""
    if not math.isfinite(mib) or mib < 0:
        return _UNKNOWN
    if round(mib) >= _MIB_PER_GIB:
        return f"{mib / _MIB_PER_GIB:,.1f} GiB"
    return f"{mib:,.0f} MiB" if mib >= 10 or mib == 0 else f"{mib:.1f} MiB"


def memory_unit_text(*mib: float | None) -> str:
    """What the unit is in which such amounts are told, in one that everybody knows; "" without any amount."""
    known = [amount for amount in mib if amount is not None]
    if not known:
        return ""
    return "1 GiB is about 1 GB" if max(map(round, known)) >= _MIB_PER_GIB else "1 MiB is about 1 MB"


def memory_apart_text(one_mib: float, other_mib: float) -> str:
    """How far two amounts are apart, as the difference of what is shown of them; "" where that is nothing."""
    if min(round(one_mib), round(other_mib)) >= _MIB_PER_GIB:
        apart_gib = abs(round(one_mib / _MIB_PER_GIB, 1) - round(other_mib / _MIB_PER_GIB, 1))
        return f"{apart_gib:,.1f} GiB" if apart_gib >= 0.05 else ""
    apart = abs(one_mib - other_mib)
    return memory_text(apart) if apart >= 0.5 else ""


_SPANS = ((1.0, "second", "s"), (60.0, "minute", "min"), (3_600.0, "hour", "h"), (86_400.0, "day", "days"))


def seconds_text(seconds: float) -> str:
    """A time in words: "2.6 seconds", "6.7 minutes"."""
    amount, words, _ = _span(seconds)
    return f"{amount} {words}s"


def seconds_short(seconds: float) -> str:
    """A time in signs: "2.6 s", "6.7 min"."""
    amount, _, sign = _span(seconds)
    return f"{amount} {sign}"


def _span(seconds: float) -> tuple[str, str, str]:
    """The amount and its unit: two of a unit are told in it, and not in the smaller one."""
    unit, words, sign = next(
        (smaller for smaller, larger in pairwise(_SPANS) if seconds < 2 * larger[0]), _SPANS[-1]
    )
    amount = seconds / unit
    if not math.isfinite(amount) or amount < 0:
        return _UNKNOWN, words, sign
    if amount > _LARGEST:
        return f"over {_LARGEST:,.0f}", words, sign
    if amount < 0.1:
        return _small(amount), words, sign
    return f"{amount:.1f}" if round(amount, 1) < 100 else f"{amount:,.0f}", words, sign
