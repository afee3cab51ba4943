"""Number formats, the exponents of a model's values by module, and sentences on them. No torch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from engine.experiment.catalog import Precision
from engine.experiment.value import MOST_ENTRIES, Line, Message, StepNumber, Text, Whole
from engine.words.numbers import power_of_two, share_text

LEAST_EXPONENT, MOST_EXPONENT = -1074, 1023  # the exponents of float64's numbers, subnormal ones included


@dataclass(frozen=True)
class NumberFormat:
    """A floating-point format, with the binary exponents of its smallest normal and subnormal numbers.

    E4M3 and E5M2 are the 8-bit formats of the Open Compute Project's specification of 2023 (OFP8).
    """

    name: str
    label: str
    bits: int
    largest: float
    normal_exponent: int
    subnormal_exponent: int

    @property
    def top_exponent(self) -> int:
        """The exponent of the largest number."""
        return math.frexp(self.largest)[1] - 1


FP32 = NumberFormat("float32", "FP32", 32, (2 - 2**-23) * 2.0**127, -126, -149)
BF16 = NumberFormat("bfloat16", "BF16", 16, (2 - 2**-7) * 2.0**127, -126, -133)
FP16 = NumberFormat("float16", "FP16", 16, 65_504.0, -14, -24)
E5M2 = NumberFormat("float8_e5m2", "FP8 E5M2", 8, 57_344.0, -14, -16)
E4M3 = NumberFormat("float8_e4m3fn", "FP8 E4M3", 8, 448.0, -6, -9)

FORMATS = (FP32, BF16, FP16, E5M2, E4M3)
SMALL_FORMATS = FORMATS[1:]  # the formats to switch to from FP32


def dtype_label(dtype: str) -> str:
    """Return a dtype's label for sentences: "FP16" for "float16". Unknown names stay as they are."""
    return next((form.label for form in FORMATS if form.name == dtype), dtype)


class Exponents(Message):
    """A histogram of binary exponents: `counts[i]` numbers have 2**(first + i) <= |x| < 2**(first + i + 1).

    `smallest` and `largest` are the smallest and the largest finite |x| above 0, if there is one.
    """

    first: Annotated[int, Field(ge=LEAST_EXPONENT, le=MOST_EXPONENT)] = 0
    counts: Annotated[tuple[Whole, ...], Field(max_length=MOST_EXPONENT - LEAST_EXPONENT + 1)] = ()
    zeros: Whole = 0
    infinite: Whole = 0
    nan: Whole = 0
    smallest: Annotated[float | None, Field(gt=0, allow_inf_nan=False)] = None
    largest: Annotated[float | None, Field(gt=0, allow_inf_nan=False)] = None

    @property
    def finite(self) -> int:
        """The number of values that are finite and not zero."""
        return sum(self.counts)

    @property
    def total(self) -> int:
        return self.finite + self.zeros + self.infinite + self.nan

    def shifted(self, exponent: int) -> Exponents:
        """Return the histogram of the numbers times 2**exponent."""
        ends = {"smallest": self.smallest, "largest": self.largest}
        shifted = {name: None if end is None else end * 2.0**exponent for name, end in ends.items()}
        return self.model_copy(update={"first": self.first + exponent, **shifted})

    def underflow_fraction(self, form: NumberFormat, exponent: int = 0) -> float:
        """Return the share of the finite nonzero numbers, times 2**exponent, that underflow to 0."""
        return self._fraction_below(form.subnormal_exponent - 1 - exponent)

    def subnormal_fraction(self, form: NumberFormat) -> float:
        """Return the share of the finite nonzero numbers that become subnormal."""
        return self._fraction_below(form.normal_exponent) - self.underflow_fraction(form)

    def overflow_fraction(self, form: NumberFormat, exponent: int = 0) -> float:
        """Return the share of the finite nonzero numbers, times 2**exponent, that overflow.

        In the format's topmost power of two only the largest number is known exactly. It counts as one.
        """
        above = sum(self.counts[max(0, form.top_exponent + 1 - exponent - self.first) :])
        if not above and self.largest is not None and self.largest * 2.0**exponent > form.largest:
            above = 1
        return above / max(1, self.finite) if above else 0.0

    def _fraction_below(self, limit: int) -> float:
        below = sum(self.counts[: max(0, limit - self.first)])
        return below / self.finite if below else 0.0


