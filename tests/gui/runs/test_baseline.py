"""A baseline of one's choice, pinned runs, runs in a colour of their own, and runs of a sweep."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import MagicMock

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMenu
from pytestqt.qtbot import QtBot

from engine.protocol.events import Summary
from gui.runs.panel import RunsPanel
from gui.runs.table.columns import COMPARED, Column

# the offscreen platform says so whenever a window or a popup is shown
pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")


def entry(menu: QMenu, words: str) -> Any:
    return next(action for action in menu.actions() if action.text().partition("\t")[0] == words)


def test_every_run_can_be_measured_against_a_chosen_run(panel: RunsPanel, rows: Any) -> None:
    second = Summary(
        samples_per_second=832.0, step_ms=20.0, final_train_loss=0.5, final_validation_accuracy=0.6
    )
    third = Summary(
        samples_per_second=416.0, step_ms=40.0, final_train_loss=0.75, final_validation_accuracy=0.55
    )
    panel.update_run(replace(rows.runs[2], summary=second))
    panel.update_run(replace(rows.runs[3], summary=third))
    assert panel.model.heading(Column.RATIO)[0] == "Ratio"
    entry(panel.menu_for(rows.runs[2]), "Use as baseline").trigger()
    assert [panel.model.heading(column)[0] for column in COMPARED] == [
        *("vs Run 2", "Step vs Run 2", "Peak vs Run 2", "Acc. vs Run 2", "Loss vs Run 2"),
    ]
    assert [rows.text(3, column) for column in COMPARED] == ["0.50×", "2.00×", "–", "−5.0", "+0.250"]
    assert rows.text(2, Column.RATIO) == "1.00×" and rows.text(1, Column.STEP_RATIO) == "–"
    name = panel.model.index(rows.place(2), Column.NAME)
    assert "the baseline" in panel.model.data(name, Qt.ItemDataRole.AccessibleTextRole)
    entry(panel.menu_for(rows.runs[2]), "No baseline").trigger()
    assert panel.model.heading(Column.RATIO)[0] == "Ratio"


def test_figures_that_count_different_things_are_not_compared(panel: RunsPanel, rows: Any) -> None:
    other = rows.runs[2].experiment.model_copy(update={"batch_size": 128})
    summary = Summary(samples_per_second=100.0, step_ms=20.0)
    panel.update_run(replace(rows.runs[1], summary=summary))
    panel.update_run(replace(rows.runs[2], summary=summary, experiment=other))
    panel.model.set_baseline(rows.runs[1].id)
    assert rows.text(2, Column.RATIO) == "1.00×"
    assert rows.text(2, Column.STEP_RATIO) == "–"
    tip = panel.model.index(rows.place(2), Column.STEP_RATIO).data(Qt.ItemDataRole.ToolTipRole)
    assert "count different things" in tip


def test_the_baseline_survives_a_restart_and_its_deletion(panel: RunsPanel, qtbot: QtBot, rows: Any) -> None:
    panel.model.set_baseline(rows.runs[2].id)
    again = RunsPanel()
    qtbot.addWidget(again)
    again.restore(panel.state())
    again.set_runs(tuple(rows.runs.values()))
    assert again.model.heading(Column.RATIO)[0] == "vs Run 2"
    again.set_runs([run for run in rows.runs.values() if run.number != 2])
    assert again.model.heading(Column.RATIO)[0] == "Ratio"
    again.set_runs(tuple(rows.runs.values()))
    assert again.model.heading(Column.RATIO)[0] == "vs Run 2"


def test_a_queued_run_is_no_baseline(panel: RunsPanel, rows: Any) -> None:
    action = entry(panel.menu_for(rows.runs[7]), "Use as baseline")
    assert not action.isEnabled() and action.toolTip() == "It has no figures yet."


@pytest.mark.parametrize("order", list(Qt.SortOrder))
def test_pinned_runs_are_on_top_however_the_table_is_sorted(
    panel: RunsPanel, rows: Any, order: Qt.SortOrder
) -> None:
    for number in (2, 5):
        panel.update_run(replace(rows.runs[number], is_pinned=True))
    panel.table.sortByColumn(Column.NAME, order)
    falling = order is Qt.SortOrder.DescendingOrder
    assert rows.numbers()[:3] == ([5, 2, 8] if falling else [2, 5, 1])


def test_p_pins_the_highlighted_runs_and_the_menu_too(
    panel: RunsPanel, qtbot: QtBot, rows: Any, edits: MagicMock
) -> None:
    panel.table.selectRow(rows.place(2))
    qtbot.keyClick(panel.table, Qt.Key.Key_P)
    edits.runs.set_pinned.assert_called_with((rows.runs[2].id,), True)
    pinned = replace(rows.runs[2], is_pinned=True)
    panel.update_run(pinned)
    entry(panel.menu_for(pinned), "Unpin").trigger()
    edits.runs.set_pinned.assert_called_with((rows.runs[2].id,), False)
    panel.table.viewport().grab()


def test_a_colour_is_chosen_in_the_menu_and_painted(
    panel: RunsPanel, qtbot: QtBot, rows: Any, edits: MagicMock
) -> None:
    before = panel.table.viewport().grab(rows.rect(2, Column.NAME)).toImage()
    colours = panel.menu_for(rows.runs[2]).findChild(QMenu, "colour")
    assert colours is not None and entry(colours, "Default").isChecked()
    entry(colours, "Teal").trigger()
    edits.runs.set_colour.assert_called_with((rows.runs[2].id,), "teal")
    panel.update_run(replace(rows.runs[2], colour="teal"))
    assert panel.table.viewport().grab(rows.rect(2, Column.NAME)).toImage() != before


def test_the_menu_leads_to_a_runs_sweep(panel: RunsPanel, qtbot: QtBot, rows: Any) -> None:
    run = replace(rows.runs[2], sweep="abc", sweep_name="Batch and rate")
    panel.update_run(run)
    with qtbot.waitSignal(panel.sweep_requested) as signal:
        entry(panel.menu_for(run), "Show its sweep").trigger()
    assert signal.args == ["abc"]
    assert "Show its sweep" not in [action.text() for action in panel.menu_for(rows.runs[1]).actions()]
    for words in ("sweep:abc", 'sweep:"batch and"'):
        panel.filter.setText(words)
        assert len(panel.model.found) == 1 and panel.model.item("sweep abc") is not None
