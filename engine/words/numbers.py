"""Formats of numbers with units: times, memory, ratios, and the ticks of a linear axis.

Thousands are set off by commas, and all values of a quantity are rounded alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from engine.experiment.value import BYTES_PER_MIB, KIB_PER_MIB, MIB_PER_GIB


@dataclass(frozen=True)
class Tick:
    """A tick of an axis: its position in the coordinates of the axis, and its label."""

    position: float
    text: str


def linear_ticks(low: float, high: float, most: int, *, whole: bool = False) -> tuple[Tick, ...]:
    """Return at most `most` + 1 ticks at multiples of 1, 2 or 5 times a power of ten within [low, high]."""
    if not math.isfinite(high - low):
        return ()
    step = nice_step(high - low, most)
    if whole:
        step = max(1.0, step)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    return tuple(Tick(k * step, tick_text(k * step, decimals)) for k in range(first, last + 1))


_LEAST_SPAN = 1e-290  # below it powers of ten lose their digits


def nice_step(span: float, most: int) -> float:
    """Return the smallest of 1, 2, 5 times a power of ten that fits `span` into at most `most` parts."""
    if not (math.isfinite(span) and span > _LEAST_SPAN):
        return 1.0
    rough = span / max(1, most)
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= rough * (1 - 1e-9))


def tick_text(value: float, decimals: int) -> str:
    """Return the number with commas between thousands. Very large and small ones are powers of ten."""
    if decimals > 6 or abs(value) >= 1e8:
        return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e") if value else "0"
    return f"{value:,.{decimals}f}".replace("-", "−")


_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def power_of_two(exponent: int) -> str:
    """Return a power of two as text: "2⁻²⁴"."""
    return f"2{str(exponent).translate(_RAISED)}"


NONE = "–"


def number(value: float | None, digits: int | None = None) -> str:
    """Return a number with `digits` decimals or three significant digits: "0.438", "NaN", "∞", "–"."""
    if value is None:
        return NONE
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    decimals = three_figures(value) if digits is None else digits
    shown = f"{value:,.{decimals}f}" if abs(value) < 1e8 else f"{value:.2e}"
    return shown.replace("-", "−").replace("e+0", "e").replace("e+", "e")


def three_figures(value: float) -> int:
    """Return the decimals that give a finite value three significant figures, at most 6."""
    rounded = abs(float(f"{value:.3g}"))
    return min(max(0, 2 - math.floor(math.log10(rounded))), 6) if rounded else 0


def times(ratio: float) -> str:
    """Return a ratio with two decimals. From 100 on it has none, and below 0.1 two significant figures."""
    if ratio >= 100:
        return number(ratio, 0)
    return f"{ratio:.2f}" if ratio >= 0.1 or ratio == 0 else f"{ratio:.2g}"


_LARGEST, _SMALLEST = 1e9, 1e-6


def number_text(value: float) -> str:
    """Return a ratio in large type or in a sentence: "5.70", "0.004", "1,200". Not rounded up to 1."""
    if not math.isfinite(value) or value < 0:
        return NONE
    if value < 0.1:
        return _small(value)
    if value < 1:
        return _below_one(value)
    if value > _LARGEST:
        return f"over {_LARGEST:,.0f}"
    return f"{value:.2f}" if value < 100 else f"{value:,.0f}"


def pace_text(ratio: float) -> str:
    """Return a speed-up in words: "1.80 times as fast", or below 1 "1.25 times as long"."""
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
    # enough digits to show that it is below 1, but no more than are meaningful
    texts = (f"{value:.{digits}f}" for digits in (2, 3, 4))
    shown = next((text for text in texts if float(text) < 1), None)
    return shown or ("1.00" if value > 1 - _SMALLEST else "0.9999")


def range_text(low: float, high: float) -> str:
    """Return the ends of a range, with enough digits to distinguish them: "5.50 to 5.90"."""
    texts = [number_text(low), number_text(high)]
    for digits in (2, 3, 4):
        if texts[0] != texts[1]:
            break
        texts = [f"{low:,.{digits}f}", f"{high:,.{digits}f}"]
    return " to ".join(texts)


def magnitude_text(count: float) -> str:
    """Return a large number in short: "25.6 M", "12 k", "9,999"."""
    for least, scale, form in ((1e9, 1e9, "{:,.1f} B"), (1e6, 1e6, "{:,.1f} M"), (1e4, 1e3, "{:,.0f} k")):
        if count >= least:
            return form.format(count / scale)
    return f"{count:,.0f}"


def size_text(size_bytes: float) -> str:
    """Return a size on disk, or of a download: "2.6 GiB"."""
    return memory_text(size_bytes / BYTES_PER_MIB)


def memory_text(mib: float) -> str:
    """Return an amount in MiB as text: "10.2 GiB", "0.2 KiB", and "–" for NaN, Inf and negative amounts."""
    if not math.isfinite(mib) or mib < 0:
        return NONE
    if round(mib) >= MIB_PER_GIB:
        return f"{mib / MIB_PER_GIB:,.1f} GiB"
    if 0 < mib < 0.1:
        return f"{max(mib * KIB_PER_MIB, 0.1):.1f} KiB"
    return f"{mib:,.0f} MiB" if mib >= 10 or mib == 0 else f"{mib:.1f} MiB"


def need_text(needed_mib: float, budget_mib: float) -> str:
    """Return needed and available memory: "about 3.1 GiB of 2.0 GiB"."""
    return f"about {memory_text(needed_mib)} of {memory_text(budget_mib)}"


def memory_unit_text(*mib: float | None) -> str:
    """Explain the unit of these amounts: "1 GiB is about 1 GB". "" without any amount."""
    known = [amount for amount in mib if amount is not None]
    if not known:
        return ""
    return "1 GiB is about 1 GB" if max(map(round, known)) >= MIB_PER_GIB else "1 MiB is about 1 MB"


def memory_apart_text(one_mib: float, other_mib: float) -> str:
    """Return the difference of two amounts as they are shown, or "" if they look equal."""
    if min(round(one_mib), round(other_mib)) >= MIB_PER_GIB:
        apart_gib = abs(round(one_mib / MIB_PER_GIB, 1) - round(other_mib / MIB_PER_GIB, 1))
        return f"{apart_gib:,.1f} GiB" if apart_gib >= 0.05 else ""
    apart = abs(one_mib - other_mib)
    return memory_text(apart) if apart >= 0.5 else ""


_SPANS = ((1.0, "second", "s"), (60.0, "minute", "min"), (3_600.0, "hour", "h"), (86_400.0, "day", "days"))


def seconds_text(seconds: float) -> str:
    """Return a time in words: "2.6 seconds", "6.7 minutes"."""
    amount, words, _ = _span(seconds)
    return f"{amount} {words}s"


def seconds_abbreviated(seconds: float) -> str:
    """Return a time in signs: "2.6 s", "6.7 min"."""
    amount, _, sign = _span(seconds)
    return f"{amount} {sign}"


def _span(seconds: float) -> tuple[str, str, str]:
    """The amount and its unit: the largest of which there are at least two."""
    unit, words, sign = next(
        (smaller for smaller, larger in pairwise(_SPANS) if seconds < 2 * larger[0]), _SPANS[-1]
    )
    amount = seconds / unit
    if not math.isfinite(amount) or amount < 0:
        return NONE, words, sign
    if amount > _LARGEST:
        return f"over {_LARGEST:,.0f}", words, sign
    if amount < 0.1:
        return _small(amount), words, sign
    return f"{amount:.1f}" if round(amount, 1) < 100 else f"{amount:,.0f}", words, sign


def memory_unit(values_mib: Sequence[float | None]) -> tuple[str, float]:
    """Return the unit for all the values, "MiB" only if every one is below 1 GiB, and its size in MiB."""
    largest = max((value for value in values_mib if value is not None), default=MIB_PER_GIB)
    return ("GiB", MIB_PER_GIB) if largest >= MIB_PER_GIB else ("MiB", 1.0)


def decimals_for(values: Iterable[float | None]) -> int:
    """Return the decimals that show about three figures of the largest finite value."""
    sizes = [abs(value) for value in values if value is not None and math.isfinite(value)]
    return three_figures(max(sizes, default=0.0))


def ratio(value: float | None, baseline: float | None) -> str:
    """Return `value` / `baseline` as "1.89×", or "" if there is no such ratio."""
    if value is None or not baseline or not (math.isfinite(value) and math.isfinite(baseline)):
        return ""
    return f"{times(value / baseline)}×"


NOTHING = "0%"


def share_text(fraction: float) -> str:
    """Return a share in percent: "0%", "0.02%", "12%". Only exact values are "0%" or "100%"."""
    percent = 100 * fraction
    if not percent:
        return NOTHING
    if percent < 0.01:
        return "<\N{NO-BREAK SPACE}0.01%"
    if 99.9 < percent < 100:
        return ">\N{NO-BREAK SPACE}99.9%"
    digits = 2 if percent < 0.1 else 1 if percent < 10 or 99.5 <= percent < 100 else 0
    return f"{percent:.{digits if percent % 1 else 0}f}%"


def unit_suffix(unit: str) -> str:
    """Return a unit as it follows a number: "%", " GiB", or ""."""
    return unit if not unit or unit.startswith("%") else f" {unit}"


def counted(count: int, noun: str) -> str:
    """Return a number of things: "1 step", "2,000 steps"."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def throughput_text(tflops: float) -> str:
    """Return a throughput: "350 TFLOP/s", or below 1 TFLOP/s "28.1 GFLOP/s"."""
    return f"{number(tflops)} TFLOP/s" if tflops >= 1 else f"{number(1e3 * tflops)} GFLOP/s"


def duration(seconds: float) -> str:
    """Return a span of time in one or two units: "3 s", "2 min 5 s", "1 h 4 min"."""
    whole = max(0, math.ceil(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 10:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes} min" if minutes else f"{hours:,} h"


def clock_text(moment: datetime, now: datetime) -> str:
    """Return a time of day, with the day where that is not today: "14:05", "Tue 02:14", "30 Nov, 02:14"."""
    days = (moment.date() - now.date()).days
    if days == 0:
        return f"{moment:%H:%M}"
    return f"{moment:%a %H:%M}" if 0 < days < 7 else date_text(moment)


def date_text(moment: datetime) -> str:
    """Return a moment for a list of saved work: "30 Nov, 02:14"."""
    return f"{moment.astimezone():%d %b, %H:%M}"


def gib(mib: float) -> str:
    """Return MiB as GiB with one decimal, or two below 1 GiB."""
    value = mib / MIB_PER_GIB
    return f"{value:,.1f}" if value >= 1 else f"{value:.2f}"
