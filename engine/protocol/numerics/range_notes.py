"""The ranges of a step in sentences, which window, command line and report show as they are."""

from __future__ import annotations

from collections.abc import Iterator

from engine.experiment.catalog import Precision
from engine.protocol.numerics.formats import E4M3, E5M2, FP16, NumberFormat
from engine.protocol.numerics.precision_map import module_title
from engine.protocol.numerics.ranges import MOST_MODULES, QUANTITIES, ModuleRange, Ranges, best_scale_exponent

_WORTH_A_WORD = 0.01
"""The least share of a module's numbers that is worth a sentence."""

_MOST_FORECASTS = 3
_NOTHING_LOST = (
    "FP16 and FP8 would lose less than 1 % of any module's activations and, at the best loss scale, of its "
    "gradients."
)


def range_notes(ranges: Ranges, precision: Precision, first_scale: float) -> tuple[str, ...]:
    """Losses in the experiment's precision, if the step began at `first_scale`, then those in others."""
    found = (*_own_losses(ranges, precision, first_scale), *_forecasts(ranges, precision))
    notes = found or (_NOTHING_LOST,)
    if any(len(ranges.of(quantity)) == MOST_MODULES for quantity in QUANTITIES):
        notes += (f"Only the model's first {MOST_MODULES:,} modules are listed.",)
    return notes


def _own_losses(ranges: Ranges, precision: Precision, first_scale: float) -> Iterator[str]:
    gradients = ranges.of("gradient")
    total = sum(row.exponents.total for row in gradients)
    if ranges.scale != first_scale:
        yield (
            f"At a loss scale of {_plain(first_scale)} gradients overflow in the first step, which is "
            f"skipped; at {_plain(ranges.scale)} they no longer do."
        )
    if (first := ranges.first_overflow) is not None:
        others = sum(row.became_nonfinite > 0 for row in ranges.of("activation")) - 1
        yield (
            f"In {precision.label} {_share(first.became_nonfinite, first)} of the activations of "
            f"{module_title(first.module)} overflow{f', and some of {others:,} more' if others else ''}."
        )
    elif any(row.became_nonfinite for row in gradients):
        down = "" if ranges.scale == 1 else ", whatever the loss scale"
        yield f"In {precision.label} gradients overflow{down}."
    worst = max(gradients, key=lambda row: row.became_zero / max(1, row.exponents.total), default=None)
    if worst is not None and worst.became_zero >= _WORTH_A_WORD * worst.exponents.total:
        zeros = sum(row.became_zero for row in gradients)
        scaled = f" at a loss scale of {_plain(ranges.scale)}" if ranges.scale != 1 else ""
        yield (
            f"In {precision.label}{scaled} {_percent(zeros / total)} of all gradients are 0 but not in "
            f"FP32, and {_share(worst.became_zero, worst)} of those of {module_title(worst.module)}."
        )


def _forecasts(ranges: Ranges, precision: Precision) -> list[str]:
    """The most telling losses in the formats of fewer bits, those in FP16 first."""
    activations, gradients = ranges.of("activation"), ranges.of("gradient")
    found: list[tuple[int, float, str]] = []
    for form in (FP16, E5M2, E4M3):
        found += _forecast(activations, form, 0, "")
        if form is FP16 and precision in (Precision.FP16, Precision.FP16_UNSCALED):
            if not any(row.became_zero for row in gradients):  # which was counted, and is said already
                at = "" if ranges.scale == 1 else f" at the loss scale of {_plain(ranges.scale)}"
                found += _forecast(gradients, form, ranges.scale_exponent, at)
        else:
            best = best_scale_exponent(gradients, form)
            found += _forecast(gradients, form, best, f", even at the best loss scale, {_power(best)}")
    return [sentence for *_, sentence in sorted(found)[:_MOST_FORECASTS]]


def _forecast(
    rows: tuple[ModuleRange, ...], form: NumberFormat, scale_exponent: int, at: str
) -> Iterator[tuple[int, float, str]]:
    """Losses in a format, of the module that it suits least, if they are worth a word."""
    losses = [(*_loss(row, form, scale_exponent), row) for row in rows if row.exponents.finite]
    share, end, row = max(losses, key=lambda loss: loss[0], default=(0.0, "", None))
    if row is not None and share >= _WORTH_A_WORD:
        lost = f"{_percent(share)} of the {row.quantity}s of {module_title(row.module)} would {end}"
        yield -form.bits, -share, f"In {form.label} {lost}{at}."


def _loss(row: ModuleRange, form: NumberFormat, scale_exponent: int) -> tuple[float, str]:
    """The share of a row's numbers that the format would lose, and what would become of most of them."""
    exponents = row.exponents.shifted(scale_exponent)
    under, over = exponents.underflow_fraction(form), exponents.overflow_fraction(form)
    return under + over, "become 0" if under >= over else "overflow"


def _share(count: int, row: ModuleRange) -> str:
    return _percent(count / max(1, row.exponents.total))


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= _WORTH_A_WORD else "less than 1 %"


def _plain(scale: float) -> str:
    return f"{scale:,.0f}" if scale >= 100 else f"{scale:,.4g}"


def _power(exponent: int) -> str:
    return f"{2**exponent:,}" if exponent >= 0 else f"1/{2**-exponent:,}"
