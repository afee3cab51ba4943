"""The list of results: comparisons with their runs, sorted, filtered and updated in place."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import product
from typing import Any
from unittest.mock import MagicMock

import pytest
from PySide6.QtCore import QModelIndex, QPoint, QRect, Qt
from PySide6.QtTest import QAbstractItemModelTester
from PySide6.QtWidgets import QAbstractButton, QAbstractItemView, QLineEdit
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment, Precision, Step
from engine.protocol.events import Summary
from engine.store.record import RunRecord, Status
from gui.runs.panel import RunsPanel
from gui.runs.table.columns import COLUMNS, NAME, PLACES, RATIO, STATUS, THROUGHPUT, TICK, WHEN
from gui.runs.table.rows import short_time_text
from gui.theme.theme import theme
from tests.gui.runs.conftest import RUNS

TIP, SPOKEN = Qt.ItemDataRole.ToolTipRole, Qt.ItemDataRole.AccessibleTextRole


def shown(panel: RunsPanel, parent: QModelIndex | None = None) -> list[str]:
    """The names of all rows, those of runs below an item indented."""
    model, found = panel.model, []
    for place in range(model.rowCount(parent or QModelIndex())):
        index = model.index(place, NAME, parent or QModelIndex())
        found += [str(index.data()), *(f"  {name}" for name in shown(panel, index))]
    return found


def test_the_runs_of_a_comparison_are_below_it_and_each_names_precision_model_and_batch(
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
    named = ("Alone, FP32, small-cnn, 64", "Old, FP32, small-cnn, 64")
    fp32, fp16, bf16 = (f"{name}, small-cnn, 64" for name in ("FP32", "FP16 AMP", "BF16 AMP"))
    assert shown(panel) == [
        *("Today", named[0], "Paper, small-cnn, 64", f"  {fp32}", f"  {fp16}"),
        *("FP32 and BF16 AMP, small-cnn, 64", f"  {fp32}", f"  {bf16}", "Yesterday", named[1]),
    ]
    panel.table.sortByColumn(NAME, Qt.SortOrder.AscendingOrder)
    assert shown(panel) == [named[0], bf16, fp16, fp32, fp32, named[1]]


def test_what_trains_and_what_waits_stand_on_top(panel: RunsPanel, record: Callable[..., RunRecord]) -> None:
    states = (Status.FINISHED, Status.QUEUED, Status.RUNNING, Status.QUEUED, Status.FINISHED)
    runs = [
        replace(record(number, status=status, comparison=None), name=f"Number {number}")
        for number, status in enumerate(states, 1)
    ]
    panel.set_runs(runs)
    assert [name.split(",")[0] for name in shown(panel)] == [
        *("In progress", "Number 3", "Number 2", "Number 4", "Today", "Number 5", "Number 1")
    ]
    cells = [panel.model.index_of(runs[place].id, WHEN).data() for place in (2, 1, 3)]
    assert cells == ["now", "next", "later"]


def test_an_item_is_closed_and_opened_by_its_chevron_and_by_keys_and_stays_so(
    panel: RunsPanel, qtbot: QtBot, rows: Any
) -> None:
    table, model = panel.table, panel.model
    index = rows.index(1).parent()
    rect = table.visualRect(index)
    rows.click(QPoint(rect.left() - 12, rect.center().y()))
    assert rows.numbers() == [] and model.rowCount(index) == 8
    panel.filter.setText("fp16")
    panel.filter.clear()
    assert rows.numbers() == []
    table.setCurrentIndex(rows.index(1).parent())
    qtbot.keyClick(table, Qt.Key.Key_Right)
    assert rows.numbers() == [1, 2, 3, 4, 5, 6, 7, 8]
    rows.select(3)
    qtbot.keyClick(table, Qt.Key.Key_Left)
    qtbot.keyClick(table, Qt.Key.Key_Left)
    assert rows.numbers() == [] and table.currentIndex() == rows.index(1).parent()


def test_typing_finds_a_row(panel: RunsPanel, qtbot: QtBot, rows: Any) -> None:
    rows.select(1)
    qtbot.keyClicks(panel.table, "bf")
    assert panel.table.currentIndex() == rows.index(4)


def test_a_row_has_its_metrics_and_a_missing_one_is_a_dash(
    panel: RunsPanel, rows: Any, record: Callable[..., RunRecord]
) -> None:
    told = {
        "NAME": "FP16 AMP, small-cnn, 64",
        "TAGS": "",
        "WHEN": "",
        "SPEED": "1,664",
        "PEAK": "3.10",
        "ACCURACY": "60.0",
        "RATIO": "1.89×",
        "MODEL": "small-cnn",
        "BATCH": "64",
        "DATASET": "fashion",
        "PRECISION": "FP16 AMP",
        "RECIPE": "Plain",
        "STATUS": "Finished",
    }
    assert {name: rows.text(2, PLACES[name]) for name in told} == told
    assert {rows.text(6, PLACES[name]) for name in ("SPEED", "PEAK", "ACCURACY", "RATIO")} == {"–"}
    # the memory of a small run is not nothing
    for peak_mib, words in ((63.24, "0.06"), (2.0, "0.00195")):
        assert rows.add(record(9, peak_mib=peak_mib), PLACES["PEAK"]) == words
    status = rows.index(4, STATUS)
    assert status.data() == "Out of memory" and status.data(TIP) == "The card is full. Take a smaller batch."
    for is_paused, words in ((True, "Paused"), (False, "Running")):
        panel.set_progress(rows.runs[6].id, 0.5, is_paused)
        assert rows.text(6, STATUS) == words


def test_ratios_are_against_the_first_run_of_the_comparison_or_a_chosen_one(
    panel: RunsPanel, rows: Any, record: Callable[..., RunRecord]
) -> None:
    for comparison in (None, "c" * 12, "d" * 12):
        panel.update_run(record(9, Precision.FP32, speed=1_663.9, comparison=comparison))
        assert rows.text(1, RATIO) == "1.00×" and rows.text(2, RATIO) == "1.89×"
    other = record(9, Precision.FP16, speed=440.2, batch_size=32)
    assert rows.add(other, RATIO) == "0.50×"
    assert rows.add(other, PLACES["STEP_RATIO"]) == "–", "a step of another batch is another step"
    # each repeat is measured against that of its own seed
    again = []
    for number, precision, speed in ((9, Precision.FP32, 100.0), (10, Precision.FP16, 300.0)):
        run = record(number, precision, speed=speed)
        again.append(replace(run, experiment=run.experiment.model_copy(update={"seed": 1})))
    panel.set_runs([*RUNS, *again])
    assert rows.add(again[1], RATIO) == "3.00×"
    alone = record(11, speed=880.4, comparison=None), record(12, Precision.BF16, speed=440.2, comparison=None)
    assert [rows.add(run, RATIO) for run in alone] == ["–", "–"]
    panel.model.set_baseline(rows.runs[1].id)
    assert [rows.add(run, RATIO) for run in alone] == ["1.00×", "0.50×"]


def test_a_time_is_as_short_as_it_can_be(record: Callable[..., RunRecord]) -> None:
    run = record(1)
    now = run.created.astimezone().replace(hour=18)
    assert short_time_text(run.created, now) == "12:01"
    assert short_time_text(run.created, now + timedelta(days=800)) == f"{run.created.astimezone():%b %Y}"


def test_it_sorts_by_every_column_with_missing_metrics_last_and_pinned_runs_first(
    panel: RunsPanel, rows: Any
) -> None:
    for column, order in product(range(len(COLUMNS)), Qt.SortOrder):
        panel.table.sortByColumn(column, order)
        assert sorted(rows.numbers()) == [1, 2, 3, 4, 5, 6, 7, 8], column
    speeds = ["880", "1,664", "1,755"]
    for order, wanted in zip(Qt.SortOrder, (speeds, speeds[::-1]), strict=True):
        panel.table.sortByColumn(THROUGHPUT, order)
        assert rows.column(THROUGHPUT) == [*wanted, *["–"] * 5]
    for number, run in rows.runs.items():
        panel.update_run(replace(run, name=f"Number {number}", is_pinned=number in (2, 5)))
    for order, first in zip(Qt.SortOrder, ([2, 5, 1], [5, 2, 8]), strict=True):
        panel.table.sortByColumn(NAME, order)
        assert rows.numbers()[:3] == first


def test_the_filter_holds_for_what_changes_later_and_the_foot_counts(
    panel: RunsPanel, qtbot: QtBot, rows: Any, record: Callable[..., RunRecord]
) -> None:
    rows.select(2)
    assert panel.foot.words.whole_text() == "8 runs"
    qtbot.keyClicks(panel.filter, "fp16 finished")
    assert rows.numbers() == [2] and [run.number for run in panel.table.highlighted()] == [2]
    assert panel.foot.words.whole_text() == "1 of 8 runs"
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
    for number, status, left in (
        (6, Status.RUNNING, [6]),
        (6, Status.FINISHED, []),
        (7, Status.RUNNING, [7]),
    ):
        panel.update_run(replace(rows.runs[number], status=status))
        assert rows.numbers() == left


@pytest.mark.parametrize("column", [WHEN, NAME])
def test_rows_come_go_and_move_without_losing_highlights_ticks_or_a_name_being_typed(
    panel: RunsPanel,
    qtbot: QtBot,
    rows: Any,
    record: Callable[..., RunRecord],
    experiments: MagicMock,
    column: int,
) -> None:
    panel.table.sortByColumn(column, Qt.SortOrder.AscendingOrder)
    panel.set_checked([rows.runs[1].id, rows.runs[2].id])
    rows.select(2)
    panel.table.rename(rows.runs[2].id)
    editor = panel.table.viewport().findChild(QLineEdit)
    assert editor is not None and editor.accessibleName() == "Name"
    editor.setText("A better name")
    waited = rows.runs[7]
    panel.update_run(record(9, Precision.TF32))
    panel.update_run(replace(waited, status=Status.RUNNING, started=waited.created + timedelta(hours=2)))
    panel.set_runs([run for run in rows.runs.values() if run.number != 3])
    assert [run.number for run in panel.table.highlighted()] == [2]
    opened: list[str] = []
    panel.open_requested.connect(opened.append)
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: experiments.runs.rename.called)
    experiments.runs.rename.assert_called_with(rows.runs[2].id, "A better name")
    assert not opened, "the Return that ends the editing is not one that opens the run"
    with qtbot.waitSignal(panel.checked_changed) as signal:
        panel.set_runs([run for run in rows.runs.values() if run.number != 2])
    assert signal.args == [(rows.runs[1].id,)], "what is gone is no longer ticked"


def test_sorting_keeps_highlights_and_asks_no_cell_for_its_flags(
    panel: RunsPanel, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel.table.sortByColumn(NAME, Qt.SortOrder.AscendingOrder)
    panel.table.selectAll()
    highlighted, asked = {run.id for run in panel.table.highlighted()}, []
    assert len(highlighted) > 3
    flags = panel.model.flags
    monkeypatch.setattr(panel.model, "flags", lambda index: asked.append(index) or flags(index))
    panel.table.sortByColumn(THROUGHPUT, Qt.SortOrder.DescendingOrder)
    assert {run.id for run in panel.table.highlighted()} == highlighted
    assert len(asked) < panel.model.rowCount() * panel.model.columnCount() / 2


@pytest.mark.slow
def test_random_updates_keep_the_model_sound(
    panel: RunsPanel, rows: Any, record: Callable[..., RunRecord]
) -> None:
    dice = random.Random(0)
    tester = QAbstractItemModelTester(panel.model, QAbstractItemModelTester.FailureReportingMode.Fatal)
    for _ in range(150):
        number, status = dice.randint(1, 12), dice.choice(list(Status))
        what = dice.randrange(5)
        if what == 0:
            panel.update_run(record(number, dice.choice(list(Precision)), status, speed=dice.random()))
        elif what == 1:
            panel.table.sortByColumn(dice.randrange(len(COLUMNS)), dice.choice(list(Qt.SortOrder)))
        elif what == 2:
            panel.filter.setText(dice.choice(["", "fp16", "finished", "tag:none"]))
        elif what == 3:
            panel.table.selectAll() if dice.random() < 0.5 else panel.table.clearSelection()
        else:
            lines = [line.run for line in panel.model.lines.values()]
            panel.set_runs(dice.sample(lines, k=dice.randint(0, len(lines))))
    assert tester.model() is panel.model
    panel.filter.clear()
    panel.set_runs(rows.runs.values())
    order = rows.numbers()
    panel.model.sort(*panel.model.sorted_by)
    assert rows.numbers() == order and sorted(order) == list(rows.runs)


@pytest.mark.slow
def test_thousands_of_runs_are_filtered_and_progress_touches_one_row(
    qtbot: QtBot, record: Callable[..., RunRecord]
) -> None:
    four = (Precision.FP32, Precision.TF32, Precision.FP16, Precision.BF16)
    runs = [record(number, four[number % 4], speed=float(number * 7 % 1_000)) for number in range(1, 5_001)]
    panel = RunsPanel()
    qtbot.addWidget(panel)
    panel.set_runs(runs)
    assert len(panel.model.found) == 5_000
    panel.filter.setText("bf16")
    assert len(panel.model.found) == 1_250
    panel.filter.clear()
    panel.table.sortByColumn(NAME, Qt.SortOrder.AscendingOrder)
    touched: list[tuple[int, int]] = []
    moved: list[str] = []
    panel.model.dataChanged.connect(lambda first, last, *_: touched.append((first.row(), last.row())))
    panel.model.layoutChanged.connect(lambda *_: moved.append("sorted again"))
    panel.set_progress(runs[-1].id, 0.5)
    row = panel.model.index_of(runs[-1].id).row()
    assert touched and set(touched) == {(row, row)} and not moved


def test_the_recipe_that_was_applied_is_in_the_tip(panel: RunsPanel, rows: Any) -> None:
    run = rows.runs[2]
    asked = run.experiment.model_copy(update={"step": Step(recipe="fast")})
    summary = Summary(recipe="fused+compile", left_out={"capture": "a CPU has no graphs."})
    panel.update_run(replace(run, experiment=asked, summary=summary))
    index = rows.index(2, PLACES["RECIPE"])
    wanted = "Fast\nApplied: Fused optimizer + compiled\nNot applied:\ncapturing: a CPU has no graphs"
    assert (index.data(), index.data(TIP)) == ("Fast", wanted)
    panel.filter.setText("recipe:fast")
    assert 2 in rows.numbers()


def test_the_unit_of_the_speed_is_true_of_every_row(panel: RunsPanel, rows: Any) -> None:
    headings = []
    text = replace(rows.runs[2], experiment=Experiment(model="causal-lm", dataset="python-source"))
    for runs in (RUNS, [RUNS[0], text], RUNS):
        panel.set_runs(runs)
        headings.append(panel.model.headerData(THROUGHPUT, Qt.Orientation.Horizontal))
        if text in runs:
            tip = "1,664 samples/s of 512 tokens each: 851,917 tokens/s"
            assert rows.index(2, THROUGHPUT).data(TIP) == tip
    assert headings == ["img/s", "samples/s", "img/s"]


@pytest.mark.parametrize("width", [1_120, 780, 420])
def test_every_state_is_painted_in_both_themes_and_no_percentage_lies_on_the_stop_button(
    panel: RunsPanel, width: int, rows: Any
) -> None:
    panel.set_checked([rows.runs[1].id])
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
        picture, ticked = panel.table.viewport().grab().toImage(), rows.cell(1, NAME)
        assert picture.pixelColor(4, ticked.y()).name().upper() == theme().palette.bg2


def test_a_row_of_two_that_differ_at_their_end_differs_in_a_narrow_table(panel: RunsPanel, rows: Any) -> None:
    panel.resize(320, 700)
    drawn = []
    for label in ("FP16 AMP", "BF16 AMP"):
        name = f"One that you showed me of all the many on this long afternoon, {label}"
        panel.update_run(replace(rows.runs[2], name=name, label=label, comparison=None))
        drawn.append(panel.table.viewport().grab(panel.table.visualRect(rows.index(2))).toImage())
    assert drawn[0] != drawn[1]


def test_every_control_has_a_name_and_a_tip_and_every_cell_can_be_read_aloud(
    panel: RunsPanel, rows: Any
) -> None:
    kinds = (QAbstractButton, QLineEdit, QAbstractItemView)
    controls = [widget for kind in kinds for widget in panel.findChildren(kind)]
    assert len(controls) > 5
    for control in controls:
        assert control.accessibleName(), control
        assert control.toolTip(), (control, control.accessibleName())
    for number, column in product(rows.runs, range(len(COLUMNS))):
        assert rows.index(number, column).data(SPOKEN)
    assert rows.index(2, TICK).data(SPOKEN) == "FP16 AMP, small-cnn, batch 64, not selected"


def test_an_empty_table_gives_way_to_the_welcome(qtbot: QtBot) -> None:
    qtbot.addWidget(empty := RunsPanel())
    assert empty.pages.currentIndex() == 1
    empty.update_run(RUNS[0])
    assert empty.pages.currentIndex() == 0