def merge_exponents(histograms: tuple[Exponents, ...]) -> Exponents:
    """Return one histogram that combines all."""
    filled = [histogram for histogram in histograms if histogram.counts]
    first = min((histogram.first for histogram in filled), default=0)
    end = max((histogram.first + len(histogram.counts) for histogram in filled), default=0)
    counts = [0] * (end - first if filled else 0)
    for histogram in filled:
        for place, count in enumerate(histogram.counts, histogram.first - first):
            counts[place] += count
    return Exponents(
        first=first,
        counts=tuple(counts),
        zeros=sum(histogram.zeros for histogram in histograms),
        infinite=sum(histogram.infinite for histogram in histograms),
        nan=sum(histogram.nan for histogram in histograms),
        smallest=min((h.smallest for h in histograms if h.smallest is not None), default=None),
        largest=max((h.largest for h in histograms if h.largest is not None), default=None),
    )


DTypes = Annotated[tuple[Line, ...], Field(max_length=100)]  # torch's names of dtypes, "float16"


LOSS, OPTIMIZER, ELSEWHERE = "(loss)", "(optimizer)", "(elsewhere)"
"""Module names for operations outside of the model. Those in ELSEWHERE are not attributed."""

_TITLES = {LOSS: "the loss", OPTIMIZER: "the optimizer", ELSEWHERE: "elsewhere", "": "the model"}


def module_title(name: str) -> str:
    """Return a module's name for a sentence or table: its qualified name, or a phrase if it has none."""
    return _TITLES.get(name, name)


Quantity = Literal["activation", "gradient", "weight"]
QUANTITIES: tuple[Quantity, ...] = ("activation", "gradient", "weight")

MOST_MODULES = MOST_ENTRIES // len(QUANTITIES)

SCALE_EXPONENTS = range(-8, 33)  # the exponents of the loss scales that are compared


class ModuleRange(Message):
    """The FP32 value range of a module's outputs, weights or weight gradients, as a histogram.

    Gradients are without the loss scale. `dtype` is the dtype that the experiment itself has for them.
    `became_zero` and `became_nonfinite` count the values that become 0 (gradients only), or NaN or Inf, in
    this dtype at the loss scale of `Ranges`, but not in FP32.
    """

    module: Line
    quantity: Quantity
    exponents: Exponents
    dtype: Line = ""
    became_zero: Whole = 0
    became_nonfinite: Whole = 0


Operand = Literal["input", "weight", "output gradient"]
LayerMatmul = Literal["output", "input gradient", "weight gradient"]


class LayerCast(Message):
    """The FP8 cast of a linear layer's operand, for some of the layer's matmuls: its values, and those lost.

    Before the cast to `dtype`, the operand is multiplied by one scale, or by one for each row or column
    (`scales` in all). With 0 scales it stays in BF16. `exponents` are those after scaling. Of the nonzero
    values, `became_zero` are 0 after the cast, and `saturated` exceed the largest number of `dtype` or are
    not finite.
    """

    module: Line
    operand: Operand
    products: Annotated[tuple[LayerMatmul, ...], Field(min_length=1, max_length=3)]
    dtype: Line
    exponents: Exponents = Exponents()
    scales: Whole = 0
    least_scale: float | None = None
    most_scale: float | None = None
    became_zero: Whole = 0
    saturated: Whole = 0

    @property
    def title(self) -> str:
        """The operand for a table. It names the matmul too if another one casts the operand differently."""
        return self.operand if len(self.products) > 1 else f"{self.operand} for {self.products[0]}"

    @property
    def form(self) -> NumberFormat:
        """The format of the cast. E4M3 and E5M2 also stand for the variants of some GPUs."""
        return next((form for form in FORMATS if self.dtype.startswith(form.name)), E4M3)

    @property
    def scale_text(self) -> str:
        """The scale, or the smallest and the largest: "2⁸ to 2¹²". Empty without scales."""
        ends = [_scale(scale) for scale in (self.least_scale, self.most_scale) if scale is not None]
        return " to ".join(dict.fromkeys(ends))

    def share(self, count: int) -> float:
        """Return `count` as a share of the nonzero values."""
        return count / max(1, self.exponents.total - self.exponents.zeros)

    @property
    def sentence(self) -> str:
        """A sentence on the scaling, and on the values that underflow or saturate after it."""
        if not self.scales:
            return "Not scaled. It stays in BF16."
        scale = f"{self.scales:,} scales, one per row or column" if self.scales > 1 else "One scale"
        lost = (
            (self.became_zero, "underflow", "none underflow"),
            (self.saturated, "saturate", "none saturate"),
        )
        fates = (f"{share_text(self.share(count))} {some}" if count else none for count, some, none in lost)
        return f"{scale}: {self.scale_text}. In {self.form.label}, {', '.join(fates)}."


