"""The panel of Compare: figures in its table and as bars."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Precision
from engine.store.record import RunRecord
from resources.looks import MARK_FILLS

Trained = Callable[..., RunRecord]


class TestFigures:
    def test_how_long_it_took_to_an_accuracy_is_told_when_one_is_typed(
        self, qtbot: QtBot, workspace: Any, trained: Trained
    ) -> None:
        workspace.show(
            trained("fp32", 640.0, accuracies=(0.4, 0.6)), trained("fp16", 1_280.0, accuracies=(0.7, 0.8))
        )
        edit = workspace.panel.table.findChild(QLineEdit)
        edit.setText("60")
        with qtbot.waitSignal(workspace.reader.shown):
            qtbot.keyClick(edit, Qt.Key.Key_Return)
        assert workspace.row("Time to 60% accuracy") == ["10.0", "2.50", "0.25×"]
        assert workspace.row("Samples to 60% accuracy") == ["6,400", "3,200", "0.50×"]
        edit.setText("much")
        with qtbot.waitSignal(workspace.reader.shown):
            qtbot.keyClick(edit, Qt.Key.Key_Return)
        assert edit.property("problem") == "true"


class TestBars:
    def test_where_no_run_has_a_speed_the_panel_says_why(self, workspace: Any, trained: Trained) -> None:
        workspace.show(*(trained(one, None, speed_note=workspace.NO_SPEED) for one in ("fp32", "fp16")))
        chart = workspace.panel.bars.chart
        assert chart.accessibleName() == f"No throughput was measured in these runs. {workspace.NO_SPEED}"
        assert not chart.grab().isNull()

    def test_sides_of_one_precision_have_marks_of_their_own_everywhere(
        self, workspace: Any, trained: Trained
    ) -> None:
        recipes = ("plain", "fast", "channels_last")
        workspace.show(*(trained("fp16", 100.0, settings={"step": {"recipe": one}}) for one in recipes))
        assert [row.fill for row in workspace.panel.ranking.rows()] == list(MARK_FILLS)
        assert [entry.fill for entry in workspace.panel.curves.legend.entries] == list(MARK_FILLS)
        workspace.show(*(trained("fp16", 100.0, settings={"step": {"recipe": one}}) for one in recipes[:2]))
        bars = workspace.panel.bars.chart.bars
        assert [(bar.look.fill, bar.is_fast) for bar in bars] == [("full", False), ("hollow", True)]


@pytest.mark.parametrize("width", [560, 780, 1_400])
@pytest.mark.parametrize("count", [1, 2, len(Precision)])
def test_bars_and_all_settings_have_the_height_that_they_need(
    workspace: Any, trained: Trained, squeezed: Any, count: int, width: int
) -> None:
    workspace.window.resize(width, 500)
    workspace.show(*(trained(precision.value, 800.0) for precision in list(Precision)[:count]))
    panel = workspace.panel
    for _ in range(2):
        workspace.qtbot.waitUntil(lambda: not squeezed(panel.metrics_page))
        panel.settings.show_all.click()
    assert panel.settings.show_all.text().startswith("Show all")
