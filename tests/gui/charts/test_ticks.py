"""Ticks of an axis, and numbers as they stand beside it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtGui import QFontMetricsF
from pytestqt.qtbot import QtBot

from engine.drawing.chart_parts import log10_ticks
from engine.words.numbers import decimals_for, linear_ticks, number, ratio
from gui.charts.frame import x_texts
from gui.charts.lines import Scale, log2_ticks, x_ticks
from gui.theme.fonts import font


class TestTicks:
    @pytest.mark.parametrize(
        ("low", "high", "most", "texts"),
        [
            (0, 213, 5, ["0", "50", "100", "150", "200"]),
            (0, 7.3, 4, ["0", "2", "4", "6"]),
            (0, 0.73, 4, ["0.0", "0.2", "0.4", "0.6"]),
            (0, 2100, 5, ["0", "500", "1,000", "1,500", "2,000"]),
            (-1, 1, 2, ["−1", "0", "1"]),
        ],
    )
    def test_linear(self, low: float, high: float, most: int, texts: list[str]) -> None:
        assert [tick.text for tick in linear_ticks(low, high, most)] == texts

    def test_powers_of_two_carry_their_true_numbers(self) -> None:
        assert [tick.text for tick in log2_ticks(12.8, 17.2, 5)] == [
            "8,192",
            "16,384",
            "32,768",
            "65,536",
            "131,072",
        ]

    def test_decades_and_what_lies_between(self) -> None:
        assert [tick.text for tick in log10_ticks(-2.1, 1.1, 4)] == ["0.01", "0.1", "1", "10"]
        assert [tick.text for tick in log10_ticks(0.1, 0.9, 4)] == ["2", "5"]

    @given(st.floats(-1e12, 1e12), st.floats(1e-9, 1e12), st.integers(1, 12), st.sampled_from(list(Scale)))
    def test_any_range_has_a_few_ticks_inside_of_it(
        self, low: float, span: float, most: int, scale: Scale
    ) -> None:
        if scale is not Scale.LINEAR:
            low, span = max(-300.0, min(low, 300.0)), min(span, 300.0)
        ticks = scale.ticks(low, low + span, most)
        assert len(ticks) <= 3 * most + 3
        assert all(tick.text for tick in ticks)


class TestNumbers:
    def test_three_figures_of_the_largest_for_all_of_a_quantity(self) -> None:
        assert decimals_for([10.2, 3.1]) == 1
        assert decimals_for([880, 1663]) == 0
        assert decimals_for([0.352, None, float("nan")]) == 3
        assert number(1663.4, 0) == "1,663"
        assert number(None, 1) == "–" and number(float("nan"), 1) == "NaN" and number(-1, 0) == "−1"
        assert number(float("-inf"), 0) == "−∞"

    def test_ratios_only_where_they_make_sense(self) -> None:
        assert ratio(1663, 880) == "1.89×" and ratio(83_488, 17.0846) == "4,887×"
        assert ratio(None, 880) == "" and ratio(1, 0) == "" and ratio(float("inf"), 1) == ""


def test_none_lies_on_another_and_the_last_with_the_unit_is_always_there(qtbot: QtBot) -> None:
    metrics = QFontMetricsF(font(11))
    ticks = x_ticks((0.0, 121.0), 8, "step")
    for width in range(120, 600, 7):
        texts = x_texts(ticks, lambda steps, width=width: 40 + steps / 121.0 * width, 40.0 + width, metrics)
        assert texts[0][0] == "120 steps"
        spans = sorted((left, left + metrics.horizontalAdvance(text)) for text, left in texts)
        assert all(before[1] < after[0] for before, after in pairwise(spans))
    assert len(texts) == len(ticks)
    ends = [x_ticks((0.0, reach), 4, "step")[-1].text for reach in (1.0, 2.1)]
    assert ends == ["1 step", "2 steps"]
