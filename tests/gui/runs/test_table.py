"""The runs table: every run in one line, sorted, filtered and updated without losing its place."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import product
from typing import Any
from unittest.mock import MagicMock

import pytest
from PySide6.QtCore import QPersistentModelIndex, QPoint, Qt
from PySide6.QtTest import QAbstractItemModelTester
from PySide6.QtWidgets import QAbstractButton, QLineEdit
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment, Precision, Step
from engine.protocol.events import Summary
from engine.store.record import RunRecord, Status
from gui.runs.panel import RunsPanel
from gui.runs.table.columns import Column
from gui.runs.table.line import short_time_text
from tests.gui.runs.conftest import RUNS


def shown(panel: RunsPanel) -> list[str]:
    """The names of all rows, those of runs below an item indented."""
    model = panel.model
    return [
        f"{'  ' if model.is_below(row) else ''}{model.text(row, Column.NAME)}"
        for row in range(model.rowCount())
    ]


def test_the_runs_of_a_comparison_are_below_it_with_what_differs(
    panel: RunsPanel, record: Callable[..., RunRecord]
) -> None:
    pair = [
        replace(record(number, precision), label=label, comparison=comparison, name=f"{name}{label}")
        for number, precision, label, comparison, name in (
            (1, Precision.FP32, "FP32", "a" * 12, ""),
            (2, Precision.BF16, "BF16 AMP", "a" * 12, ""),
            (3, Precision.FP32, "FP32", "b" * 12, "Paper, "),
            (4, Precision.FP16, "FP16 AMP", "b" * 12, "Paper, "),
        )
    ]
    alone = replace(record(5, comparison=None), name="Alone")
    yesterday = replace(record(6, comparison=None), name="Old", started=alone.created - timedelta(days=1))
    panel.set_runs([*pair, alone, yesterday])
    assert shown(panel) == [
        *("Today", "Alone", "Paper", "  FP32", "  FP16 AMP"),
        *("FP32 against BF16 AMP", "  FP32", "  BF16 AMP", "Yesterday", "Old"),
    ]
    panel.table.sortByColumn(Column.NAME, Qt.SortOrder.AscendingOrder)
    assert shown(panel) == ["Alone", "BF16 AMP", "FP32", "Old", "Paper, FP16 AMP", "Paper, FP32"]


def test_what_trains_and_what_waits_stand_on_top(panel: RunsPanel, record: Callable[..., RunRecord]) -> None:
    states = (Status.FINISHED, Status.QUEUED, Status.RUNNING, Status.QUEUED, Status.FINISHED)
    runs = [
        replace(record(number, status=status, comparison=None), name=f"Number {number}")
        for number, status in enumerate(states, 1)
    ]
    panel.set_runs(runs)
    names = ["In progress", *(f"Number {number}" for number in (3, 2, 4)), "Today", "Number 5", "Number 1"]
    assert shown(panel) == names
    rows = [panel.model.row_of(runs[place].id) or 0 for place in (2, 1, 3)]
    assert [panel.model.text(row, Column.WHEN) for row in rows] == ["now", "next", "later"]


def test_an_item_is_closed_and_opened_by_its_chevron_and_by_keys(
    panel: RunsPanel, qtbot: QtBot, rows: Any
) -> None:
    table, model = panel.table, panel.model
    item = model.owner(rows.runs[1].id)
    assert item is not None
    place = model.row_of(item.key)
    assert place is not None
    rect = table.visualRect(model.index(place, Column.NAME))
    rows.click(rect.topLeft() + QPoint(8, rect.height() // 2))
    assert rows.numbers() == [] and model.rowCount() == 2
    table.setCurrentIndex(model.index(place, Column.NAME))
    qtbot.keyClick(table, Qt.Key.Key_Right)
    assert rows.numbers() == [1, 2, 3, 4, 5, 6, 7, 8]
    table.setCurrentIndex(model.index(rows.place(3), Column.NAME))
    qtbot.keyClick(table, Qt.Key.Key_Left)
    assert rows.numbers() == [] and table.currentIndex().row() == place


def test_a_row_tells_its_figures_and_a_missing_one_is_a_dash(
    panel: RunsPanel, rows: Any, record: Callable[..., RunRecord]
) -> None:
    told = {
        Column.NAME: "FP16 AMP, small-cnn, batch 64",
        Column.TAGS: "",
        Column.WHEN: "",
        Column.SPEED: "1,664",
        Column.PEAK: "3.10",
        Column.ACCURACY: "60.0",
        Column.RATIO: "1.89×",
        Column.MODEL: "small-cnn",
        Column.BATCH: "64",
        Column.DATASET: "fashion",
        Column.PRECISION: "FP16 AMP",
        Column.RECIPE: "Plain",
        Column.STATUS: "Finished",
    }
    assert {column: rows.text(2, column) for column in told} == told
    figures = (Column.SPEED, Column.PEAK, Column.ACCURACY, Column.RATIO)
    assert {rows.text(6, figure) for figure in figures} == {"–"}
    # the memory of a small run is not nothing
    for peak_mib, words in ((63.24, "0.06"), (2.0, "0.00195")):
        assert rows.add(record(9, peak_mib=peak_mib), Column.PEAK) == words
    status, tip = panel.model.index(rows.place(4), Column.STATUS), Qt.ItemDataRole.ToolTipRole
    assert status.data() == "Out of memory" and status.data(tip) == "The card is full. Take a smaller batch."
    for is_paused, words in ((True, "Paused"), (False, "Running")):
        panel.set_progress(rows.runs[6].id, 0.5, is_paused)
        assert rows.text(6, Column.STATUS) == words
        panel.table.viewport().grab()


def test_ratios_are_against_the_first_run_of_the_comparison_whatever_comes_later(
    panel: RunsPanel, rows: Any, record: Callable[..., RunRecord]
) -> None:
    for comparison in (None, "c" * 12, "d" * 12):
        panel.update_run(record(9, Precision.FP32, speed=1_663.9, comparison=comparison))
        assert rows.text(1, Column.RATIO) == "1.00×" and rows.text(2, Column.RATIO) == "1.89×"
    other = record(9, Precision.FP16, speed=440.2, batch_size=32)
    assert rows.add(other, Column.RATIO) == "0.50×"
    assert rows.add(other, Column.STEP_RATIO) == "–", "a step of another batch is another step"
    # each repeat is measured against that of its own seed
    again = []
    for number, precision, speed in ((9, Precision.FP32, 100.0), (10, Precision.FP16, 300.0)):
        run = record(number, precision, speed=speed)
        again.append(replace(run, experiment=run.experiment.model_copy(update={"seed": 1})))
    panel.set_runs([*RUNS, *again])
    assert rows.add(again[1], Column.RATIO) == "3.00×"


def test_a_run_of_no_comparison_has_no_baseline_but_a_chosen_one(
    panel: RunsPanel, rows: Any, record: Callable[..., RunRecord]
) -> None:
    alone = record(9, speed=880.4, comparison=None), record(10, Precision.BF16, speed=440.2, comparison=None)
    assert [rows.add(run, Column.RATIO) for run in alone] == ["–", "–"]
    panel.model.set_baseline(rows.runs[1].id)
    assert [rows.add(run, Column.RATIO) for run in alone] == ["1.00×", "0.50×"]


def test_when_is_told_as_short_as_it_can_be(record: Callable[..., RunRecord]) -> None:
    run = record(1)
    now = run.created.astimezone().replace(hour=18)
    assert short_time_text(run.created, now) == "12:01"
    assert short_time_text(run.created, now + timedelta(days=800)) == f"{run.created.astimezone():%b %Y}"


def test_it_sorts_by_every_column_with_missing_figures_last_in_either_order(
    panel: RunsPanel, rows: Any
) -> None:
    for column, order in product(Column, Qt.SortOrder):
        panel.table.sortByColumn(column, order)
        assert sorted(rows.numbers()) == [1, 2, 3, 4, 5, 6, 7, 8], column
    speeds = ["880", "1,664", "1,755"]
    for order, wanted in zip(Qt.SortOrder, (speeds, speeds[::-1]), strict=True):
        panel.table.sortByColumn(Column.SPEED, order)
        assert rows.column(Column.SPEED) == [*wanted, *["–"] * 5]


def test_the_filter_wants_every_word_and_holds_for_what_changes_later(
    panel: RunsPanel, qtbot: QtBot, rows: Any, record: Callable[..., RunRecord]
) -> None:
    panel.table.selectRow(rows.place(2))
    qtbot.keyClicks(panel.filter, "fp16 finished")
    assert rows.numbers() == [2] and [run.number for run in panel.table.highlighted()] == [2]
    panel.filter.setText("tag:nothing")
    assert panel.model.rowCount() == 0 and panel.pages.currentIndex() == 1
    button = next(one for one in panel.findChildren(QAbstractButton) if one.text() == "Show everything")
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert len(rows.numbers()) == len(rows.runs)
    panel.filter.setText("fp16")
    panel.update_run(replace(rows.runs[1], name="Renamed"))
    panel.update_run(record(9, Precision.TF32))
    assert rows.numbers() == [2, 5, 7]
    qtbot.keyClick(panel.filter, Qt.Key.Key_Escape)
    assert panel.filter.text() == ""
    panel.filter.setText("running")
    assert rows.numbers() == [6]
    panel.update_run(replace(rows.runs[6], status=Status.FINISHED))
    assert rows.numbers() == []
    panel.update_run(replace(rows.runs[7], status=Status.RUNNING))
    assert rows.numbers() == [7]


def test_sorting_moves_what_views_remember_when_it_begins(panel: RunsPanel) -> None:
    # two that meet in one cell are taken for one by Qt, and a view that goes later points to nothing
    model = panel.model
    model.sort(Column.SPEED, Qt.SortOrder.AscendingOrder)
    last = model.rowCount() - 1
    hovered, remembered = QPersistentModelIndex(model.index(0, 0)), []
    model.layoutAboutToBeChanged.connect(
        lambda: remembered.append(QPersistentModelIndex(model.index(last, 0)))
    )
    run, other = model.shown[0].key, model.shown[last].key
    model.sort(Column.NAME, Qt.SortOrder.DescendingOrder)
    assert model.shown[hovered.row()].key == run
    assert [model.shown[one.row()].key for one in remembered] == [other]


def test_sorting_keeps_highlights_and_asks_no_cell_for_its_flags(
    panel: RunsPanel, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel.table.sortByColumn(Column.NAME, Qt.SortOrder.AscendingOrder)
    panel.table.selectAll()
    highlighted, asked = {run.id for run in panel.table.highlighted()}, []
    assert len(highlighted) > 3
    flags = panel.model.flags
    monkeypatch.setattr(panel.model, "flags", lambda index: asked.append(index) or flags(index))
    panel.table.sortByColumn(Column.SPEED, Qt.SortOrder.DescendingOrder)
    assert {run.id for run in panel.table.highlighted()} == highlighted
    assert len(asked) < panel.model.rowCount() * panel.model.columnCount() / 2


def test_an_update_keeps_ticks_and_highlights(panel: RunsPanel, qtbot: QtBot, rows: Any) -> None:
    panel.set_checked([rows.runs[1].id, rows.runs[2].id])
    panel.table.selectRow(rows.place(4))
    waited = rows.runs[7]
    begun = replace(waited, status=Status.RUNNING, started=waited.created + timedelta(hours=2))
    with qtbot.assertNotEmitted(panel.model.modelReset):
        panel.update_run(begun)
        panel.set_runs([run for run in rows.runs.values() if run.number != 3])
    assert panel.checked() == (rows.runs[1].id, rows.runs[2].id)
    assert [run.number for run in panel.table.highlighted()] == [4]
    with qtbot.waitSignal(panel.checked_changed) as signal:
        panel.set_runs([run for run in rows.runs.values() if run.number != 2])
    assert signal.args == [(rows.runs[1].id,)], "what is gone is no longer ticked"


def test_a_name_that_is_being_typed_stays_when_other_runs_come_and_go(
    panel: RunsPanel, qtbot: QtBot, rows: Any, record: Callable[..., RunRecord], edits: MagicMock
) -> None:
    panel.table.rename(rows.runs[2].id)
    editor = panel.table.viewport().findChild(QLineEdit)
    editor.setText("A better name")
    panel.update_run(record(9, Precision.TF32))
    panel.set_runs([run for run in rows.runs.values() if run.number != 3])
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: edits.runs.rename.called)
    edits.runs.rename.assert_called_with(rows.runs[2].id, "A better name")


@pytest.mark.slow
def test_random_updates_keep_the_model_sound(
    panel: RunsPanel, rows: Any, record: Callable[..., RunRecord]
) -> None:
    dice = random.Random(0)
    tester = QAbstractItemModelTester(
        panel.model, QAbstractItemModelTester.FailureReportingMode.Warning, panel
    )
    assert tester.model() is panel.model
    for number in range(60):
        run = record(
            dice.randint(1, 15), dice.choice(list(Precision)), dice.choice(list(Status)), speed=number
        )
        panel.update_run(run)
        if number % 10 == 0:
            panel.table.sortByColumn(dice.choice(list(Column)), dice.choice(list(Qt.SortOrder)))
            panel.filter.setText(dice.choice(["", "fp", "queued"]))
        if number % 15 == 0:
            panel.set_runs(rows.runs.values())
    shown = rows.numbers()
    panel.model.sort(*panel.model.sorted_by)
    assert rows.numbers() == shown


FOUR = (Precision.FP32, Precision.TF32, Precision.FP16, Precision.BF16)


@pytest.mark.slow
def test_thousands_of_runs_are_sorted_and_filtered_and_progress_touches_one_row(
    qtbot: QtBot, record: Callable[..., RunRecord]
) -> None:
    runs = [record(number, FOUR[number % 4], speed=float(number * 7 % 1_000)) for number in range(1, 5_001)]
    panel = RunsPanel()
    qtbot.addWidget(panel)
    panel.set_runs(runs)
    assert len(panel.model.found) == 5_000
    panel.filter.setText("bf16")
    assert len(panel.model.found) == 1_250
    panel.filter.clear()
    panel.table.sortByColumn(Column.NAME, Qt.SortOrder.AscendingOrder)

    touched: list[tuple[int, int]] = []
    whole: list[str] = []
    panel.model.dataChanged.connect(lambda first, last, *_: touched.append((first.row(), last.row())))
    panel.model.modelReset.connect(lambda: whole.append("reset"))
    panel.model.layoutChanged.connect(lambda: whole.append("sorted anew"))
    panel.set_progress(runs[-1].id, 0.5)
    row = panel.model.row_of(runs[-1].id)
    assert touched and set(touched) == {(row, row)} and not whole


def test_the_recipe_in_force_is_told_with_what_was_left_out(panel: RunsPanel, rows: Any) -> None:
    run = rows.runs[2]
    asked = run.experiment.model_copy(update={"step": Step(recipe="fast")})
    summary = Summary(recipe="fused+compile", left_out={"capture": "a CPU has no graphs."})
    panel.update_run(replace(run, experiment=asked, summary=summary))
    index = panel.model.index(rows.place(2), Column.RECIPE)
    assert index.data() == "Fast"
    tip = index.data(Qt.ItemDataRole.ToolTipRole)
    assert tip == "Fast\nApplied: Fused optimizer + compiled\nNot applied:\ncapturing: a CPU has no graphs"
    panel.filter.setText("recipe:fast")
    assert 2 in rows.numbers()


def test_the_unit_of_the_speed_is_true_of_every_row(panel: RunsPanel, rows: Any) -> None:
    def heading() -> str:
        return str(panel.model.headerData(Column.SPEED, Qt.Orientation.Horizontal))

    assert heading() == "img/s"
    text = replace(rows.runs[2], experiment=Experiment(model="causal-lm", dataset="python-source"))
    panel.update_run(text)
    assert heading() == "samples/s"
    cell = panel.model.index(rows.place(2), Column.SPEED)
    assert panel.model.data(cell, Qt.ItemDataRole.ToolTipRole) == (
        "1,664 samples/s of 512 tokens each: 851,917 tokens/s"
    )
    panel.set_runs(rows.runs.values())
    assert heading() == "img/s"
