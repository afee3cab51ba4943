"""Number formats with their ranges, and histograms of exponents to compare with them. No torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from engine.experiment.value import Line, Message, Whole

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

    def subnormal_fraction(self, form: NumberFormat, exponent: int = 0) -> float:
        """Return the share of the finite nonzero numbers, times 2**exponent, that become subnormal."""
        below_normal = self._fraction_below(form.normal_exponent - exponent)
        return below_normal - self.underflow_fraction(form, exponent)

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
