"""The texts under an x axis."""

from __future__ import annotations

from itertools import pairwise

from PySide6.QtGui import QFontMetricsF
from pytestqt.qtbot import QtBot

from gui.charts.frame import x_texts
from gui.charts.lines import x_ticks
from gui.theme.fonts import font


def test_none_lies_on_another_and_the_last_with_the_unit_is_always_there(qtbot: QtBot) -> None:
    metrics = QFontMetricsF(font(11))
    ticks = x_ticks((0.0, 121.0), 8, "step")
    for width in range(120, 600, 7):
        texts = x_texts(ticks, lambda steps, width=width: 40 + steps / 121.0 * width, 40.0 + width, metrics)
        assert texts[0][0] == "120 steps"
        spans = sorted((left, left + metrics.horizontalAdvance(text)) for text, left in texts)
        assert all(before[1] < after[0] for before, after in pairwise(spans))
    assert len(texts) == len(ticks)
