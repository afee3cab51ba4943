"""The dock's queue: times, what is said of them, and what keys, buttons and drags ask for."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from unittest.mock import MagicMock

import pytest
from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtWidgets import QAbstractButton, QWidget
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment, Precision, experiment_from
from engine.store.store import Store
from engine.words.numbers import share_text
from gui.runs.queue_panel import QueuePanel
from gui.runs.queue_table import NEXT, PAUSE, REMOVE, REPEAT, SHOW, QueueSchedule, schedule, summary_text
from gui.runs.table.columns import NAME, PLACES
from gui.session.items import QueueItem
from gui.theme.theme import theme
from gui.window.main_window import MainWindow

NOW = datetime(2026, 11, 22, 23, 0)
RUNNING = QueueItem(
    *("a", "run", "FP32, net, 1 of 2", "net on MNIST, batch 64"),
    is_running=True,
    progress=0.25,
    seconds_left=1_800.0,
    brief="FP32, 1 of 2",
    precision=Precision.FP32,
)
SWEEP = QueueItem("b", "sweep", "Batches", "Sweep", seconds_left=7_200.0)
UNKNOWN = QueueItem("c", "limit", "small-cnn, FP32", "Largest batch")
PAUSED = QueueItem("d", "profile", "small-cnn", "Profile", is_paused=True, seconds_left=60.0)
LAST = QueueItem("e", "run", "Run 2", "small-cnn", seconds_left=60.0)


@pytest.fixture
def panel(qtbot: QtBot) -> QueuePanel:
    theme()
    panel = QueuePanel()
    qtbot.addWidget(panel)
    panel.resize(1_100, 240)
    with qtbot.waitExposed(panel):
        panel.show()
    return panel


@pytest.fixture
def acted(panel: QueuePanel) -> MagicMock:
    """What the keys and buttons of the table ask for."""
    panel.table.acted.connect(acted := MagicMock())
    return acted


def planned(*items: QueueItem, is_paused: bool = False) -> QueueSchedule:
    return schedule(items, NOW, is_paused=is_paused)


def row(panel: QueuePanel, number: int) -> list[str]:
    return panel.table.lines()[1 + number][1:]


def test_the_times_follow_one_another_past_midnight(panel: QueuePanel) -> None:
    panel.show_schedule(planned(RUNNING, SWEEP, PAUSED, LAST))
    assert [row(panel, number) for number in range(4)] == [
        [share_text(0.25), "30 min", "now", "23:30"],
        ["Waiting", "2 h", "23:30", "Mon 01:30"],
        ["Paused", "1 min", "–", "–"],
        ["Waiting", "1 min", "Mon 01:30", "Mon 01:31"],
    ]
    assert panel.summary.whole_text() == "3 waiting · 1 paused · 2 h 31 min · everything done at Mon 01:31"


def test_an_unknown_duration_is_said_to_be_unknown(panel: QueuePanel) -> None:
    panel.show_schedule(planned(RUNNING, UNKNOWN, LAST))
    assert row(panel, 1) == ["Waiting", "–", "23:30", "–"]
    assert row(panel, 2) == ["Waiting", "1 min", "–", "–"]
    assert panel.summary.whole_text() == "2 waiting · at least 31 min"
    assert summary_text(planned(UNKNOWN)) == "1 waiting"


def test_what_is_before_a_sweep_in_progress_comes_after_its_turn() -> None:
    sweep = QueueItem("b", "sweep", "Batches", "Sweep", is_running=True, seconds_left=600.0)
    first, _ = planned(LAST, sweep).slots
    assert first.begins == NOW + timedelta(minutes=10)


def test_a_paused_queue_has_no_times_and_a_button_to_resume(panel: QueuePanel) -> None:
    panel.show_schedule(planned(SWEEP))
    assert panel.pause.isVisible() and not panel.resume.isVisible()
    panel.show_schedule(planned(SWEEP, is_paused=True))
    assert panel.resume.isVisible() and not panel.pause.isVisible()
    assert row(panel, 0) == ["Waiting", "2 h", "–", "–"]
    assert panel.summary.whole_text() == "1 waiting · 2 h · paused"


def test_keys_ask_for_the_highlighted_item(qtbot: QtBot, panel: QueuePanel, acted: MagicMock) -> None:
    panel.show_schedule(planned(RUNNING, SWEEP, LAST))
    panel.table.selectRow(1)
    none, control = Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.ControlModifier
    for key, modifier, action in (
        (Qt.Key.Key_Return, none, NEXT),
        (Qt.Key.Key_Space, none, PAUSE),
        (Qt.Key.Key_Delete, none, REMOVE),
        (Qt.Key.Key_R, control, REPEAT),
    ):
        qtbot.keyClick(panel.table, key, modifier)
        acted.assert_called_with(["b"], action)


def test_rows_move_by_keys_and_by_drag_and_stay_highlighted(qtbot: QtBot, panel: QueuePanel) -> None:
    panel.table.moved.connect(moved := MagicMock())
    panel.show_schedule(planned(RUNNING, SWEEP, UNKNOWN, LAST))
    panel.table.selectRow(2)
    alt = Qt.KeyboardModifier.AltModifier
    qtbot.keyClick(panel.table, Qt.Key.Key_Up, alt)
    qtbot.keyClick(panel.table, Qt.Key.Key_Down, alt)
    model = panel.table.model()
    data = model.mimeData([model.index(3, 0)])
    model.dropMimeData(data, Qt.DropAction.MoveAction, 1, 0, QModelIndex())
    model.dropMimeData(data, Qt.DropAction.MoveAction, -1, -1, QModelIndex())
    moves = [call.args for call in moved.call_args_list]
    assert moves == [(["c"], "b"), (["c"], None), (["e"], "b"), (["e"], None)]
    panel.show_schedule(planned(RUNNING, UNKNOWN, SWEEP, LAST))
    assert panel.table.highlighted() == [UNKNOWN]


def test_a_rows_button_asks_for_its_item(qtbot: QtBot, panel: QueuePanel, acted: MagicMock) -> None:
    panel.show_schedule(planned(RUNNING, SWEEP))
    place = panel.table.button_place(1, REMOVE).center()
    qtbot.mouseClick(panel.table.viewport(), Qt.MouseButton.LeftButton, pos=place)
    acted.assert_called_once_with(["b"], REMOVE)
    words = [
        action.text().split("\t")[0]
        for action in panel.table.menu_at(panel.table.model().index(0, 0)).actions()
    ]
    assert words == ["Show", "Repeat"]


def test_what_is_in_progress_can_be_shown(qtbot: QtBot, panel: QueuePanel, acted: MagicMock) -> None:
    panel.show_schedule(planned(RUNNING, SWEEP))
    place = panel.table.button_place(0, SHOW).center()
    qtbot.mouseClick(panel.table.viewport(), Qt.MouseButton.LeftButton, pos=place)
    panel.table.selectRow(0)
    qtbot.keyClick(panel.table, Qt.Key.Key_Return)
    assert [call.args for call in acted.call_args_list] == [(["a"], SHOW)] * 2


def press(window: MainWindow, words: str) -> None:
    buttons = window.notice.findChildren(QAbstractButton)
    next(button for button in buttons if button.text() == words).click()


def test_what_waits_is_shown_and_a_removal_can_be_undone(
    start: Callable[[], MainWindow], tiny: Experiment
) -> None:
    window = start()
    queue, panel = window.experiments.queue, window.backstage.queue
    queue.is_paused = True
    window.experiments.submit("", [("FP32", tiny)], "first")
    assert "The queue is paused" in window.notice.text()
    window.experiments.submit("", [("FP32", tiny)], "second")
    window.backstage.toggle_page("queue")
    assert window.backstage.page == "queue" and window.top_bar.activity.activity().waits == "2 waiting"
    assert [item.title for item in panel.table.schedule.items] == ["first", "second"]
    panel.table.selectRow(0)
    panel.table.press(REMOVE)
    assert "Removed “first” from the queue." in window.notice.text()
    assert [item.title for item in panel.table.schedule.items] == ["second"]
    press(window, "Undo")
    assert [item.title for item in panel.table.schedule.items] == ["first", "second"]
    first, second = panel.table.schedule.items
    panel.table.moved.emit([second.key], first.key)
    assert [item.title for item in window.experiments.works.items()] == ["second", "first"]


def test_a_run_is_called_by_its_precision_its_model_and_its_place_in_the_comparison(
    start: Callable[[], MainWindow], tiny: Experiment
) -> None:
    window = start()
    queue, experiments = window.experiments.queue, window.experiments
    queue.is_paused = True
    half = experiment_from({**tiny.model_dump(), "precision": "bf16"})
    experiments.submit("", [("FP32", tiny), ("BF16 AMP", half)], repeats=2)
    experiments.submit("", [("FP32", tiny), ("BF16 AMP", half)], "Paper")
    experiments.submit("", [("BF16 AMP", half)])
    assert [item.title for item in experiments.works.items()] == [
        *(
            "FP32, linear, 1 of 4",
            "BF16 AMP, linear, 2 of 4",
            "BF16 AMP, linear, 3 of 4",
            "FP32, linear, 4 of 4",
        ),
        *("Paper, FP32, 1 of 2", "Paper, BF16 AMP, 2 of 2", "BF16 AMP, linear"),
    ]
    second = experiments.works.items()[1]
    assert (second.brief, second.precision) == ("BF16 AMP, 2 of 4", Precision.BF16)
    window.runs.table.sortByColumn(PLACES["BATCH"], Qt.SortOrder.AscendingOrder)
    said = [window.runs.model.text(row, NAME) for row in window.runs.model.rows]
    assert len(said) == 7 and "BF16 AMP, linear, 10" in said
    shown = [widget.accessibleName() for widget in window.findChildren(QWidget)]
    everything = "\n".join((*said, *shown, window.backstage.log.text()))
    assert not re.search(r"Run \d", everything)


def test_stop_ends_a_run_before_the_slow_store_lets_go_of_its_mates(
    start: Callable[[], MainWindow], tiny: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    window, order = start(), []
    experiments = window.experiments
    experiments.queue.is_paused = True
    first, second = experiments.submit("", [("FP32", tiny), ("again", tiny)])
    experiments.queue.take_out(first)
    experiments.works.training = first
    monkeypatch.setattr(experiments._thread, "stop_current", lambda: order.append(experiments.waiting))
    monkeypatch.setattr(experiments.runs, "withdraw", lambda *run_ids: order.append(run_ids))
    experiments.stop()
    assert order == [(), (second,)]
    experiments.works.training = None


def test_the_queue_says_what_an_earlier_window_left_and_goes_on_with_it(
    store: Store, start: Callable[[], MainWindow], tiny: Experiment
) -> None:
    runs = [store.add(tiny).id for _ in range(2)]
    window = start()
    panel = window.backstage.queue
    assert panel.empty.words().startswith("2 runs are still in the queue from last time.")
    assert "2 runs" in window.notice.text() and panel.empty.button.text() == "Resume"
    panel.empty.button.click()
    assert window.notice.text() == ""
    assert [item.key for item in window.experiments.works.items()] == runs
    for run_id in runs:
        panel.table.acted.emit([run_id], REMOVE)
    assert panel.empty.words().startswith("The queue is empty.")
