"""Folders of runs: made, filled by dropping runs, renamed and deleted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import MagicMock

from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QApplication, QMenu
from pytestqt.qtbot import QtBot

from gui.runs.folders import FolderList, in_folder
from gui.runs.panel import RunsPanel
from gui.runs.table.columns import Column
from gui.runs.table.line import dragged_runs
from gui.setup.saving import TitleDialog


def make(folders: FolderList, name: str) -> None:
    folders.show()
    dialog = folders.ask_for_new()
    dialog.title.setText(name)
    dialog.save_button.click()


def drop(folders: FolderList, row: int, run_ids: list[str]) -> None:
    place = QPointF(folders.visualItemRect(folders.item(row)).center())
    data = dragged_runs([(run_id, run_id) for run_id in run_ids])
    how = (Qt.DropAction.CopyAction, data, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier)
    for event in (QDragEnterEvent(place.toPoint(), *how), QDropEvent(place, *how)):
        QApplication.sendEvent(folders.viewport(), event)


def test_they_are_shown_on_demand_and_when_runs_are_dragged_there(panel: RunsPanel, rows: Any) -> None:
    assert not panel.folders.isVisible()
    panel.bar.folders.click()
    assert panel.folders.isVisible()
    panel.bar.folders.click()
    panel.update_run(replace(rows.runs[1], folder="thesis"))
    data = dragged_runs([("a", "a")])
    left, none = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    event = QDragEnterEvent(QPoint(4, 4), Qt.DropAction.CopyAction, data, left, none)
    QApplication.sendEvent(panel.bar.folders, event)
    assert panel.folders.isVisible() and event.isAccepted()
    assert [panel.folders.item(row).text() for row in range(2)] == ["All runs", "thesis (1)"]


def test_runs_are_dropped_on_a_folder_and_out_of_it(
    panel: RunsPanel, qtbot: QtBot, rows: Any, edits: MagicMock
) -> None:
    make(panel.folders, "thesis")
    ids = [rows.runs[1].id, rows.runs[2].id]
    drop(panel.folders, 1, ids)
    edits.runs.set_folders.assert_called_with(dict.fromkeys(ids, "thesis"))
    drop(panel.folders, 0, ids[:1])
    edits.runs.set_folders.assert_called_with({ids[0]: ""})


def test_a_click_filters_by_the_folder_alone(panel: RunsPanel, qtbot: QtBot, rows: Any) -> None:
    for number, folder in ((1, "week 4"), (2, "week 47"), (3, "week 4")):
        panel.update_run(replace(rows.runs[number], folder=folder))
    panel.bar.folders.click()
    panel.filter.setText("finished folder:old")
    item = panel.folders.item(1)
    place = panel.folders.visualItemRect(item).center()
    qtbot.mouseClick(panel.folders.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert panel.filter.text() == 'finished folder:"week 4"' and rows.numbers() == [1]
    assert panel.folders.currentRow() == 1
    panel.filter.setText("folder:week")
    assert sorted(rows.numbers()) == [1, 2, 3]
    panel.folders.itemClicked.emit(panel.folders.item(0))
    assert panel.filter.text() == ""


def test_a_folder_is_renamed_and_deleted_and_its_runs_stay(
    panel: RunsPanel, qtbot: QtBot, rows: Any, edits: MagicMock
) -> None:
    make(panel.folders, "thesis")
    panel.update_run(replace(rows.runs[2], folder="thesis"))
    panel.folders.itemClicked.emit(panel.folders.item(1))
    panel.folders.setCurrentRow(1)
    qtbot.keyClick(panel.folders, Qt.Key.Key_F2)
    dialog = next(one for one in panel.findChildren(TitleDialog) if one.isVisible())
    dialog.title.setText("book")
    dialog.save_button.click()
    edits.runs.set_folders.assert_called_with({rows.runs[2].id: "book"})
    assert panel.filter.text() == 'folder:"book"' and panel.state()["folders"] == ["book"]
    panel.update_run(replace(rows.runs[2], folder="book"))
    panel.folders.setCurrentRow(1)
    qtbot.keyClick(panel.folders, Qt.Key.Key_Delete)
    edits.delete_folder.assert_called_with("book", (rows.runs[2].id,))
    assert panel.filter.text() == ""


def test_a_folder_needs_a_name_of_its_own(panel: RunsPanel) -> None:
    make(panel.folders, "thesis")
    dialog = panel.folders.ask_for_new()
    for name in ("Thesis", "f" * 61):
        dialog.title.setText(name)
        dialog.save_button.click()
        assert dialog.isVisible()
    dialog.reject()
    assert panel.folders.names() == ("thesis",)


def test_the_menu_moves_a_run_into_a_folder_or_a_new_one(
    panel: RunsPanel, qtbot: QtBot, rows: Any, edits: MagicMock
) -> None:
    make(panel.folders, "thesis")
    folders = panel.menu_for(rows.runs[2]).findChild(QMenu, "folder")
    assert folders is not None
    assert [action.text() for action in folders.actions() if action.text()] == [
        *("No folder", "thesis", "New folder…")
    ]
    assert folders.actions()[0].isChecked()
    folders.actions()[1].trigger()
    edits.runs.set_folders.assert_called_with({rows.runs[2].id: "thesis"})


def test_the_folder_can_be_a_column_and_folders_survive_a_restart(
    panel: RunsPanel, qtbot: QtBot, rows: Any
) -> None:
    make(panel.folders, "thesis")
    panel.update_run(replace(rows.runs[1], folder="thesis"))
    panel.table.choose(Column.FOLDER, True)
    assert rows.text(1, Column.FOLDER) == "thesis"
    again = RunsPanel()
    qtbot.addWidget(again)
    again.restore(panel.state())
    assert again.folders.names() == ("thesis",)


def test_the_filter_keeps_its_other_words() -> None:
    assert in_folder('tag:paper folder:"old one" fast', "new") == 'tag:paper fast folder:"new"'
    assert in_folder("folder:old", "") == ""
