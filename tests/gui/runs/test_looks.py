"""How the runs table is painted, how it makes do with little room, and what is read aloud."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from PySide6.QtCore import QAbstractTableModel, QEvent, QRect, Qt
from PySide6.QtGui import QFontMetrics, QHelpEvent
from PySide6.QtWidgets import QAbstractButton, QAbstractItemView, QApplication, QLabel, QLineEdit, QToolTip
from pytestqt.qtbot import QtBot

from engine.store.record import Status
from gui.runs.panel import RunsPanel
from gui.runs.table.columns import Column
from gui.theme.fonts import font
from gui.theme.theme import theme

# the offscreen platform says so whenever a window or a popup is shown
pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")


def test_a_rows_button_tells_what_it_does(panel: RunsPanel, rows: Any) -> None:
    place = rows.button(6)
    event = QHelpEvent(QEvent.Type.ToolTip, place, panel.table.viewport().mapToGlobal(place))
    QApplication.sendEvent(panel.table.viewport(), event)
    assert QToolTip.text().startswith("Stop this run")
    QToolTip.hideText()


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("width", [1_120, 780, 420])
def test_every_state_is_painted_in_both_themes(panel: RunsPanel, mode: str, width: int, rows: Any) -> None:
    theme().set_mode(mode)
    panel.set_checked([rows.runs[1].id])
    panel.set_progress(rows.runs[6].id, 0.5)
    panel.table.selectRow(1)
    panel.resize(width, 320)
    picture = panel.table.viewport().grab().toImage()
    colors = {picture.pixelColor(x, y).name().upper() for x in range(picture.width()) for y in (14, 42)}
    assert theme().palette.bg2 in colors
    assert not panel.table.isColumnHidden(Column.STATUS)


@pytest.mark.parametrize("width", [1_120, 780, 420])
def test_the_percentage_never_lies_on_the_stop_button(panel: RunsPanel, width: int, rows: Any) -> None:
    panel.resize(width, 320)
    button = QRect(0, 0, 24, 24)
    button.moveCenter(rows.button(6))
    painted = []
    for progress in (0.01, 1.0):
        panel.set_progress(rows.runs[6].id, progress)
        painted.append(panel.table.viewport().grab(button).toImage())
    assert painted[0] == painted[1]


@pytest.mark.parametrize("width", [770, 1_074, 1_400])
def test_a_long_speed_and_the_longest_precision_are_never_cut_short(panel: RunsPanel, width: int) -> None:
    panel.resize(width, 320)
    metrics = QFontMetrics(font(12, 500))
    for column, words in ((Column.SPEED, "111,442"), (Column.PRECISION, "FP16 unscaled")):
        assert panel.table.columnWidth(column) >= metrics.horizontalAdvance(words) + 16


def test_a_narrow_table_does_without_the_dataset_first(panel: RunsPanel, rows: Any) -> None:
    assert not panel.table.isColumnHidden(Column.DATASET)
    panel.resize(780, 208)
    assert panel.table.isColumnHidden(Column.DATASET)
    assert not panel.table.isColumnHidden(Column.WHEN)
    name = panel.model.index(rows.place(2), Column.NAME)
    assert "fashion" in panel.model.data(name, Qt.ItemDataRole.ToolTipRole)


def test_the_names_of_a_comparison_differ_in_a_narrow_table_too(panel: RunsPanel, rows: Any) -> None:
    panel.resize(640, 320)
    drawn = []
    for label in ("FP16 AMP", "BF16 AMP"):
        panel.update_run(replace(rows.runs[2], name=f"One that you showed me, {label}", label=label))
        drawn.append(panel.table.viewport().grab(rows.rect(2, Column.NAME)).toImage())
    assert drawn[0] != drawn[1]


def test_it_folds_to_its_header(panel: RunsPanel, qtbot: QtBot) -> None:
    with qtbot.waitSignal(panel.open_changed) as signal:
        panel.set_open(False)
    assert signal.args == [False]
    assert not panel.table.isVisible()
    panel.set_open(True)
    assert panel.table.isVisible()


def test_without_runs_it_says_so(qtbot: QtBot, rows: Any) -> None:
    panel = RunsPanel()
    qtbot.addWidget(panel)
    assert panel.pages.currentIndex() == 1
    panel.update_run(rows.runs[1])
    assert panel.pages.currentIndex() == 0


def test_the_header_counts_the_runs(panel: RunsPanel, rows: Any) -> None:
    assert f"{len(rows.runs)}" in {label.text() for label in panel.findChildren(QLabel)}
    others = [run for run in rows.runs.values() if run.status is not Status.QUEUED]
    panel.set_runs(others)
    assert len(others) < len(rows.runs)
    assert f"{len(others)}" in {label.text() for label in panel.findChildren(QLabel)}


def test_every_control_has_a_name_and_a_tip(panel: RunsPanel) -> None:
    kinds = (QAbstractButton, QLineEdit, QAbstractItemView)
    controls = [widget for kind in kinds for widget in panel.findChildren(kind)]
    assert len(controls) > 5
    for control in controls:
        assert control.accessibleName(), control
        assert control.toolTip(), (control, control.accessibleName())


def test_every_cell_can_be_read_aloud(panel: RunsPanel) -> None:
    model: QAbstractTableModel = panel.model
    for row in range(model.rowCount()):
        for place in range(model.columnCount()):
            assert model.data(model.index(row, place), Qt.ItemDataRole.AccessibleTextRole)