class Ranges(Message):
    """The value ranges of all modules and the FP8 `casts` after `step` steps, at the loss scale `scale`."""

    part: Literal["range"] = "range"
    rows: Annotated[tuple[ModuleRange, ...], Field(max_length=MOST_ENTRIES)] = ()
    casts: Annotated[tuple[LayerCast, ...], Field(max_length=MOST_ENTRIES)] = ()
    scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    step: StepNumber = 0
    notes: Annotated[tuple[Text, ...], Field(max_length=100)] = ()

    def finding(self, precision: Precision | None) -> str:
        """Return the first sentence on underflow or overflow in the experiment's precision, else ""."""
        return next(_own_losses(self, precision or Precision.FP32, self.scale), "")

    def of(self, quantity: Quantity) -> tuple[ModuleRange, ...]:
        """Return the rows of one quantity, in the model's order."""
        return tuple(row for row in self.rows if row.quantity == quantity)

    @property
    def scale_exponent(self) -> int:
        """The exponent of the power of two nearest to the loss scale."""
        return round(math.log2(self.scale))

    @property
    def first_overflow(self) -> ModuleRange | None:
        """The first activations that overflow in the experiment's precision, or None."""
        # of a module and one within it the inner, whose values the outer one uses
        rows = [row for row in self.of("activation") if row.became_nonfinite]
        for row in rows:
            within = f"{row.module}." if row.module else ""
            if not any(other is not row and other.module.startswith(within) for other in rows):
                return row
        return None


def lost_fraction(rows: tuple[ModuleRange, ...], form: NumberFormat, scale_exponent: int = 0) -> float:
    """Return the mean share of gradients, over all modules, that a loss scale of 2**scale_exponent loses."""
    # an overflow costs the full step, so it counts as all gradients of its module
    known = [row.exponents for row in rows if row.exponents.finite]
    if not known:
        return 0.0
    shares = (
        1.0
        if exponents.overflow_fraction(form, scale_exponent)
        else exponents.underflow_fraction(form, scale_exponent)
        for exponents in known
    )
    return sum(shares) / len(known)


