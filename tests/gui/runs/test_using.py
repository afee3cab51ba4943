"""What a hand does in the list of results: ticks, keys, buttons, menus, tags, the baseline and drags."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import MagicMock

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from engine.protocol.events import Summary
from engine.store.record import RunRecord, Status
from gui.runs.panel import RunsPanel
from gui.runs.table.columns import COMPARED, NAME, PLACES, RATIO, TAGS, TICK
from gui.runs.table.rows import dropped_runs
from gui.runs.tags import TagsDialog

ALL, SOME, NONE = Qt.CheckState.Checked, Qt.CheckState.PartiallyChecked, Qt.CheckState.Unchecked
TIP, SPOKEN = Qt.ItemDataRole.ToolTipRole, Qt.ItemDataRole.AccessibleTextRole


def test_clicks_and_space_tick_runs_or_all_of_a_comparison_but_nothing_that_waits(
    panel: RunsPanel, qtbot: QtBot, rows: Any
) -> None:
    pair = (rows.runs[1].id, rows.runs[2].id)
    for number in (2, 1, 7):
        rows.click(rows.cell(number, TICK))
    assert panel.checked() == pair
    item = panel.model.owner(pair[0])
    assert item is not None and panel.model.ticks([item]) is SOME
    panel.table.scrollToTop()
    box = panel.table.visualRect(panel.model.index_of(item.key, TICK)).center()
    rows.click(box)
    assert len(panel.checked()) == 6, "what waits has nothing to show"
    rows.click(box)
    assert panel.checked() == ()
    for number in (1, 2, 7):
        rows.select(number)
        qtbot.keyClick(panel.table, Qt.Key.Key_Space)
    assert panel.checked() == pair


def press(panel: RunsPanel, qtbot: QtBot, column: int = TICK) -> None:
    header = panel.table.header()
    place = QPoint(header.sectionViewportPosition(column) + 20, header.height() // 2)
    qtbot.mouseClick(header.viewport(), Qt.MouseButton.LeftButton, pos=place)


def test_the_box_of_the_header_ticks_all_that_is_shown_then_none_and_sorts_by_nothing(
    panel: RunsPanel, qtbot: QtBot, rows: Any
) -> None:
    ids, before = [rows.runs[number].id for number in range(1, 7)], panel.state()
    header, pictures = panel.table.header(), []
    panel.set_checked([ids[2]])
    for ticks, checked in ((SOME, ids[2:3]), (ALL, ids), (NONE, [])):
        assert panel.model.ticks() is ticks and panel.checked() == tuple(checked)
        pictures.append(header.grab().toImage().copy(0, 0, 40, header.height()))
        press(panel, qtbot)
    assert pictures[0] != pictures[1] != pictures[2] != pictures[0] and panel.state() == before
    panel.set_checked([ids[2]])
    panel.filter.setText("fp16")
    assert len(panel.model.found) == 3 and panel.model.ticks() is NONE
    for checked in ((ids[1], ids[2], ids[4]), (ids[2],)):
        press(panel, qtbot)
        assert panel.checked() == checked
    panel.filter.clear()
    press(panel, qtbot, NAME)
    assert panel.state()["column"] == "NAME"


def test_the_ticked_runs_are_unticked_and_deleted_below_the_table(
    panel: RunsPanel, qtbot: QtBot, rows: Any
) -> None:
    assert not panel.foot.untick.isVisible()
    ids = (rows.runs[1].id, rows.runs[2].id)
    panel.set_checked(ids)
    assert panel.foot.words.whole_text() == "2 runs selected, compared on the right"
    with qtbot.waitSignal(panel.delete_wanted) as signal:
        panel.foot.delete.click()
    assert signal.args == [ids]
    panel.foot.untick.click()
    assert panel.checked() == () and not panel.foot.delete.isVisible()


def test_a_click_or_a_key_opens_a_row_and_a_double_click_or_enter_shows_its_curves(
    panel: RunsPanel, qtbot: QtBot, rows: Any
) -> None:
    with qtbot.waitSignal(panel.opened) as signal:
        rows.click(rows.cell(2, NAME))
    assert signal.args[0].run.number == 2
    seen: list[object] = []
    panel.opened.connect(seen.append)
    for _ in range(2):
        qtbot.keyClick(panel.table, Qt.Key.Key_Up)
    first = panel.model.lines[rows.runs[1].id]
    assert seen == [first, first.item]
    rows.click(place := rows.cell(3, NAME))
    with qtbot.waitSignal(panel.open_requested) as opened:
        qtbot.mouseDClick(panel.table.viewport(), Qt.MouseButton.LeftButton, pos=place)
    with qtbot.waitSignal(panel.open_requested) as entered:
        qtbot.keyClick(panel.table, Qt.Key.Key_Return)
    assert opened.args == entered.args == [rows.runs[3].id]


def test_the_running_row_stops_and_what_waits_is_taken_out(
    panel: RunsPanel, qtbot: QtBot, rows: Any, experiments: MagicMock
) -> None:
    rows.click(rows.button(6))
    experiments.stop.assert_called_once()
    rows.click(rows.button(8))
    panel.table.selectAll()
    with qtbot.waitSignal(panel.delete_wanted) as signal:
        qtbot.keyClick(panel.table, Qt.Key.Key_Delete)
    assert set(signal.args[0]) == {rows.runs[number].id for number in (1, 2, 3, 4, 5)}
    taken_out = [call.args[0] for call in experiments.dequeue.call_args_list]
    assert taken_out == [rows.runs[8].id, rows.runs[7].id, rows.runs[8].id]


def test_f2_edits_a_name_in_its_cell(panel: RunsPanel, qtbot: QtBot, rows: Any) -> None:
    rows.select(2)
    with qtbot.assertNotEmitted(panel.open_requested):
        qtbot.keyClick(panel.table, Qt.Key.Key_F2)
    assert panel.table.state() == panel.table.State.EditingState


def entry(panel: RunsPanel, run: RunRecord, words: str) -> QAction:
    actions = panel.menu_for(run).actions()
    return next(action for action in actions if action.text().partition("\t")[0] == words)


@pytest.mark.parametrize("number", range(1, 9))
def test_the_menu_offers_what_the_run_allows(
    panel: RunsPanel, qtbot: QtBot, number: int, rows: Any, experiments: MagicMock
) -> None:
    run, deleted = rows.runs[number], MagicMock()
    panel.delete_wanted.connect(deleted)
    rows.select(number)
    actions = {action.text(): action for action in panel.menu_for(run).actions()}
    last = {Status.RUNNING: "Stop", Status.QUEUED: "Remove from the queue"}.get(run.status, "Delete")
    assert list(actions)[-1] == last
    with qtbot.waitSignal(panel.use_settings_requested) as signal:
        actions["Use these settings"].trigger()
    assert signal.args == [run]
    actions[last].trigger()
    {"Stop": experiments.stop, "Delete": deleted}.get(last, experiments.dequeue).assert_called_once()


def test_a_run_is_resumed_or_started_from_its_menu_or_says_why_not(
    panel: RunsPanel, qtbot: QtBot, rows: Any, experiments: MagicMock
) -> None:
    for number, words in ((3, "Resume"), (7, "Run")):
        refused = entry(panel, rows.runs[number], words)
        assert not refused.isEnabled() and refused.toolTip() == "Not here."
    experiments.why_not_resumed.return_value = experiments.why_not_started.return_value = None
    with qtbot.waitSignal(panel.resume_requested) as signal:
        entry(panel, rows.runs[5], "Resume").trigger()
    assert signal.args == [rows.runs[5].id]
    entry(panel, rows.runs[7], "Run").trigger()
    experiments.resume_waiting.assert_called_with((rows.runs[7].id,))


def test_the_menu_leads_to_the_sweep_of_a_run(panel: RunsPanel, qtbot: QtBot, rows: Any) -> None:
    run = replace(rows.runs[2], sweep="abc", sweep_name="Batch and rate")
    panel.update_run(run)
    with qtbot.waitSignal(panel.sweep_requested) as signal:
        entry(panel, run, "Show its sweep").trigger()
    assert signal.args == ["abc"]
    assert "Show its sweep" not in [action.text() for action in panel.menu_for(rows.runs[1]).actions()]
    for words in ("sweep:abc", 'sweep:"batch and"'):
        panel.filter.setText(words)
        sweep = panel.model.item("sweep abc")
        assert len(panel.model.found) == 1 and sweep is not None
    menu = panel.item_menu(sweep)
    (rename,) = (action for action in menu.actions() if action.text() == "Rename")
    assert not rename.isEnabled() and "Only runs and comparisons" in rename.toolTip()
    assert entry(panel, run, "Rename").isEnabled()


def test_highlighted_runs_are_dragged_as_ids_and_as_names(panel: RunsPanel) -> None:
    panel.table.selectAll()
    assert panel.table.dragEnabled()
    data = panel.model.mimeData(panel.table.selectionModel().selectedRows())
    assert dropped_runs(data) == tuple(run.id for run in panel.table.highlighted())
    assert data.text().split("\n") == [run.title for run in panel.table.highlighted()]


def test_every_run_can_be_compared_with_a_chosen_run_that_has_results(panel: RunsPanel, rows: Any) -> None:
    for number, figures in ((2, (832.0, 20.0, 0.5, 0.6)), (3, (416.0, 40.0, 0.75, 0.55))):
        names = ("samples_per_second", "step_ms", "final_train_loss", "final_validation_accuracy")
        summary = Summary(**dict(zip(names, figures, strict=True)))
        panel.update_run(replace(rows.runs[number], summary=summary, status=Status.FINISHED))
    unborn = entry(panel, rows.runs[7], "Use as baseline")
    assert not unborn.isEnabled() and unborn.toolTip() == "This run has no results yet."
    entry(panel, rows.runs[2], "Use as baseline").trigger()
    assert [panel.model.heading(column)[0] for column in COMPARED] == [
        *("vs FP16 AMP", "Step vs FP16 AMP", "Peak vs FP16 AMP", "Acc. vs FP16 AMP", "Loss vs FP16 AMP")
    ]
    assert [rows.text(3, column) for column in COMPARED] == ["0.50×", "2.00×", "–", "−5.0", "+0.250"]
    assert rows.text(2, RATIO) == "1.00×" and rows.text(1, PLACES["STEP_RATIO"]) == "–"
    assert "the baseline" in rows.index(2).data(SPOKEN)
    # it holds again once a deleted baseline is back
    for numbers, words in ((range(3, 9), "Ratio"), (range(1, 9), "vs FP16 AMP")):
        panel.set_runs([rows.runs[number] for number in numbers])
        assert panel.model.heading(RATIO)[0] == words
    entry(panel, rows.runs[2], "Clear the baseline").trigger()
    assert panel.model.heading(RATIO)[0] == "Ratio"


def test_metrics_that_count_different_things_are_not_compared(panel: RunsPanel, rows: Any) -> None:
    other = rows.runs[2].experiment.model_copy(update={"batch_size": 128})
    summary = Summary(samples_per_second=100.0, step_ms=20.0)
    panel.update_run(replace(rows.runs[1], summary=summary))
    panel.update_run(replace(rows.runs[2], summary=summary, experiment=other))
    panel.model.set_baseline(rows.runs[1].id)
    assert rows.text(2, RATIO) == "1.00×" and rows.text(2, PLACES["STEP_RATIO"]) == "–"
    assert "count different things" in rows.index(2, PLACES["STEP_RATIO"]).data(TIP)


def test_p_pins_the_highlighted_runs_and_the_menu_too(
    panel: RunsPanel, qtbot: QtBot, rows: Any, experiments: MagicMock
) -> None:
    rows.select(2)
    qtbot.keyClick(panel.table, Qt.Key.Key_P)
    experiments.runs.set_pinned.assert_called_with((rows.runs[2].id,), True)
    pinned = replace(rows.runs[2], is_pinned=True)
    panel.update_run(pinned)
    entry(panel, pinned, "Unpin").trigger()
    experiments.runs.set_pinned.assert_called_with((rows.runs[2].id,), False)


@pytest.fixture
def tagged(panel: RunsPanel, rows: Any) -> tuple[RunRecord, RunRecord]:
    """Runs 1 and 2 with tags, the second with a note."""
    first = replace(rows.runs[1], tags=("paper",))
    second = replace(rows.runs[2], tags=("paper", "figure 2"), note="Clocks were locked.")
    for run in (first, second):
        panel.update_run(run)
    return first, second


def test_tags_have_a_column_and_a_note_is_never_taken_for_markup(
    panel: RunsPanel, rows: Any, tagged: tuple[RunRecord, RunRecord]
) -> None:
    panel.resize(1_400, 320)
    assert not panel.table.isColumnHidden(TAGS) and rows.text(2, TAGS) == "paper, figure 2"
    panel.table.sortByColumn(TAGS, Qt.SortOrder.AscendingOrder)
    assert rows.numbers()[:2] == [1, 2]
    assert rows.index(2).data(TIP).endswith("Tags: paper, figure 2\nClocks were locked.")
    assert "Clocks were locked" in rows.index(2).data(SPOKEN)
    panel.update_run(replace(rows.runs[2], note="<img src=x> " * 1_000))
    tip = rows.index(2).data(TIP)
    assert "&lt;img" in tip and "<img" not in tip and len(tip) < 2_000
    panel.set_runs(rows.runs.values())
    assert panel.table.isColumnHidden(TAGS)


def test_a_click_on_the_sign_of_a_note_opens_it(
    panel: RunsPanel, rows: Any, experiments: MagicMock, tagged: tuple[RunRecord, RunRecord]
) -> None:
    cell = panel.table.visualRect(rows.index(2))
    rows.click(QPoint(cell.right() - 12, cell.center().y()))
    dialog = panel.findChild(TagsDialog)
    assert dialog is not None and dialog.note.toPlainText() == "Clocks were locked."
    dialog.note.setPlainText("Clocks were free.")
    dialog.tags.setText("paper, PAPER,  , figure 3")
    dialog.accept()
    experiments.runs.set_note.assert_called_with(rows.runs[2].id, "Clocks were free.")
    experiments.runs.set_tags.assert_called_with({rows.runs[2].id: ("paper", "figure 3")})


def test_tags_of_several_runs_keep_what_each_has_of_its_own_and_one_too_long_is_refused(
    panel: RunsPanel, experiments: MagicMock, tagged: tuple[RunRecord, RunRecord]
) -> None:
    first, second = tagged
    dialog = panel.edit_tags(tagged)
    assert dialog.tags.text() == "paper"
    dialog.tags.setText("x" * 41)
    dialog.accept()
    experiments.runs.set_tags.assert_not_called()
    assert any("41 characters" in said.text() for said in dialog.findChildren(QLabel))
    assert dialog.isVisible()
    dialog.tags.setText("again")
    dialog.accept()
    experiments.runs.set_tags.assert_called_with({first.id: ("again",), second.id: ("again", "figure 2")})


def test_the_menu_toggles_a_tag_of_all_highlighted_runs(
    panel: RunsPanel, rows: Any, experiments: MagicMock, tagged: tuple[RunRecord, RunRecord]
) -> None:
    def toggle(run: RunRecord, tag: str) -> Any:
        menu = entry(panel, run, "Tags").menu()
        next(action for action in menu.actions() if action.text() == tag).trigger()  # type: ignore[union-attr]
        return experiments.runs.set_tags.call_args[0][0]

    panel.table.selectAll()
    for tag, wanted in (("figure 2", len(rows.runs) - 1), ("paper", len(rows.runs) - 2)):
        assert len(toggle(tagged[0], tag)) == wanted
    panel.table.clearSelection()
    assert toggle(tagged[1], "paper") == {tagged[1].id: ("figure 2",)}
