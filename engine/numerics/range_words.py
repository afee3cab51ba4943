"""Sentences on the exponents of a module's values: how they fare in a dtype and at a loss scale."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from engine.protocol.ranges import Exponents, ModuleRange, NumberFormat
from engine.words.numbers import counted, power_of_two, share_text

_LARGEST_PLAIN, _SMALLEST_PLAIN = 26, -19


def power_value(exponent: int) -> str:
    """Format the value of a power of two: "0.000061", "65,536", "3.6e-12"."""
    value = 2.0**exponent
    if exponent < _SMALLEST_PLAIN or exponent > _LARGEST_PLAIN:
        return f"{value:.1e}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")
    return f"{2**exponent:,}" if exponent >= 0 else f"{Decimal(f'{value:.2g}'):f}"


def power_text(exponent: int) -> str:
    """Format a power of two with its value: "2⁻¹⁴ = 0.000061"."""
    return f"{power_of_two(exponent)} = {power_value(exponent)}"


def scale_text(exponent: int) -> str:
    """Format a loss scale of 2**exponent: "65,536", or "2³⁰" if that is shorter."""
    return power_value(exponent) if exponent <= _LARGEST_PLAIN else power_of_two(exponent)


def fate_sentence(exponents: Exponents, form: NumberFormat) -> str:
    """Return how values fare in a dtype: "1.2% underflow, 3% are subnormal, none overflows"."""
    parts = (
        (exponents.underflow_fraction(form), "underflow", "none underflows"),
        (exponents.subnormal_fraction(form), "are subnormal", "none is subnormal"),
        (exponents.overflow_fraction(form), "overflow", "none overflows"),
    )
    if not any(share for share, *_ in parts):
        return "all values are in its normal range"
    return ", ".join(f"{share_text(share)} {some}" if share else none for share, some, none in parts)


def content_sentence(exponents: Exponents) -> str:
    """Return a phrase with the number of values, and of zeros, infinities and NaN if there are any, such as
    "1,040 values, 40 of them 0".
    """
    special = ((exponents.zeros, "0"), (exponents.infinite, "infinite"), (exponents.nan, "NaN"))
    counts = [f"{count:,} {name}" for count, name in special if count]
    if counts:
        counts[0] = counts[0].replace(" ", " of them ", 1)
    return ", ".join([f"{exponents.total:,} values", *counts])


def own_loss(rows: Iterable[ModuleRange]) -> str:
    """Return how many values underflow and overflow in the experiment's own precision. Empty for none."""
    rows = tuple(rows)
    counts = (
        (sum(row.became_zero for row in rows), "underflowed to 0"),
        (sum(row.became_nonfinite for row in rows), "became infinite or NaN"),
    )
    lost = " and ".join(f"{count:,} {words}" for count, words in counts if count)
    return f"In the experiment's precision, {lost}." if lost else ""


def scale_sentence(gradients: Exponents, overflowing: int, form: NumberFormat, exponent: int) -> str:
    """Return a sentence on the gradients that underflow or overflow in a format at a loss scale.

    The scale is 2**`exponent`. `overflowing` is the number of modules with overflowing gradients.
    """
    under = gradients.underflow_fraction(form, exponent)
    lost = f"{share_text(under)} of the gradients underflow" if under else "no gradient underflows"
    words = f"At {scale_text(exponent)}: {lost} in {form.label},"
    if not overflowing:
        return f"{words} none overflows."
    over = share_text(gradients.overflow_fraction(form, exponent))
    where = counted(overflowing, "module")
    return f"{words} {over} overflow (in {where}). The step would be skipped."