def best_scale_exponent(rows: tuple[ModuleRange, ...], form: NumberFormat) -> int:
    """Return the exponent of the loss scale that loses the least, the middle one of several."""
    losses = {exponent: lost_fraction(rows, form, exponent) for exponent in SCALE_EXPONENTS}
    least = min(losses.values())
    best = [exponent for exponent, loss in losses.items() if loss == least]
    return best[len(best) // 2]


_WORTH_A_WORD = 0.01

_MOST_FORECASTS = 3
_NOTHING_LOST = (
    "FP16 and FP8 would lose less than 1% of each module's activations and, at the best loss scale, of its "
    "gradients."
)


def range_notes(ranges: Ranges, precision: Precision, first_scale: float) -> tuple[str, ...]:
    """Return sentences on underflow and overflow, in the experiment's precision and then in others.

    The experiment's precision is judged at the loss scale `first_scale`.
    """
    found = [*_own_losses(ranges, precision, first_scale), *_forecasts(ranges, precision)]
    if ranges.casts and _worst_cast(ranges) is None:
        found.append("After FP8 scaling, less than 1% of any layer's values underflow.")
    notes = tuple(found) or (_NOTHING_LOST,)
    if any(len(ranges.of(quantity)) == MOST_MODULES for quantity in QUANTITIES):
        notes += (f"Only the model's first {MOST_MODULES:,} modules are listed.",)
    return notes


def _own_losses(ranges: Ranges, precision: Precision, first_scale: float) -> Iterator[str]:
    gradients = ranges.of("gradient")
    total = sum(row.exponents.total for row in gradients)
    if ranges.scale != first_scale:
        yield (
            f"At a loss scale of {_plain(first_scale)}, gradients overflow in the first step, which is "
            f"skipped. At {_plain(ranges.scale)} they no longer overflow."
        )
    if (first := ranges.first_overflow) is not None:
        others = sum(row.became_nonfinite > 0 for row in ranges.of("activation")) - 1
        yield (
            f"In {precision.label}, {_share(first.became_nonfinite, first)} of the activations of "
            f"{module_title(first.module)} overflow{f', and some of {others:,} more' if others else ''}."
        )
    elif any(row.became_nonfinite for row in gradients):
        down = "" if ranges.scale == 1 else ", whatever the loss scale"
        yield f"In {precision.label}, gradients overflow{down}."
    worst = max(gradients, key=lambda row: row.became_zero / max(1, row.exponents.total), default=None)
    if worst is not None and worst.became_zero >= _WORTH_A_WORD * worst.exponents.total:
        zeros = sum(row.became_zero for row in gradients)
        scaled = f" at a loss scale of {_plain(ranges.scale)}" if ranges.scale != 1 else ""
        yield (
            f"In {precision.label}{scaled}, {_percent(zeros / total)} of all gradients underflow to 0, "
            f"and {_share(worst.became_zero, worst)} of those of {module_title(worst.module)}."
        )
    if (cast := _worst_cast(ranges)) is not None:
        lost = f"{_percent(cast.share(cast.became_zero))} of the values of {module_title(cast.module)}"
        yield f"After FP8 scaling, {lost}'s {cast.title} underflow in {cast.form.label}."


def _worst_cast(ranges: Ranges) -> LayerCast | None:
    worst = max(ranges.casts, key=lambda cast: cast.share(cast.became_zero), default=None)
    return worst if worst is not None and worst.share(worst.became_zero) >= _WORTH_A_WORD else None


def _forecasts(ranges: Ranges, precision: Precision) -> list[str]:
    # the largest losses in dtypes of fewer bits, those in FP16 first
    activations, gradients = ranges.of("activation"), ranges.of("gradient")
    found: list[tuple[int, float, str]] = []
    # what FP8 itself loses was measured, after its scaling
    for form in (FP16,) if ranges.casts else (FP16, E5M2, E4M3):
        found += _forecast(activations, form, 0, "")
        if form is FP16 and precision in (Precision.FP16, Precision.FP16_UNSCALED):
            if not any(row.became_zero for row in gradients):  # which was counted, and is said already
                at = "" if ranges.scale == 1 else f" at the loss scale of {_plain(ranges.scale)}"
                found += _forecast(gradients, form, ranges.scale_exponent, at)
        else:
            best = best_scale_exponent(gradients, form)
            found += _forecast(gradients, form, best, f", even at the best loss scale of {_power(best)}")
    return [sentence for *_, sentence in sorted(found)[:_MOST_FORECASTS]]


def _forecast(
    rows: tuple[ModuleRange, ...], form: NumberFormat, scale_exponent: int, at: str
) -> Iterator[tuple[int, float, str]]:
    # of the module that the format suits least
    worst: tuple[float, str, ModuleRange] | None = None
    for row in rows:
        exponents = row.exponents.shifted(scale_exponent)
        under, over = exponents.underflow_fraction(form), exponents.overflow_fraction(form)
        if under + over > (0.0 if worst is None else worst[0]):
            worst = under + over, "underflow" if under >= over else "overflow", row
    if worst is not None and worst[0] >= _WORTH_A_WORD:
        share, end, row = worst
        lost = f"{_percent(share)} of the {row.quantity}s of {module_title(row.module)} would {end}"
        yield -form.bits, -share, f"In {form.label}, {lost}{at}."


def _share(count: int, row: ModuleRange) -> str:
    return _percent(count / max(1, row.exponents.total))


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%" if share >= _WORTH_A_WORD else "less than 1%"


def _scale(scale: float) -> str:
    # scales by rows are powers of two
    if scale > 0 and math.frexp(scale)[0] == 0.5:
        return power_of_two(math.frexp(scale)[1] - 1)
    return _plain(scale) if 1e-3 <= scale < 1e7 else f"{scale:.3g}"


def _plain(scale: float) -> str:
    return f"{scale:,.0f}" if scale >= 100 else f"{scale:,.4g}"


def _power(exponent: int) -> str:
    return f"{2**exponent:,}" if exponent >= 0 else f"1/{2**-exponent:,}"
