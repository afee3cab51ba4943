"""Saved views of the runs table."""

from __future__ import annotations

from typing import Any

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from engine.experiment.problem import ProblemError
from gui.runs.panel import RunsPanel
from gui.runs.table.columns import Column
from gui.runs.views import ALL_RUNS

# the offscreen platform says so whenever a window or a popup is shown
pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")
RATE = Column["optimizer.learning_rate"]


@pytest.fixture
def saved(panel: RunsPanel, rows: Any) -> RunsPanel:
    """The panel with the view "Half" of the runs in FP16, against Run 1, with the learning rate, by speed."""
    panel.filter.setText("precision:fp16")
    panel.table.choose(RATE, True)
    panel.table.sortByColumn(Column.SPEED, Qt.SortOrder.AscendingOrder)
    panel.model.set_baseline(rows.runs[1].id)
    dialog = panel.views.ask_to_save()
    dialog.title.setText("  Half ")
    dialog.save_button.click()
    return panel


def looks(panel: RunsPanel) -> tuple[object, ...]:
    rate = panel.table.isColumnHidden(RATE)
    return panel.filter.text(), rate, panel.model.sorted_by[0], panel.model.baseline


def lines(panel: RunsPanel) -> dict[str, Any]:
    panel.views.aboutToShow.emit()
    return {action.text(): action for action in panel.views.actions()}


def test_a_view_brings_back_filter_columns_order_and_baseline(saved: RunsPanel, rows: Any) -> None:
    assert saved.views.title() == "View: Half"
    before = looks(saved)
    lines(saved)[ALL_RUNS].trigger()
    assert looks(saved) == ("", True, Column.WHEN, None)
    assert saved.views.title() == f"View: {ALL_RUNS}" and len(rows.numbers()) == 8
    lines(saved)["Half"].trigger()
    assert looks(saved) == before
    assert lines(saved)["Half"].isChecked()


def test_views_survive_a_restart(saved: RunsPanel, qtbot: QtBot, rows: Any) -> None:
    again = RunsPanel()
    qtbot.addWidget(again)
    again.set_runs(tuple(rows.runs.values()))
    again.restore(saved.state())
    assert looks(again) == looks(saved) and again.views.title() == "View: Half"
    assert again.views.names() == ["Half"]
    assert again.state() == saved.state()


def test_a_view_is_replaced_renamed_and_deleted(saved: RunsPanel) -> None:
    saved.filter.setText("precision:bf16")
    dialog = saved.views.ask_to_save()
    dialog.title.setText("Half")
    assert dialog.save_button.text() == "Replace"
    dialog.save_button.click()
    dialog = saved.views.ask_to_rename()
    dialog.title.setText("Brain")
    dialog.save_button.click()
    assert saved.views.names() == ["Brain"]
    saved.views.choose(ALL_RUNS)
    saved.views.choose("Brain")
    assert saved.filter.text() == "precision:bf16"
    lines(saved)["Delete view"].trigger()
    assert saved.views.names() == [] and saved.filter.text() == "precision:bf16"
    assert not lines(saved)["Delete view"].isEnabled()


def test_no_view_takes_the_name_of_all_runs_or_of_another(saved: RunsPanel) -> None:
    with pytest.raises(ProblemError, match="cannot be called “all runs”"):
        saved.views.save("all runs")
    saved.views.save("Other")
    dialog = saved.views.ask_to_rename()
    dialog.title.setText("Half")
    dialog.save_button.click()
    assert "There is a view “Half”." in dialog.field.accessibleName() or dialog.isVisible()
    dialog.reject()
    assert saved.views.names() == ["Half", "Other"]
