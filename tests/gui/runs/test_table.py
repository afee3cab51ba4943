"""The runs table: every run in one line, sorted, filtered and updated without losing one's place."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from PySide6.QtCore import QAbstractTableModel, QEvent, QPersistentModelIndex, QPoint, Qt
from PySide6.QtGui import QAction, QFontMetrics, QHelpEvent
from PySide6.QtTest import QAbstractItemModelTester
from PySide6.QtWidgets import QAbstractButton, QAbstractItemView, QApplication, QLabel, QLineEdit, QToolTip
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment, Precision, Step
from engine.experiment.problem import Kind, Problem
from engine.protocol.events import Environment, Summary
from engine.store.record import RunRecord, Status
from gui.runs.line import Column, dropped_runs, when_words
from gui.runs.marks import MarksDialog
from gui.runs.model import RunsModel
from gui.runs.panel import RunsPanel
from gui.runs.table import drag_pixmap
from gui.theme.fonts import font
from gui.theme.theme import theme

# the offscreen platform says so whenever a window or a popup is shown
pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

NOON = datetime.now().astimezone().replace(hour=12, minute=0, second=0, microsecond=0).astimezone(UTC)
ENVIRONMENT = Environment(
    device_name="A card", device_memory_mib=24_576, torch="2.11", python="3.12", os="Linux", ammeter="0.1"
)


def record(
    number: int,
    precision: Precision = Precision.FP32,
    status: Status = Status.FINISHED,
    *,
    speed: float | None = None,
    peak_mib: float | None = None,
    accuracy: float | None = None,
    batch_size: int = 64,
    problem: Problem | None = None,
) -> RunRecord:
    begun = NOON + timedelta(minutes=number)
    summary = Summary(
        samples_per_second=speed, peak_allocated_mib=peak_mib, final_validation_accuracy=accuracy
    )
    return RunRecord(
        id=f"{number:012x}",
        number=number,
        name=f"Run {number}",
        status=status,
        created=begun,
        started=None if status is Status.QUEUED else begun,
        ended=None,
        experiment=Experiment(precision=precision, batch_size=batch_size),
        environment=ENVIRONMENT,
        summary=summary if status.is_over else None,
        problem=problem,
        detail="",
        comparison=None,
        label=None,
        total_steps=200,
    )


FOUR = (Precision.FP32, Precision.TF32, Precision.FP16, Precision.BF16)
FAULT = Problem(kind=Kind.OUT_OF_MEMORY, message="The card is full.", remedy="Take a smaller batch.")
RUNS = (
    record(1, Precision.FP32, speed=880.4, peak_mib=10_240, accuracy=0.613),
    record(2, Precision.FP16, speed=1_663.9, peak_mib=3_174, accuracy=0.6),
    record(3, Precision.TF32, Status.STOPPED, speed=1_755.0),
    record(4, Precision.BF16, Status.FAILED, problem=FAULT, batch_size=1_024),
    record(5, Precision.FP16, Status.INTERRUPTED),
    record(6, Precision.FP32, Status.RUNNING),
    record(7, Precision.FP16, Status.QUEUED),
    record(8, Precision.BF16, Status.QUEUED),
)
BY_NUMBER = {run.number: run for run in RUNS}


@pytest.fixture
def panel(qtbot: QtBot) -> RunsPanel:
    theme()
    panel = RunsPanel()
    qtbot.addWidget(panel)
    panel.set_runs(RUNS)
    panel.resize(1_120, 320)
    with qtbot.waitExposed(panel):
        panel.show()
    return panel


def column(model: RunsModel, wanted: Column) -> list[str]:
    return [model.text(row, wanted) for row in range(model.rowCount())]


def numbers(model: RunsModel) -> list[int]:
    return [model.run(row).number for row in range(model.rowCount())]


def row_of(panel: RunsPanel, number: int) -> int:
    row = panel.model.row_of(BY_NUMBER[number].id)
    assert row is not None
    return row


def cell(panel: RunsPanel, number: int, wanted: Column) -> QPoint:
    return panel.table.visualRect(panel.model.index(row_of(panel, number), wanted)).center()


def button_place(panel: RunsPanel, number: int) -> QPoint:
    rect = panel.table.visualRect(panel.model.index(row_of(panel, number), Column.STATUS))
    return QPoint(rect.right() - 20, rect.center().y())


def click(qtbot: QtBot, panel: RunsPanel, place: QPoint) -> None:
    qtbot.mouseClick(panel.table.viewport(), Qt.MouseButton.LeftButton, pos=place)


def test_what_trains_and_the_queue_stand_on_top_of_what_is_over(panel: RunsPanel) -> None:
    assert numbers(panel.model) == [6, 7, 8, 5, 4, 3, 2, 1]
    assert column(panel.model, Column.WHEN)[:3] == ["now", "next", "later"]


def test_a_row_tells_its_figures_and_a_missing_one_is_a_dash(panel: RunsPanel) -> None:
    cells = [panel.model.text(row_of(panel, 2), Column(place)) for place in Column]
    assert cells[Column.NAME :] == [
        *("Run 2", "", "12:02", "small-cnn", "fashion", "FP16 AMP"),
        *("Plain", "64", "1,664", "3.10", "60.0", "1.89×", "Finished"),
    ]
    figures = (Column.SPEED, Column.PEAK, Column.ACCURACY, Column.RATIO)
    assert {panel.model.text(row_of(panel, 6), figure) for figure in figures} == {"–"}


def test_the_baseline_itself_is_one_and_other_settings_have_none(panel: RunsPanel) -> None:
    panel.update_run(record(9, Precision.FP16, speed=500.0, batch_size=32))
    assert panel.model.text(row_of(panel, 1), Column.RATIO) == "1.00×"
    assert panel.model.text(numbers(panel.model).index(9), Column.RATIO) == "–"


def test_a_new_baseline_changes_the_ratios(panel: RunsPanel) -> None:
    panel.update_run(record(9, Precision.FP32, speed=1_663.9))
    assert panel.model.text(row_of(panel, 2), Column.RATIO) == "1.00×"


def test_when_is_told_as_short_as_it_can_be() -> None:
    run = record(1)
    now = run.created.astimezone().replace(hour=18)
    assert when_words(run, now) == "12:01"
    assert when_words(run, now + timedelta(days=800)) == f"{run.created.astimezone():%b %Y}"


@pytest.mark.parametrize("wanted", list(Column))
@pytest.mark.parametrize("order", list(Qt.SortOrder))
def test_it_sorts_by_every_column(panel: RunsPanel, wanted: Column, order: Qt.SortOrder) -> None:
    panel.table.sortByColumn(wanted, order)
    assert sorted(numbers(panel.model)) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_sorting_moves_what_views_remember_when_it_begins(panel: RunsPanel) -> None:
    # two that meet in one cell are taken for one by Qt, and a view that goes later points to nothing
    model = panel.model
    model.sort(Column.WHEN, Qt.SortOrder.AscendingOrder)
    last = model.rowCount() - 1
    hovered, remembered = QPersistentModelIndex(model.index(0, 0)), []
    model.layoutAboutToBeChanged.connect(
        lambda: remembered.append(QPersistentModelIndex(model.index(last, 0)))
    )
    run, other = model.run(0).id, model.run(last).id
    model.sort(Column.NAME, Qt.SortOrder.DescendingOrder)
    assert model.run(hovered.row()).id == run
    assert [model.run(one.row()).id for one in remembered] == [other]


@pytest.mark.parametrize(
    ("order", "speeds"),
    [
        (Qt.SortOrder.AscendingOrder, ["880", "1,664", "1,755"]),
        (Qt.SortOrder.DescendingOrder, ["1,755", "1,664", "880"]),
    ],
)
def test_runs_without_a_figure_are_last_in_either_order(
    panel: RunsPanel, order: Qt.SortOrder, speeds: list[str]
) -> None:
    panel.table.sortByColumn(Column.SPEED, order)
    assert column(panel.model, Column.SPEED) == [*speeds, *["–"] * 5]


def test_the_filter_wants_every_word(panel: RunsPanel, qtbot: QtBot) -> None:
    qtbot.keyClicks(panel.filter, "fp16 finished")
    assert numbers(panel.model) == [2]
    panel.filter.setText("nothing like it")
    assert panel.model.rowCount() == 0
    assert panel.pages.currentIndex() == 1
    panel.filter.clear()
    assert panel.model.rowCount() == 8


def test_a_filtered_update_keeps_hidden_runs_hidden(panel: RunsPanel) -> None:
    panel.filter.setText("fp16")
    panel.update_run(replace(BY_NUMBER[1], name="Renamed"))
    panel.update_run(record(9, Precision.TF32))
    assert numbers(panel.model) == [7, 5, 2]


def test_an_update_that_no_longer_matches_leaves_the_table(panel: RunsPanel) -> None:
    panel.filter.setText("running")
    assert numbers(panel.model) == [6]
    panel.update_run(replace(BY_NUMBER[6], status=Status.FINISHED))
    assert numbers(panel.model) == []
    panel.update_run(replace(BY_NUMBER[7], status=Status.RUNNING))
    assert numbers(panel.model) == [7]


def test_progress_touches_one_cell(panel: RunsPanel, qtbot: QtBot) -> None:
    with qtbot.waitSignal(panel.model.dataChanged) as signal, qtbot.assertNotEmitted(panel.model.modelReset):
        panel.set_progress(BY_NUMBER[6].id, 0.63)
    assert [(index.row(), index.column()) for index in signal.args[:2]] == [(0, Column.STATUS)] * 2
    assert panel.model.progress(0) == 0.63


def test_an_update_keeps_ticks_and_highlights(panel: RunsPanel, qtbot: QtBot) -> None:
    panel.set_checked([BY_NUMBER[1].id, BY_NUMBER[2].id])
    panel.table.selectRow(row_of(panel, 4))
    with qtbot.assertNotEmitted(panel.model.modelReset):
        panel.update_run(replace(BY_NUMBER[7], status=Status.RUNNING, started=NOON + timedelta(hours=2)))
        panel.set_runs([run for run in RUNS if run.number != 3])
    assert panel.checked() == (BY_NUMBER[1].id, BY_NUMBER[2].id)
    assert [run.number for run in panel.table.highlighted()] == [4]


def test_a_ticked_run_that_is_gone_is_no_longer_ticked(panel: RunsPanel, qtbot: QtBot) -> None:
    panel.set_checked([BY_NUMBER[1].id, BY_NUMBER[2].id])
    with qtbot.waitSignal(panel.checked_changed) as signal:
        panel.set_runs([run for run in RUNS if run.number != 2])
    assert signal.args == [(BY_NUMBER[1].id,)]


def test_random_updates_keep_the_model_sound(panel: RunsPanel) -> None:
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
            panel.set_runs(RUNS)
    shown = numbers(panel.model)
    panel.model.sort(*panel.model.sorted_by)
    assert numbers(panel.model) == shown


def test_thousands_of_runs_are_sorted_and_filtered_and_progress_touches_one_row(qtbot: QtBot) -> None:
    runs = [record(number, FOUR[number % 4], speed=float(number * 7 % 1_000)) for number in range(1, 5_001)]
    panel = RunsPanel()
    qtbot.addWidget(panel)
    panel.set_runs(runs)
    assert panel.model.rowCount() == 5_000
    panel.filter.setText("bf16")
    assert panel.model.rowCount() == 1_250
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


def test_a_click_ticks_and_two_ticks_can_be_compared(panel: RunsPanel, qtbot: QtBot) -> None:
    compare = next(button for button in panel.findChildren(QAbstractButton) if button.text() == "Compare")
    assert not compare.isEnabled()
    for number in (2, 1):
        click(qtbot, panel, cell(panel, number, Column.TICK))
    assert compare.isEnabled()
    with qtbot.waitSignal(panel.compare_requested) as signal:
        compare.click()
    assert signal.args == [(BY_NUMBER[1].id, BY_NUMBER[2].id)]


def test_a_run_that_waits_cannot_be_ticked(panel: RunsPanel, qtbot: QtBot) -> None:
    click(qtbot, panel, cell(panel, 7, Column.TICK))
    assert panel.checked() == ()


def test_space_ticks_the_highlighted_rows(panel: RunsPanel, qtbot: QtBot) -> None:
    for number in (1, 2):
        panel.table.selectRow(row_of(panel, number))
        qtbot.keyClick(panel.table, Qt.Key.Key_Space)
    assert panel.checked() == (BY_NUMBER[1].id, BY_NUMBER[2].id)
    panel.table.selectRow(row_of(panel, 7))
    qtbot.keyClick(panel.table, Qt.Key.Key_Space)
    assert BY_NUMBER[7].id not in panel.checked()


def test_the_running_row_stops_and_a_queued_row_is_taken_out(panel: RunsPanel, qtbot: QtBot) -> None:
    with qtbot.waitSignal(panel.stop_requested):
        click(qtbot, panel, button_place(panel, 6))
    with qtbot.waitSignal(panel.take_out_requested) as signal:
        click(qtbot, panel, button_place(panel, 8))
    assert signal.args == [BY_NUMBER[8].id]


def test_delete_asks_for_what_is_over_and_takes_out_what_waits(panel: RunsPanel, qtbot: QtBot) -> None:
    panel.table.selectAll()
    taken_out: list[str] = []
    panel.take_out_requested.connect(taken_out.append)
    with qtbot.waitSignal(panel.delete_requested) as signal:
        qtbot.keyClick(panel.table, Qt.Key.Key_Delete)
    assert set(signal.args[0]) == {BY_NUMBER[number].id for number in (1, 2, 3, 4, 5)}
    assert taken_out == [BY_NUMBER[7].id, BY_NUMBER[8].id]


def test_a_name_is_edited_in_its_cell(panel: RunsPanel, qtbot: QtBot) -> None:
    panel.table.selectRow(row_of(panel, 2))
    qtbot.keyClick(panel.table, Qt.Key.Key_F2)
    editor = panel.table.viewport().findChild(QLineEdit)
    assert editor is not None
    assert editor.accessibleName() == "Name of the run"
    editor.setText("Best so far")
    opened: list[str] = []
    panel.open_requested.connect(opened.append)
    with qtbot.waitSignal(panel.rename_requested) as signal:
        qtbot.keyClick(editor, Qt.Key.Key_Return)
    assert signal.args == [BY_NUMBER[2], "Best so far"]
    assert not opened, "the Return that ends the editing is not one that opens the run"


def test_a_double_click_shows_the_curves(panel: RunsPanel, qtbot: QtBot) -> None:
    place = cell(panel, 3, Column.MODEL)
    click(qtbot, panel, place)
    with qtbot.waitSignal(panel.open_requested) as signal:
        qtbot.mouseDClick(panel.table.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert signal.args == [BY_NUMBER[3].id]


@pytest.mark.parametrize("number", range(1, 9))
def test_the_menu_offers_what_the_run_allows(panel: RunsPanel, qtbot: QtBot, number: int) -> None:
    run = BY_NUMBER[number]
    panel.table.selectRow(row_of(panel, number))
    actions = {action.text(): action for action in panel.menu_for(run).actions()}
    last = {Status.RUNNING: "Stop", Status.QUEUED: "Take out of the queue"}.get(run.status, "Delete")
    assert list(actions)[-1] == last
    with qtbot.waitSignal(panel.use_settings_requested) as signal:
        actions["Use these settings"].trigger()
    assert signal.args == [run]
    wanted = {
        "Stop": panel.stop_requested,
        "Delete": panel.delete_requested,
        "Take out of the queue": panel.take_out_requested,
    }[last]
    with qtbot.waitSignal(wanted):
        actions[last].trigger()


def test_a_failed_run_tells_its_reason(panel: RunsPanel) -> None:
    index = panel.model.index(row_of(panel, 4), Column.STATUS)
    tip = panel.model.data(index, Qt.ItemDataRole.ToolTipRole)
    assert tip == "The card is full. Take a smaller batch."


def test_a_rows_button_tells_what_it_does(panel: RunsPanel) -> None:
    place = button_place(panel, 6)
    event = QHelpEvent(QEvent.Type.ToolTip, place, panel.table.viewport().mapToGlobal(place))
    QApplication.sendEvent(panel.table.viewport(), event)
    assert QToolTip.text().startswith("Stop this run")
    QToolTip.hideText()


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("width", [1_120, 780, 420])
def test_every_state_is_painted_in_both_themes(panel: RunsPanel, mode: str, width: int) -> None:
    theme().set_mode(mode)
    panel.set_checked([BY_NUMBER[1].id])
    panel.set_progress(BY_NUMBER[6].id, 0.5)
    panel.table.selectRow(1)
    panel.resize(width, 320)
    picture = panel.table.viewport().grab().toImage()
    colors = {picture.pixelColor(x, y).name().upper() for x in range(picture.width()) for y in (14, 42)}
    assert theme().palette.bg2 in colors
    assert not panel.table.isColumnHidden(Column.STATUS)


@pytest.mark.parametrize("width", [770, 1_074, 1_400])
def test_a_long_speed_and_the_longest_precision_are_never_cut_short(panel: RunsPanel, width: int) -> None:
    panel.resize(width, 320)
    metrics = QFontMetrics(font(12, 500))
    for column, words in ((Column.SPEED, "111,442"), (Column.PRECISION, "FP16 unscaled")):
        assert panel.table.columnWidth(column) >= metrics.horizontalAdvance(words) + 16


def test_a_narrow_table_does_without_the_dataset_first(panel: RunsPanel) -> None:
    assert not panel.table.isColumnHidden(Column.DATASET)
    panel.resize(780, 208)
    assert panel.table.isColumnHidden(Column.DATASET)
    assert not panel.table.isColumnHidden(Column.WHEN)
    name = panel.model.index(row_of(panel, 2), Column.NAME)
    assert "fashion" in panel.model.data(name, Qt.ItemDataRole.ToolTipRole)


def test_it_folds_to_its_header(panel: RunsPanel, qtbot: QtBot) -> None:
    with qtbot.waitSignal(panel.open_changed) as signal:
        panel.set_open(False)
    assert signal.args == [False]
    assert not panel.table.isVisible()
    panel.set_open(True)
    assert panel.table.isVisible()


def test_without_runs_it_says_so(qtbot: QtBot) -> None:
    panel = RunsPanel()
    qtbot.addWidget(panel)
    assert panel.pages.currentIndex() == 1
    panel.update_run(RUNS[0])
    assert panel.pages.currentIndex() == 0


def test_how_it_is_sorted_survives_a_restart(panel: RunsPanel, qtbot: QtBot) -> None:
    panel.table.sortByColumn(Column.SPEED, Qt.SortOrder.AscendingOrder)
    again = RunsPanel()
    qtbot.addWidget(again)
    again.set_runs(RUNS)
    again.restore(panel.state())
    assert numbers(again.model) == numbers(panel.model)
    with pytest.raises(ValueError, match="99"):
        again.restore({"column": 99, "descending": True})


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


def action_of(panel: RunsPanel, run: RunRecord, words: str) -> QAction:
    return next(action for action in panel.menu_for(run).actions() if action.text() == words)


def test_a_run_that_cannot_be_resumed_says_why(panel: RunsPanel) -> None:
    panel.set_resume_obstacle(lambda run: "It has no checkpoint." if run.number == 3 else None)
    refused = action_of(panel, BY_NUMBER[3], "Resume")
    assert not refused.isEnabled() and refused.toolTip() == "It has no checkpoint."
    assert action_of(panel, BY_NUMBER[5], "Resume").isEnabled()


def test_a_run_is_resumed_from_its_menu(panel: RunsPanel, qtbot: QtBot) -> None:
    panel.set_resume_obstacle(lambda _run: None)
    with qtbot.waitSignal(panel.resume_requested) as signal:
        action_of(panel, BY_NUMBER[5], "Resume").trigger()
    assert signal.args == [BY_NUMBER[5].id]


def test_a_run_that_waits_since_the_last_start_is_begun_from_its_menu(panel: RunsPanel, qtbot: QtBot) -> None:
    waiting = next(run for run in BY_NUMBER.values() if run.status is Status.QUEUED)
    assert not action_of(panel, waiting, "Run").isEnabled()
    panel.set_begin_obstacle(lambda _run: None)
    with qtbot.waitSignal(panel.begin_requested) as signal:
        action_of(panel, waiting, "Run").trigger()
    assert signal.args == [waiting.id]


def test_the_header_counts_the_runs_and_those_that_wait(panel: RunsPanel) -> None:
    queued = sum(run.status is Status.QUEUED for run in BY_NUMBER.values())
    said = {label.text() for label in panel.findChildren(QLabel)}
    assert queued and f"{len(BY_NUMBER)} · {queued} queued" in said
    panel.set_runs([run for run in BY_NUMBER.values() if run.status is not Status.QUEUED])
    assert f"{len(BY_NUMBER) - queued}" in {label.text() for label in panel.findChildren(QLabel)}


def test_the_recipe_in_force_is_told_with_what_was_left_out(panel: RunsPanel) -> None:
    run = BY_NUMBER[2]
    asked = run.experiment.model_copy(update={"step": Step(recipe="fast")})
    summary = Summary(recipe="fused+compile", left_out={"capture": "a CPU has no graphs."})
    panel.update_run(replace(run, experiment=asked, summary=summary))
    index = panel.model.index(row_of(panel, 2), Column.RECIPE)
    assert index.data() == "Fast"
    tip = index.data(Qt.ItemDataRole.ToolTipRole)
    assert tip == "Fast\nIn force: Fused optimizer + compiled\nLeft out:\ncapturing: a CPU has no graphs"
    panel.filter.setText("recipe:fast")
    assert 2 in numbers(panel.model)


def tagged(panel: RunsPanel) -> tuple[RunRecord, RunRecord]:
    """Runs 1 and 2 with tags, the second with a note."""
    first = replace(BY_NUMBER[1], tags=("paper",))
    second = replace(BY_NUMBER[2], tags=("paper", "figure 2"), note="Clocks were locked.")
    for run in (first, second):
        panel.update_run(run)
    return first, second


def test_the_tags_have_a_column_once_there_are_any(panel: RunsPanel) -> None:
    panel.resize(1_400, 320)
    assert panel.table.isColumnHidden(Column.TAGS)
    tagged(panel)
    assert not panel.table.isColumnHidden(Column.TAGS)
    assert panel.model.text(row_of(panel, 2), Column.TAGS) == "paper, figure 2"
    panel.table.sortByColumn(Column.TAGS, Qt.SortOrder.AscendingOrder)
    assert numbers(panel.model)[:2] == [1, 2]


def test_a_note_is_told_and_never_taken_for_markup(panel: RunsPanel) -> None:
    tagged(panel)
    name = panel.model.index(row_of(panel, 2), Column.NAME)
    assert panel.model.data(name, Qt.ItemDataRole.ToolTipRole).endswith(
        "Tags: paper, figure 2\nClocks were locked."
    )
    assert "Clocks were locked" in panel.model.data(name, Qt.ItemDataRole.AccessibleTextRole)
    panel.update_run(replace(BY_NUMBER[2], note="<img src=x> " * 1_000))
    tip = panel.model.data(name, Qt.ItemDataRole.ToolTipRole)
    assert "&lt;img" in tip and "<img" not in tip and len(tip) < 2_000


def test_a_click_on_the_sign_of_a_note_opens_it(panel: RunsPanel, qtbot: QtBot) -> None:
    tagged(panel)
    cell_rect = panel.table.visualRect(panel.model.index(row_of(panel, 2), Column.NAME))
    click(qtbot, panel, QPoint(cell_rect.right() - 12, cell_rect.center().y()))
    dialog = panel.findChild(MarksDialog)
    assert dialog is not None and dialog.note.toPlainText() == "Clocks were locked."
    dialog.note.setPlainText("Clocks were free.")
    dialog.tags.setText("paper, PAPER,  , figure 3")
    with qtbot.waitSignals([panel.note_requested, panel.tags_requested]):
        dialog.accept()


def test_tags_of_several_runs_keep_what_each_has_of_its_own(panel: RunsPanel, qtbot: QtBot) -> None:
    first, second = tagged(panel)
    dialog = panel.edit_marks((first, second))
    assert dialog.tags.text() == "paper"
    dialog.tags.setText("again")
    with qtbot.waitSignal(panel.tags_requested) as signal:
        dialog.accept()
    assert signal.args == [{first.id: ("again",), second.id: ("again", "figure 2")}]


def test_a_tag_that_is_too_long_is_told_and_the_dialog_stays(panel: RunsPanel, qtbot: QtBot) -> None:
    dialog = panel.edit_marks((BY_NUMBER[1],))
    dialog.tags.setText("x" * 41)
    with qtbot.assertNotEmitted(panel.tags_requested):
        dialog.accept()
    assert dialog.isVisible()
    assert any("41 characters" in said.text() for said in dialog.findChildren(QLabel))
    dialog.reject()


def test_the_menu_toggles_a_tag_of_all_highlighted_runs(panel: RunsPanel, qtbot: QtBot) -> None:
    first, second = tagged(panel)
    panel.table.selectAll()
    for tag, wanted in (("figure 2", len(RUNS) - 1), ("paper", len(RUNS) - 2)):
        with qtbot.waitSignal(panel.tags_requested) as signal:
            tag_action(panel, first, tag).trigger()
        assert len(signal.args[0]) == wanted
    panel.table.clearSelection()
    with qtbot.waitSignal(panel.tags_requested) as signal:
        tag_action(panel, second, "paper").trigger()
    assert signal.args == [{second.id: ("figure 2",)}]


def tag_action(panel: RunsPanel, run: RunRecord, tag: str) -> QAction:
    tags = next(action.menu() for action in panel.menu_for(run).actions() if action.text() == "Tags")
    return next(action for action in tags.actions() if action.text() == tag)


def test_highlighted_runs_are_dragged_as_ids_and_as_names(panel: RunsPanel) -> None:
    panel.table.selectAll()
    assert panel.table.dragEnabled()
    data = panel.model.mimeData(panel.table.selectionModel().selectedRows())
    assert dropped_runs(data) == tuple(run.id for run in panel.table.highlighted())
    assert data.text().split("\n") == [run.name for run in panel.table.highlighted()]
    assert not drag_pixmap(panel.table.highlighted()).isNull()


def test_the_ticked_runs_are_exported(panel: RunsPanel, qtbot: QtBot) -> None:
    assert not panel.bar.export.isEnabled()
    panel.set_checked([BY_NUMBER[2].id, BY_NUMBER[1].id])
    with qtbot.waitSignal(panel.export_asked) as signal:
        panel.bar.export.click()
    assert signal.args == [(BY_NUMBER[1].id, BY_NUMBER[2].id)]


def test_the_unit_of_the_speed_is_true_of_every_row(panel: RunsPanel) -> None:
    def heading() -> str:
        return str(panel.model.headerData(Column.SPEED, Qt.Orientation.Horizontal))

    assert heading() == "img/s"
    text = replace(BY_NUMBER[2], experiment=Experiment(model="causal-lm", dataset="python-source"))
    panel.update_run(text)
    assert heading() == "samples/s"
    cell = panel.model.index(row_of(panel, 2), Column.SPEED)
    assert panel.model.data(cell, Qt.ItemDataRole.ToolTipRole) == "1,664 samples/s of 512 tokens each"
    panel.set_runs(RUNS)
    assert heading() == "img/s"


def test_a_run_that_waits_to_be_continued_says_so(panel: RunsPanel) -> None:
    row = row_of(panel, 6)
    panel.set_progress(BY_NUMBER[6].id, 0.5, True)
    assert panel.model.text(row, Column.STATUS) == "Paused"
    panel.table.viewport().grab()
    panel.set_progress(BY_NUMBER[6].id, 0.5)
    assert panel.model.text(row, Column.STATUS) == "Running"


def test_a_run_without_memory_enough_says_so(panel: RunsPanel) -> None:
    assert panel.model.text(row_of(panel, 4), Column.STATUS) == "Out of memory"


def test_what_is_highlighted_stays_so_under_the_filter(panel: RunsPanel) -> None:
    panel.table.selectRow(row_of(panel, 2))
    panel.filter.setText("fp16")
    assert [run.number for run in panel.table.highlighted()] == [2]


def test_where_nothing_matches_one_button_shows_all_again(panel: RunsPanel, qtbot: QtBot) -> None:
    panel.filter.setText("tag:nothing")
    button = next(one for one in panel.findChildren(QAbstractButton) if one.text() == "Show all runs")
    assert button.isVisible()
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert panel.model.rowCount() == len(RUNS)
    panel.filter.setText("fp16")
    qtbot.keyClick(panel.filter, Qt.Key.Key_Escape)
    assert panel.filter.text() == ""
