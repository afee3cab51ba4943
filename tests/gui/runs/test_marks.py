"""Tags and notes of runs: shown in the table, typed in a dialog, toggled in the menu."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import MagicMock

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from engine.store.record import RunRecord
from gui.runs.menu import MarksDialog
from gui.runs.panel import RunsPanel
from gui.runs.table.columns import Column

# the offscreen platform says so whenever a window or a popup is shown
pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")


def tagged(panel: RunsPanel, rows: Any) -> tuple[RunRecord, RunRecord]:
    """Runs 1 and 2 with tags, the second with a note."""
    first = replace(rows.runs[1], tags=("paper",))
    second = replace(rows.runs[2], tags=("paper", "figure 2"), note="Clocks were locked.")
    for run in (first, second):
        panel.update_run(run)
    return first, second


def test_the_tags_have_a_column_once_there_are_any(panel: RunsPanel, rows: Any) -> None:
    panel.resize(1_400, 320)
    assert panel.table.isColumnHidden(Column.TAGS)
    tagged(panel, rows)
    assert not panel.table.isColumnHidden(Column.TAGS)
    assert rows.text(2, Column.TAGS) == "paper, figure 2"
    panel.table.sortByColumn(Column.TAGS, Qt.SortOrder.AscendingOrder)
    assert rows.numbers()[:2] == [1, 2]


def test_a_note_is_told_and_never_taken_for_markup(panel: RunsPanel, rows: Any) -> None:
    tagged(panel, rows)
    name = panel.model.index(rows.place(2), Column.NAME)
    assert panel.model.data(name, Qt.ItemDataRole.ToolTipRole).endswith(
        "Tags: paper, figure 2\nClocks were locked."
    )
    assert "Clocks were locked" in panel.model.data(name, Qt.ItemDataRole.AccessibleTextRole)
    panel.update_run(replace(rows.runs[2], note="<img src=x> " * 1_000))
    tip = panel.model.data(name, Qt.ItemDataRole.ToolTipRole)
    assert "&lt;img" in tip and "<img" not in tip and len(tip) < 2_000


def test_a_click_on_the_sign_of_a_note_opens_it(
    panel: RunsPanel, qtbot: QtBot, rows: Any, edits: MagicMock
) -> None:
    tagged(panel, rows)
    cell_rect = panel.table.visualRect(panel.model.index(rows.place(2), Column.NAME))
    rows.click(QPoint(cell_rect.right() - 12, cell_rect.center().y()))
    dialog = panel.findChild(MarksDialog)
    assert dialog is not None and dialog.note.toPlainText() == "Clocks were locked."
    dialog.note.setPlainText("Clocks were free.")
    dialog.tags.setText("paper, PAPER,  , figure 3")
    dialog.accept()
    edits.runs.set_note.assert_called_with(rows.runs[2].id, "Clocks were free.")
    edits.runs.set_tags.assert_called_with({rows.runs[2].id: ("paper", "figure 3")})


def test_tags_of_several_runs_keep_what_each_has_of_its_own(
    panel: RunsPanel, qtbot: QtBot, rows: Any, edits: MagicMock
) -> None:
    first, second = tagged(panel, rows)
    dialog = panel.edit_marks((first, second))
    assert dialog.tags.text() == "paper"
    dialog.tags.setText("again")
    dialog.accept()
    edits.runs.set_tags.assert_called_with({first.id: ("again",), second.id: ("again", "figure 2")})


def test_a_tag_that_is_too_long_is_told_and_the_dialog_stays(
    panel: RunsPanel, qtbot: QtBot, rows: Any, edits: MagicMock
) -> None:
    dialog = panel.edit_marks((rows.runs[1],))
    dialog.tags.setText("x" * 41)
    dialog.accept()
    edits.runs.set_tags.assert_not_called()
    assert dialog.isVisible()
    assert any("41 characters" in said.text() for said in dialog.findChildren(QLabel))
    dialog.reject()


def test_the_menu_toggles_a_tag_of_all_highlighted_runs(
    panel: RunsPanel, qtbot: QtBot, rows: Any, edits: MagicMock
) -> None:
    first, second = tagged(panel, rows)
    panel.table.selectAll()
    for tag, wanted in (("figure 2", len(rows.runs) - 1), ("paper", len(rows.runs) - 2)):
        tag_action(panel, first, tag).trigger()
        assert len(edits.runs.set_tags.call_args[0][0]) == wanted
    panel.table.clearSelection()
    tag_action(panel, second, "paper").trigger()
    edits.runs.set_tags.assert_called_with({second.id: ("figure 2",)})


def tag_action(panel: RunsPanel, run: RunRecord, tag: str) -> QAction:
    tags = next(action.menu() for action in panel.menu_for(run).actions() if action.text() == "Tags")
    return next(action for action in tags.actions() if action.text() == tag)
