"""The columns of the runs table: which, in what order, how wide, and what they show."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QMenu
from pytestqt.qtbot import QtBot

from engine.experiment.settings import Optimizer
from engine.protocol.events import Summary
from gui.runs.panel import RunsPanel, fill_columns
from gui.runs.table.columns import USUAL, Column
from gui.runs.table.view import RunsTable

RATE = Column["optimizer.learning_rate"]


def in_sight(table: RunsTable) -> list[Column]:
    """The columns that are shown, left to right."""
    header = table.horizontalHeader()
    places = [Column(header.logicalIndex(place)) for place in range(len(Column))]
    return [column for column in places if not table.isColumnHidden(column)]


def choices(panel: RunsPanel) -> dict[str, Any]:
    """The lines of the menu of columns, by their words."""
    menu = QMenu(panel)
    fill_columns(menu, panel.table, panel.model)
    menus = [menu, *menu.findChildren(QMenu)]
    return {action.text(): action for one in menus for action in one.actions()}


def test_any_setting_and_any_figure_can_be_a_column(panel: RunsPanel, rows: Any) -> None:
    first = rows.runs[1]
    experiment = first.experiment.model_copy(update={"optimizer": Optimizer(learning_rate=0.3)})
    summary = Summary(step_ms=12.5, final_grad_scale=65_536.0, seconds=125.0, final_train_loss=0.25)
    panel.update_run(replace(first, experiment=experiment, summary=summary))
    for words in ("Learning rate", "Step ms", "Loss scale", "Duration", "Loss", "Seed"):
        choices(panel)[words].setChecked(True)
    shown = in_sight(panel.table)
    assert shown[-1] is Column.RATIO and RATE in shown and Column.STEP_MS in shown
    wanted = (RATE, Column.STEP_MS, Column.GRAD_SCALE, Column.DURATION, Column.LOSS, Column["seed"])
    assert [rows.text(1, column) for column in wanted] == ["0.3", "12.5", "65,536", "2 min 5 s", "0.250", "0"]
    panel.table.sortByColumn(RATE, Qt.SortOrder.DescendingOrder)
    assert rows.numbers()[0] == 1
    panel.table.viewport().grab()


def test_a_chosen_column_stays_in_a_narrow_table_which_then_scrolls(panel: RunsPanel) -> None:
    panel.resize(700, 320)
    panel.table.choose(Column.DATASET, True)
    panel.table.choose(RATE, True)
    assert {Column.DATASET, RATE} <= set(in_sight(panel.table))
    for column in (Column.ENERGY, Column.LOSS, Column.STEP_MS):
        panel.table.choose(column, True)
    assert panel.table.columnWidth(Column.NAME) >= 80
    assert panel.table.horizontalScrollBar().maximum() > 0
    panel.table.choose(Column.WHEN, False)
    assert Column.WHEN not in in_sight(panel.table)


def test_columns_order_and_baseline_survive_a_restart(panel: RunsPanel, qtbot: QtBot, rows: Any) -> None:
    header = panel.table.horizontalHeader()
    panel.table.choose(RATE, True)
    panel.table.choose(Column.PEAK, False)
    edge = header.sectionViewportPosition(Column.SPEED) + header.sectionSize(Column.SPEED) - 1
    place = QPoint(edge, header.height() // 2)
    qtbot.mousePress(header.viewport(), Qt.MouseButton.LeftButton, pos=place)
    qtbot.mouseMove(header.viewport(), place + QPoint(10, 0))
    qtbot.mouseMove(header.viewport(), place + QPoint(40, 0))
    qtbot.mouseRelease(header.viewport(), Qt.MouseButton.LeftButton, pos=place + QPoint(40, 0))
    header.moveSection(header.visualIndex(Column.RATIO), 2)
    panel.table.sortByColumn(Column.SPEED, Qt.SortOrder.AscendingOrder)
    panel.model.set_baseline(rows.runs[1].id)
    state = panel.state()
    assert state["columns"]["widths"].keys() == {"SPEED"}
    again = RunsPanel()
    qtbot.addWidget(again)
    again.set_runs(rows.runs.values())
    again.resize(panel.size())
    with qtbot.waitExposed(again):
        again.show()
    again.restore(state)
    assert again.state() == state and again.model.sorted_by == panel.model.sorted_by
    assert again.model.baseline == rows.runs[1].id
    assert in_sight(again.table) == in_sight(panel.table)
    assert in_sight(again.table)[2] is Column.RATIO
    choices(panel)["Default columns"].trigger()
    assert [column for column in in_sight(panel.table) if column not in USUAL] == []
    assert panel.state()["columns"] == {"chosen": {}, "order": [], "widths": {}}


def test_a_column_of_another_version_is_left_out(panel: RunsPanel) -> None:
    shown = {"chosen": {"TELEPATHY": True, "TICK": False}, "order": ["TELEPATHY"], "widths": {"TELEPATHY": 9}}
    panel.table.set_columns(shown)
    assert panel.table.columns() == {"chosen": {}, "order": [], "widths": {}}
    assert in_sight(panel.table)[0] is Column.TICK


def test_the_menu_marks_what_is_shown(panel: RunsPanel) -> None:
    lines = choices(panel)
    assert lines["When"].isChecked() and not lines["Learning rate"].isChecked()
    assert "Name" not in lines and lines["Learning rate"].toolTip()
