"""How the runs table is painted, how it makes do with little room, and what is read aloud."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from PySide6.QtCore import QAbstractTableModel, QRect, Qt
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import QAbstractButton, QAbstractItemView, QLineEdit
from pytestqt.qtbot import QtBot

from gui.runs.panel import RunsPanel
from gui.runs.table.columns import Column
from gui.theme.fonts import font
from gui.theme.theme import theme


@pytest.mark.parametrize("width", [1_120, 780, 420])
def test_every_state_is_painted_in_both_themes_and_no_percentage_lies_on_the_stop_button(
    panel: RunsPanel, width: int, rows: Any
) -> None:
    panel.set_checked([rows.runs[1].id])
    panel.table.selectRow(1)
    panel.resize(width, 320)
    button = QRect(0, 0, 24, 24)
    button.moveCenter(rows.button(6))
    for mode in ("light", "dark"):
        theme().set_mode(mode)
        painted = []
        for progress in (0.01, 1.0):
            panel.set_progress(rows.runs[6].id, progress)
            painted.append(panel.table.viewport().grab(button).toImage())
        assert painted[0] == painted[1]
        picture = panel.table.viewport().grab().toImage()
        colors = {picture.pixelColor(x, y).name().upper() for x in range(picture.width()) for y in (42, 70)}
        assert theme().palette.bg2 in colors


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (640, [column for column in Column if column <= Column.RATIO and column is not Column.TAGS]),
        (480, [Column.TICK, Column.NAME, Column.WHEN, Column.SPEED, Column.RATIO]),
        (320, [Column.NAME, Column.RATIO]),
    ],
)
def test_a_column_leaves_before_a_name_is_cut(panel: RunsPanel, width: int, shown: list[Column]) -> None:
    panel.resize(width, 700)
    assert [column for column in Column if not panel.table.isColumnHidden(column)] == shown
    assert panel.table.columnWidth(Column.NAME) >= 220
    metrics = QFontMetrics(font(12, 500))
    for column, words in ((Column.SPEED, "111,442"), (Column.PEAK, "1,024.00")):
        assert panel.table.isColumnHidden(column) or (
            panel.table.columnWidth(column) >= metrics.horizontalAdvance(words) + 16
        )


def test_the_names_of_a_comparison_differ_in_a_narrow_table_too(panel: RunsPanel, rows: Any) -> None:
    panel.resize(320, 700)
    drawn = []
    for label in ("FP16 AMP", "BF16 AMP"):
        name = f"One that you showed me of all the many on this long afternoon, {label}"
        panel.update_run(replace(rows.runs[2], name=name, label=label, comparison=None))
        drawn.append(panel.table.viewport().grab(rows.rect(2, Column.NAME)).toImage())
    assert drawn[0] != drawn[1]


def test_the_foot_counts_the_runs_and_without_any_the_table_says_so(qtbot: QtBot, panel: RunsPanel) -> None:
    assert panel.foot.words.whole_text() == "8 runs"
    panel.filter.setText("fp16")
    assert panel.foot.words.whole_text() == "3 of 8 runs"
    qtbot.addWidget(empty := RunsPanel())
    assert empty.pages.currentIndex() == 1
    empty.update_run(next(iter(panel.model.lines.values())).run)
    assert empty.pages.currentIndex() == 0


def test_every_control_has_a_name_and_a_tip_and_every_cell_can_be_read_aloud(panel: RunsPanel) -> None:
    kinds = (QAbstractButton, QLineEdit, QAbstractItemView)
    controls = [widget for kind in kinds for widget in panel.findChildren(kind)]
    assert len(controls) > 5
    for control in controls:
        assert control.accessibleName(), control
        assert control.toolTip(), (control, control.accessibleName())
    model: QAbstractTableModel = panel.model
    for row, place in product(range(model.rowCount()), range(model.columnCount())):
        assert model.data(model.index(row, place), Qt.ItemDataRole.AccessibleTextRole)
