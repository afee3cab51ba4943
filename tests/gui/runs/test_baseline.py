"""A baseline of one's choice, pinned runs, runs in a color of their own, and runs of a sweep."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import MagicMock

from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QLabel, QMenu
from pytestqt.qtbot import QtBot

from engine.protocol.events import Summary
from engine.store.record import RunRecord, Status
from gui.runs.panel import RunsPanel, TagsDialog
from gui.runs.table.columns import COMPARED, Column


def entry(menu: QMenu, words: str) -> Any:
    return next(action for action in menu.actions() if action.text().partition("\t")[0] == words)


def test_every_run_can_be_measured_against_a_chosen_run_that_has_figures(panel: RunsPanel, rows: Any) -> None:
    for number, figures in ((2, (832.0, 20.0, 0.5, 0.6)), (3, (416.0, 40.0, 0.75, 0.55))):
        speed, step_ms, loss, accuracy = figures
        summary = Summary(
            samples_per_second=speed,
            step_ms=step_ms,
            final_train_loss=loss,
            final_validation_accuracy=accuracy,
        )
        panel.update_run(replace(rows.runs[number], summary=summary, status=Status.FINISHED))
    unborn = entry(panel.menu_for(rows.runs[7]), "Use as baseline")
    assert not unborn.isEnabled() and unborn.toolTip() == "This run has no results yet."
    entry(panel.menu_for(rows.runs[2]), "Use as baseline").trigger()
    assert [panel.model.heading(column)[0] for column in COMPARED] == [
        *("vs FP16 AMP", "Step vs FP16 AMP", "Peak vs FP16 AMP", "Acc. vs FP16 AMP", "Loss vs FP16 AMP")
    ]
    assert [rows.text(3, column) for column in COMPARED] == ["0.50×", "2.00×", "–", "−5.0", "+0.250"]
    assert rows.text(2, Column.RATIO) == "1.00×" and rows.text(1, Column.STEP_RATIO) == "–"
    name = panel.model.index(rows.place(2), Column.NAME)
    assert "the baseline" in panel.model.data(name, Qt.ItemDataRole.AccessibleTextRole)
    # it holds again once a deleted baseline is back
    for numbers, words in ((range(3, 9), "Ratio"), (range(1, 9), "vs FP16 AMP")):
        panel.set_runs([rows.runs[number] for number in numbers])
        assert panel.model.heading(Column.RATIO)[0] == words
    entry(panel.menu_for(rows.runs[2]), "Clear the baseline").trigger()
    assert panel.model.heading(Column.RATIO)[0] == "Ratio"


def test_figures_that_count_different_things_are_not_compared(panel: RunsPanel, rows: Any) -> None:
    other = rows.runs[2].experiment.model_copy(update={"batch_size": 128})
    summary = Summary(samples_per_second=100.0, step_ms=20.0)
    panel.update_run(replace(rows.runs[1], summary=summary))
    panel.update_run(replace(rows.runs[2], summary=summary, experiment=other))
    panel.model.set_baseline(rows.runs[1].id)
    assert rows.text(2, Column.RATIO) == "1.00×" and rows.text(2, Column.STEP_RATIO) == "–"
    tip = panel.model.index(rows.place(2), Column.STEP_RATIO).data(Qt.ItemDataRole.ToolTipRole)
    assert "count different things" in tip


def test_pinned_runs_are_on_top_however_the_table_is_sorted(panel: RunsPanel, rows: Any) -> None:
    for number, run in rows.runs.items():
        panel.update_run(replace(run, name=f"Number {number}", is_pinned=number in (2, 5)))
    for order, first in zip(Qt.SortOrder, ([2, 5, 1], [5, 2, 8]), strict=True):
        panel.table.sortByColumn(Column.NAME, order)
        assert rows.numbers()[:3] == first


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
    dialog = panel.findChild(TagsDialog)
    assert dialog is not None and dialog.note.toPlainText() == "Clocks were locked."
    dialog.note.setPlainText("Clocks were free.")
    dialog.tags.setText("paper, PAPER,  , figure 3")
    dialog.accept()
    edits.runs.set_note.assert_called_with(rows.runs[2].id, "Clocks were free.")
    edits.runs.set_tags.assert_called_with({rows.runs[2].id: ("paper", "figure 3")})


def test_tags_of_several_runs_keep_what_each_has_of_its_own_and_one_too_long_is_refused(
    panel: RunsPanel, rows: Any, edits: MagicMock
) -> None:
    first, second = tagged(panel, rows)
    dialog = panel.edit_tags((first, second))
    assert dialog.tags.text() == "paper"
    dialog.tags.setText("x" * 41)
    dialog.accept()
    edits.runs.set_tags.assert_not_called()
    assert any("41 characters" in said.text() for said in dialog.findChildren(QLabel))
    assert dialog.isVisible()
    dialog.tags.setText("again")
    dialog.accept()
    edits.runs.set_tags.assert_called_with({first.id: ("again",), second.id: ("again", "figure 2")})


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
