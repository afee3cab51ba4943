"""What a hand does in the runs table: ticks, keys, buttons, the menu, dragging."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QLineEdit
from pytestqt.qtbot import QtBot

from engine.store.record import RunRecord, Status
from gui.runs.panel import RunsPanel
from gui.runs.table.columns import Column
from gui.runs.table.line import dropped_runs
from gui.runs.table.view import drag_pixmap


def test_clicks_and_space_tick_runs_or_all_of_a_comparison_but_nothing_that_waits(
    panel: RunsPanel, qtbot: QtBot, rows: Any
) -> None:
    pair = (rows.runs[1].id, rows.runs[2].id)
    for number in (2, 1, 7):
        rows.click(rows.cell(number, Column.TICK))
    assert panel.checked() == pair
    item = panel.model.owner(pair[0])
    place = panel.model.row_of(item.key) if item is not None else None
    assert place is not None and panel.model.tick(place) is Qt.CheckState.PartiallyChecked
    box = panel.table.visualRect(panel.model.index(place, Column.TICK)).center()
    rows.click(box)
    assert len(panel.checked()) == 6, "what waits has nothing to show"
    rows.click(box)
    assert panel.checked() == ()
    for number in (1, 2, 7):
        panel.table.selectRow(rows.place(number))
        qtbot.keyClick(panel.table, Qt.Key.Key_Space)
    assert panel.checked() == pair


def test_the_ticked_runs_are_unticked_and_deleted_below_the_table(
    panel: RunsPanel, qtbot: QtBot, rows: Any, edits: MagicMock
) -> None:
    assert not panel.foot.untick.isVisible()
    ids = (rows.runs[1].id, rows.runs[2].id)
    panel.set_checked(ids)
    assert panel.foot.words.whole_text() == "2 runs selected, compared on the right"
    panel.foot.delete.click()
    edits.delete.assert_called_with(ids)
    panel.foot.untick.click()
    assert panel.checked() == () and not panel.foot.delete.isVisible()


def test_a_click_opens_a_run_or_its_comparison(panel: RunsPanel, qtbot: QtBot, rows: Any) -> None:
    with qtbot.waitSignal(panel.opened) as signal:
        rows.click(rows.cell(2, Column.NAME))
    assert signal.args[0].run.number == 2
    seen: list[object] = []
    panel.opened.connect(seen.append)
    for _ in range(2):
        qtbot.keyClick(panel.table, Qt.Key.Key_Up)
    assert seen == [panel.model.shown[rows.place(1)], panel.model.owner(rows.runs[2].id)]


def test_the_running_row_stops_and_a_queued_row_is_taken_out(
    panel: RunsPanel, qtbot: QtBot, rows: Any, edits: MagicMock
) -> None:
    rows.click(rows.button(6))
    edits.experiments.stop.assert_called()
    rows.click(rows.button(8))
    edits.experiments.dequeue.assert_called_with(rows.runs[8].id)


def test_delete_asks_for_what_is_over_and_takes_out_what_waits(
    panel: RunsPanel, qtbot: QtBot, rows: Any, edits: MagicMock
) -> None:
    panel.table.selectAll()
    qtbot.keyClick(panel.table, Qt.Key.Key_Delete)
    assert set(edits.delete.call_args[0][0]) == {rows.runs[number].id for number in (1, 2, 3, 4, 5)}
    taken_out = [call.args[0] for call in edits.experiments.dequeue.call_args_list]
    assert taken_out == [rows.runs[7].id, rows.runs[8].id]


def test_a_name_is_edited_in_its_cell(panel: RunsPanel, qtbot: QtBot, rows: Any, edits: MagicMock) -> None:
    panel.table.selectRow(rows.place(2))
    qtbot.keyClick(panel.table, Qt.Key.Key_F2)
    editor = panel.table.viewport().findChild(QLineEdit)
    assert editor is not None
    assert editor.accessibleName() == "Name"
    editor.setText("Best so far")
    opened: list[str] = []
    panel.open_requested.connect(opened.append)
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: edits.runs.rename.called)
    edits.runs.rename.assert_called_with(rows.runs[2].id, "Best so far")
    assert not opened, "the Return that ends the editing is not one that opens the run"


def test_a_double_click_shows_the_curves(panel: RunsPanel, qtbot: QtBot, rows: Any) -> None:
    place = rows.cell(3, Column.NAME)
    rows.click(place)
    with qtbot.waitSignal(panel.open_requested) as signal:
        qtbot.mouseDClick(panel.table.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert signal.args == [rows.runs[3].id]


@pytest.mark.parametrize("number", range(1, 9))
def test_the_menu_offers_what_the_run_allows(
    panel: RunsPanel, qtbot: QtBot, number: int, rows: Any, edits: MagicMock
) -> None:
    run = rows.runs[number]
    panel.table.selectRow(rows.place(number))
    actions = {action.text(): action for action in panel.menu_for(run).actions()}
    last = {Status.RUNNING: "Stop", Status.QUEUED: "Remove from the queue"}.get(run.status, "Delete")
    assert list(actions)[-1] == last
    with qtbot.waitSignal(panel.use_settings_requested) as signal:
        actions["Use these settings"].trigger()
    assert signal.args == [run]
    actions[last].trigger()
    names = {"Stop": "stop", "Remove from the queue": "dequeue"}
    wanted = getattr(edits.experiments, names[last]) if last in names else edits.delete
    wanted.assert_called_once()


def action_of(panel: RunsPanel, run: RunRecord, words: str) -> QAction:
    return next(action for action in panel.menu_for(run).actions() if action.text() == words)


def test_a_run_that_cannot_be_resumed_says_why(panel: RunsPanel, rows: Any, edits: MagicMock) -> None:
    edits.experiments.why_not_resumed.side_effect = lambda run: (
        "It has no checkpoint." if run.number == 3 else None
    )
    refused = action_of(panel, rows.runs[3], "Resume")
    assert not refused.isEnabled() and refused.toolTip() == "It has no checkpoint."
    assert action_of(panel, rows.runs[5], "Resume").isEnabled()


def test_a_run_is_resumed_or_begun_from_its_menu_where_it_can_be(
    panel: RunsPanel, qtbot: QtBot, rows: Any, edits: MagicMock
) -> None:
    assert not action_of(panel, rows.runs[7], "Run").isEnabled()
    edits.experiments.why_not_resumed.return_value = edits.experiments.why_not_started.return_value = None
    with qtbot.waitSignal(panel.resume_requested) as signal:
        action_of(panel, rows.runs[5], "Resume").trigger()
    assert signal.args == [rows.runs[5].id]
    action_of(panel, rows.runs[7], "Run").trigger()
    edits.experiments.resume_waiting.assert_called_with((rows.runs[7].id,))


def test_highlighted_runs_are_dragged_as_ids_and_as_names(panel: RunsPanel) -> None:
    panel.table.selectAll()
    assert panel.table.dragEnabled()
    data = panel.model.mimeData(panel.table.selectionModel().selectedRows())
    assert dropped_runs(data) == tuple(run.id for run in panel.table.highlighted())
    assert data.text().split("\n") == [run.title for run in panel.table.highlighted()]
    assert not drag_pixmap(panel.table.highlighted()).isNull()


ALL, SOME, NONE = Qt.CheckState.Checked, Qt.CheckState.PartiallyChecked, Qt.CheckState.Unchecked


def press(panel: RunsPanel, qtbot: QtBot, column: Column = Column.TICK) -> None:
    header = panel.table.horizontalHeader()
    place = QPoint(header.sectionViewportPosition(column) + 20, header.height() // 2)
    qtbot.mouseClick(header.viewport(), Qt.MouseButton.LeftButton, pos=place)


def test_it_ticks_all_that_is_shown_and_can_be_ticked_and_then_none(
    panel: RunsPanel, qtbot: QtBot, rows: Any
) -> None:
    ids = [rows.runs[number].id for number in range(1, 7)]
    assert panel.model.ticks() is NONE
    panel.set_checked([ids[2]])
    assert panel.model.ticks() is SOME
    press(panel, qtbot)
    assert panel.checked() == tuple(ids) and panel.model.ticks() is ALL
    press(panel, qtbot)
    assert panel.checked() == () and panel.model.ticks() is NONE
    panel.set_checked([ids[2]])
    panel.filter.setText("fp16")
    assert len(panel.model.found) == 3 and panel.model.ticks() is NONE
    press(panel, qtbot)
    assert panel.checked() == (ids[1], ids[2], ids[4])
    press(panel, qtbot)
    assert panel.checked() == (ids[2],)
    panel.filter.setText("nothing has this")
    panel.model.toggle_all()
    assert panel.checked() == (ids[2],) and panel.model.ticks() is NONE


def test_it_shows_all_some_and_none_and_sorts_by_nothing(panel: RunsPanel, qtbot: QtBot, rows: Any) -> None:
    header, before, pictures = panel.table.horizontalHeader(), panel.state(), []
    for numbers in ((), (1,), range(1, 7)):
        panel.set_checked(rows.runs[number].id for number in numbers)
        pictures.append(header.grab().toImage().copy(0, 0, 40, header.height()))
    assert pictures[0] != pictures[1] != pictures[2] != pictures[0]
    press(panel, qtbot)
    assert panel.state() == before and panel.model.ticks() is NONE
    press(panel, qtbot, Column.NAME)
    assert panel.state()["column"] == "NAME"
