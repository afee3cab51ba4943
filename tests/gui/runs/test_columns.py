"""The columns of the runs table: which, in what order, how wide, and what they show."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import QMenu
from pytestqt.qtbot import QtBot

from engine.experiment.optimizers import Optimizer
from engine.protocol.events import Summary
from gui.runs.panel import RunsPanel, fill_columns
from gui.runs.table.columns import COLUMNS, FIXED, NAME, PLACES, RATIO, TAGS, THROUGHPUT, TICK, USUAL, WHEN
from gui.runs.table.view import RunsTable
from gui.theme.fonts import font

RATE = PLACES["optimizer.learning_rate"]


def in_sight(table: RunsTable) -> list[int]:
    """The columns that are shown, left to right."""
    places = [table.header().logicalIndex(place) for place in range(len(COLUMNS))]
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
    assert shown[-1] == RATIO and RATE in shown and PLACES["STEP_MS"] in shown
    names = ("optimizer.learning_rate", "STEP_MS", "GRAD_SCALE", "DURATION", "LOSS", "seed")
    assert [rows.text(1, PLACES[name]) for name in names] == [
        "0.3",
        "12.5",
        "65,536",
        "2 min 5 s",
        "0.250",
        "0",
    ]
    panel.table.sortByColumn(RATE, Qt.SortOrder.DescendingOrder)
    assert rows.numbers()[0] == 1
    panel.table.viewport().grab()


def test_a_chosen_column_stays_in_a_narrow_table_which_then_scrolls(panel: RunsPanel) -> None:
    panel.resize(700, 320)
    panel.table.choose(PLACES["DATASET"], True)
    panel.table.choose(RATE, True)
    assert {PLACES["DATASET"], RATE} <= set(in_sight(panel.table))
    for column in (PLACES["ENERGY"], PLACES["LOSS"], PLACES["STEP_MS"]):
        panel.table.choose(column, True)
    assert panel.table.columnWidth(NAME) >= 80
    assert panel.table.header().length() > panel.table.viewport().width()
    panel.table.choose(WHEN, False)
    assert WHEN not in in_sight(panel.table)


def test_columns_order_and_baseline_survive_a_restart(panel: RunsPanel, qtbot: QtBot, rows: Any) -> None:
    header = panel.table.header()
    panel.table.choose(RATE, True)
    panel.table.choose(PLACES["PEAK"], False)
    edge = header.sectionViewportPosition(THROUGHPUT) + header.sectionSize(THROUGHPUT) - 1
    place = QPoint(edge, header.height() // 2)
    qtbot.mousePress(header.viewport(), Qt.MouseButton.LeftButton, pos=place)
    qtbot.mouseMove(header.viewport(), place + QPoint(10, 0))
    qtbot.mouseMove(header.viewport(), place + QPoint(40, 0))
    qtbot.mouseRelease(header.viewport(), Qt.MouseButton.LeftButton, pos=place + QPoint(40, 0))
    header.moveSection(header.visualIndex(RATIO), 2)
    panel.table.sortByColumn(THROUGHPUT, Qt.SortOrder.AscendingOrder)
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
    assert in_sight(again.table)[2] == RATIO
    choices(panel)["Default columns"].trigger()
    assert [column for column in in_sight(panel.table) if column not in USUAL] == []
    assert panel.state()["columns"] == {"chosen": {}, "order": [], "widths": {}}


def test_a_column_of_another_version_is_left_out(panel: RunsPanel) -> None:
    shown = {"chosen": {"TELEPATHY": True, "TICK": False}, "order": ["TELEPATHY"], "widths": {"TELEPATHY": 9}}
    panel.table.set_columns(shown)
    assert panel.table.columns() == {"chosen": {}, "order": [], "widths": {}}
    assert in_sight(panel.table)[0] == TICK


def test_the_menu_marks_what_is_shown(panel: RunsPanel) -> None:
    lines = choices(panel)
    assert lines["When"].isChecked() and not lines["Learning rate"].isChecked()
    assert "Name" not in lines and lines["Learning rate"].toolTip()


@pytest.mark.parametrize(
    ("width", "wanted"),
    [
        (640, [TICK, *(column for column in USUAL if column not in (*FIXED, TAGS))]),
        (480, [TICK, WHEN, THROUGHPUT, RATIO]),
        (320, [RATIO]),
    ],
)
def test_a_column_leaves_before_a_name_is_cut(panel: RunsPanel, width: int, wanted: list[int]) -> None:
    panel.resize(width, 700)
    assert [column for column in in_sight(panel.table) if column != NAME] == wanted
    assert (
        panel.table.columnWidth(NAME) >= 214
        and panel.table.header().length() == panel.table.viewport().width()
    )
    metrics = QFontMetrics(font(12, 500))
    for column, words in ((THROUGHPUT, "111,442"), (PLACES["PEAK"], "1,024.00")):
        assert panel.table.isColumnHidden(column) or (
            panel.table.columnWidth(column) >= metrics.horizontalAdvance(words) + 16
        )
