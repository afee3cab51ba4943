"""The histogram of exponents: what a format loses is marked, and far exponents are gathered at the edges."""

from __future__ import annotations

import pytest

from engine.drawing.shapes import Box
from engine.numerics.range_histogram import ExponentAxis, bars, histogram, histogram_area
from engine.protocol.ranges import FP16, Exponents
from tests.drawings import assert_legible

SIZE = (420.0, 190.0)
AREA = histogram_area(SIZE)
# one number in each of 2^-40 to 2^19: below, among and above what FP16 holds
EVERYWHERE = Exponents(first=-40, counts=(1,) * 60, smallest=2.0**-40, largest=2.0**19)


def test_bars_have_the_ink_of_what_the_format_makes_of_them():
    axis = ExponentAxis.of((EVERYWHERE,))
    shown = list(bars(AREA, axis, axis.shares(EVERYWHERE), 1 / 60, FP16))
    inks = [box.ink for box in shown if isinstance(box, Box)]
    assert [inks.count(ink) for ink in ("text", "fp16-dim", "fp16")] == [15 + 4, 11, 30]


def test_exponents_far_out_are_gathered_in_the_outermost_bars():
    far = Exponents(first=-300, counts=(2, *(0,) * 299, 1, 1), smallest=2.0**-300, largest=2.0)
    axis = ExponentAxis.of((far,))
    shares = axis.shares(far)
    assert axis.low == -64 and shares[0] == 0.5 and sum(shares) == pytest.approx(1.0)
    assert axis.edge(-64) == "less" and axis.edge(0) == ""


def test_a_place_gives_the_exponent_whose_bar_is_there():
    axis = ExponentAxis()
    for exponent in range(axis.low, axis.end):
        assert axis.exponent_at(axis.x(exponent, AREA) + 1, AREA) == exponent
    assert axis.exponent_at(AREA.left - 1, AREA) is None and axis.exponent_at(AREA.right, AREA) is None


@pytest.mark.parametrize("size", [(200.0, 128.0), SIZE, (1_200.0, 500.0)])
@pytest.mark.parametrize("exponents", [EVERYWHERE, Exponents()])
def test_words_stay_within_the_picture(size, exponents):
    assert_legible(
        histogram(exponents, ExponentAxis.of((exponents,)), FP16, size, "exponents"), may_meet=True
    )
