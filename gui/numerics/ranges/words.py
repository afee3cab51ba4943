"""The meaning of the ranges of a model's numbers, in words."""

from __future__ import annotations

from engine.protocol.numerics.formats import Exponents, NumberFormat
from engine.words.numbers import share_text

_LARGEST_PLAIN, _SMALLEST_PLAIN = 26, -19


def power_text(exponent: int) -> str:
    """A power of two, with its value: "2^-14 = 0.000061"."""
    return f"2^{exponent} = {power_value(exponent)}"


def power_value(exponent: int) -> str:
    """The value of a power of two: "0.000061", "65,536", "3.6e-12"."""
    value = 2.0**exponent
    if exponent < _SMALLEST_PLAIN or exponent > _LARGEST_PLAIN:
        return f"{value:.1e}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")
    if exponent >= 0:
        return f"{2**exponent:,}"
    return f"{value:.10f}"[: _significant(exponent)].rstrip("0")


def scale_text(exponent: int) -> str:
    """A loss scale of 2**exponent: "65,536", or "2^30" where that is shorter."""
    return power_value(exponent) if exponent <= _LARGEST_PLAIN else f"2^{exponent}"


def _significant(exponent: int) -> int:
    """The length of "0.0000610" up to its second figure other than 0."""
    text = f"{2.0**exponent:.10f}"
    first = next(place for place, figure in enumerate(text) if figure not in "0.")
    return first + 2


def fate_sentence(exponents: Exponents, form: NumberFormat) -> str:
    """The fate of these numbers in a format: "1.2 % become 0, 3 % lose digits, none overflows"."""
    under, short, over = (
        exponents.underflow_fraction(form),
        exponents.subnormal_fraction(form),
        exponents.overflow_fraction(form),
    )
    if not under + short + over:
        return "holds all of them in full"
    parts = (
        f"{share_text(under)} become 0" if under else "none becomes 0",
        f"{share_text(short)} lose digits" if short else "none loses digits",
        f"{share_text(over)} overflow" if over else "none overflows",
    )
    return ", ".join(parts)


def content_sentence(exponents: Exponents) -> str:
    """The count of the numbers, and of those without an exponent: "1,040 numbers, 40 of them 0"."""
    special = [
        f"{count:,} {name}"
        for count, name in ((exponents.zeros, "0"), (exponents.infinite, "infinite"), (exponents.nan, "NaN"))
        if count
    ]
    if not special:
        return f"{exponents.total:,} numbers"
    special[0] = special[0].replace(" ", " of them ", 1)
    return f"{exponents.total:,} numbers, {', '.join(special)}"


def own_loss_sentence(became_zero: int, became_nonfinite: int) -> str:
    """The losses of the experiment's own precision; empty for none."""
    parts = (
        f"{became_zero:,} became 0" if became_zero else "",
        f"{became_nonfinite:,} became infinite or NaN" if became_nonfinite else "",
    )
    told = " and ".join(filter(None, parts))
    return f"In the experiment's precision {told}." if told else ""


def scale_sentence(all_gradients: Exponents, overflowing: int, form: NumberFormat, exponent: int) -> str:
    """The fate of the gradients at a loss scale of 2**exponent; `overflowing` counts modules."""
    under = all_gradients.underflow_fraction(form, exponent)
    over = all_gradients.overflow_fraction(form, exponent)
    lost = f"{share_text(under)} of the gradients become 0" if under else "no gradient becomes 0"
    if not overflowing:
        return f"At {scale_text(exponent)}: {lost} in {form.label}, none overflows."
    where = "1 module" if overflowing == 1 else f"{overflowing:,} modules"
    return (
        f"At {scale_text(exponent)}: {lost} in {form.label}, {share_text(over)} overflow (in {where}): "
        "the step would be skipped."
    )


def best_sentence(exponent: int, *, is_best: bool) -> str:
    """Which loss scale would lose least."""
    return "No other scale loses less." if is_best else f"2^{exponent} would lose least."


def bin_sentence(module: str, exponent: int, share: float, edge: str) -> str:
    """A bar of a histogram in words; `edge` is "less" or "more" where it gathers all beyond the axis."""
    reach = f"{power_text(exponent)} or {edge}" if edge else f"from {power_text(exponent)} up to twice that"
    return f"{module}: {share_text(share)} of the numbers are {reach}"
