"""The ranges of a model's numbers: exponents of activations, gradients and weights, module by module."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field

from engine.experiment.value import MOST_ENTRIES, Line, Message, StepNumber, Text, Whole
from engine.protocol.numerics.formats import Exponents, NumberFormat

Quantity = Literal["activation", "gradient", "weight"]
QUANTITIES: tuple[Quantity, ...] = ("activation", "gradient", "weight")

MOST_MODULES = MOST_ENTRIES // len(QUANTITIES)

SCALE_EXPONENTS = range(-8, 33)
"""The exponents of the loss scales that are compared."""


class ModuleRange(Message):
    """The exponents of one quantity of a module: what its forward returned, or of its own parameters.

    They are of FP32's numbers, gradients without loss scale. `dtype` is the format in which the experiment's
    precision has them, "" if unknown; gradients follow the module's output. `became_zero` gradients and
    `became_nonfinite` numbers are lost in that precision, at the ranges' scale, but not in FP32; a sample
    that is taken during a run does not count them.
    """

    module: Line
    quantity: Quantity
    exponents: Exponents
    dtype: Line = ""
    became_zero: Whole = 0
    became_nonfinite: Whole = 0


class Ranges(Message):
    """The ranges of a step's numbers with the weights after `step` steps.

    `scale` is the loss scale of the experiment's precision, 1 without.
    """

    part: Literal["range"] = "range"
    rows: Annotated[tuple[ModuleRange, ...], Field(max_length=MOST_ENTRIES)] = ()
    scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    step: StepNumber = 0
    notes: Annotated[tuple[Text, ...], Field(max_length=100)] = ()

    def of(self, quantity: Quantity) -> tuple[ModuleRange, ...]:
        """The rows of one quantity, in the model's order."""
        return tuple(row for row in self.rows if row.quantity == quantity)

    @property
    def scale_exponent(self) -> int:
        """The loss scale as a power of two, the nearest one."""
        return round(math.log2(self.scale))

    @property
    def first_overflow(self) -> ModuleRange | None:
        """The first activations that overflow in the experiment's precision, None without any; of a module
        and one within it the inner, whose numbers the outer goes on with."""
        rows = [row for row in self.of("activation") if row.became_nonfinite]
        for row in rows:
            within = f"{row.module}." if row.module else ""
            if not any(other is not row and other.module.startswith(within) for other in rows):
                return row
        return None


def lost_fraction(rows: tuple[ModuleRange, ...], form: NumberFormat, scale_exponent: int = 0) -> float:
    """The mean over the modules of the share of gradients lost at a loss scale of 2**scale_exponent: rounded
    to 0, or infinite. Every infinite gradient costs the whole step, so it counts as all of its module's."""
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
    """The loss scale, as a power of two, that loses least; the middle one where several lose as little."""
    losses = {exponent: lost_fraction(rows, form, exponent) for exponent in SCALE_EXPONENTS}
    least = min(losses.values())
    best = [exponent for exponent, loss in losses.items() if loss == least]
    return best[len(best) // 2]
