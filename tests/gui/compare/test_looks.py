"""A comparison in both themes and in every size: nothing is cut off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from PySide6.QtWidgets import (
    QApplication,
    QLabel,
    QStackedWidget,
    QWidget,
)
from pytestqt.qtbot import QtBot

from engine.store.record import RunRecord
from gui.theme.theme import theme
from gui.widgets.verdict_label import VerdictLabel

Trained = Callable[..., RunRecord]

LONG_NAME = "The run from Tuesday night with everything switched on"


def cut_off(window: QWidget) -> list[str]:
    """The texts that have less room than they need, and do not say so by an ellipsis."""
    found = []
    for one in window.findChildren(QLabel):
        if not one.isVisible() or not one.text() or one.text().endswith("…"):
            continue
        needed = one.heightForWidth(one.width()) if one.wordWrap() else one.minimumSizeHint().height()
        wide = 0 if one.wordWrap() else one.fontMetrics().horizontalAdvance(one.text())
        if one.height() < needed or one.width() < wide:
            found.append(f"{one.text()}: {one.width()} of {wide}, {one.height()} of {needed}")
    return found


class TestLooks:
    @pytest.fixture
    def four(self, workspace: Any, trained: Trained) -> Any:
        workspace.show(
            trained("fp32", 12_880.0, name=LONG_NAME, peak_allocated_mib=10_400.0),
            trained("tf32", 21_755.0, peak_allocated_mib=10_400.0),
            trained("fp16", 31_663.0, name=LONG_NAME, peak_allocated_mib=3_170.0),
            trained("bf16", 31_600.0, peak_allocated_mib=3_170.0),
        )
        return workspace

    def test_the_other_theme_recolors_words_icons_and_curves(self, four: Any) -> None:
        four.panel.tabs.setCurrentIndex(1)

        def colors() -> tuple[object, ...]:
            plot, words = four.panel.curves.canvas.grab().toImage(), four.panel.headline.grab().toImage()
            return four.head.grab().toImage(), plot, words

        # what was laid out anew takes its place in the next turn of the event loop
        QApplication.processEvents()
        dark = colors()
        theme().set_mode("light")
        light = colors()
        theme().set_mode("dark")
        assert all(one != other for one, other in zip(dark, light, strict=True))
        # the curves follow in a turn of their own
        four.qtbot.waitUntil(lambda: colors() == dark)

    @pytest.mark.parametrize("size", [(800, 848), (588, 648), (520, 508)])
    def test_no_text_is_cut_off(self, qtbot: QtBot, four: Any, size: tuple[int, int]) -> None:
        window = four.window
        window.resize(*size)
        qtbot.waitUntil(lambda: (window.width(), window.height()) == size)
        # laying text out anew may take another turn of the event loop
        qtbot.waitUntil(lambda: not cut_off(window), timeout=2_000)
        grid = four.panel.ranking
        last = grid.visualRect(grid.model().index(len(grid.rows()) - 1, 0))
        bottom = grid.viewport().mapTo(four.panel.metrics_page.widget(), last.bottomLeft())
        four.panel.metrics_page.ensureVisible(0, bottom.y())
        qtbot.waitUntil(lambda: grid.viewport().visibleRegion().contains(last.center()))


def test_the_last_line_of_the_table_is_seen_whole_also_if_it_was_made_out_of_sight(
    qtbot: QtBot, workspace: Any, trained: Trained
) -> None:
    pages, panel = QStackedWidget(), workspace.panel
    qtbot.addWidget(pages)
    pages.addWidget(QWidget())
    pages.addWidget(panel)
    pages.resize(1_100, 740)
    pages.show()
    workspace.show(*(trained(precision, 1_000.0) for precision in ("fp32", "bf16", "tf32", "fp16")))
    pages.setCurrentWidget(panel)
    grid = panel.ranking

    def is_whole() -> bool:
        last = grid.visualRect(grid.model().index(len(grid.rows()) - 1, 0))
        return 100 < last.bottom() < grid.viewport().height() <= grid.parentWidget().height()

    qtbot.waitUntil(is_whole)


def test_the_headline_is_whole_after_the_window_has_grown(
    qtbot: QtBot, workspace: Any, trained: Trained
) -> None:
    sides = (("fp32", 688.0), ("tf32", 921.0), ("bf16", 1_280.0))
    workspace.show(
        *(trained(one, speed, accuracies=(0.5, 0.61), peak_allocated_mib=900.0) for one, speed in sides)
    )
    sentence = workspace.panel.headline.findChild(VerdictLabel)
    for width in (600, 960):
        workspace.window.resize(width, 850)
        qtbot.waitUntil(lambda: sentence.height() == sentence.heightForWidth(sentence.width()))
