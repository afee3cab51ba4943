"""The dock's queue: times, what is said of them, and what keys, buttons and drags ask for."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from PySide6.QtCore import QModelIndex, Qt
from pytestqt.qtbot import QtBot

from engine.words.numbers import share_text
from gui.runs.queue.panel import QueuePanel
from gui.runs.queue.schedule import Schedule, schedule
from gui.runs.queue.table import REMOVE
from gui.runs.queue.words import summary_text
from gui.session.items import QueueItem
from gui.theme.theme import theme

NOW = datetime(2026, 11, 22, 23, 0)
RUNNING = QueueItem("a", "run", "Run 1", "small-cnn", is_running=True, progress=0.25, seconds_left=1_800.0)
SWEEP = QueueItem("b", "sweep", "Batches", "Sweep", seconds_left=7_200.0)
UNKNOWN = QueueItem("c", "limit", "small-cnn, FP32", "Largest batch")
HELD = QueueItem("d", "profile", "small-cnn", "Profile", is_held=True, seconds_left=60.0)
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


def planned(*items: QueueItem, rests: bool = False) -> Schedule:
    return schedule(items, NOW, rests=rests)


def row(panel: QueuePanel, number: int) -> list[str]:
    return panel.table.lines()[1 + number][2:]


def test_the_times_follow_one_another_past_midnight(panel: QueuePanel) -> None:
    panel.show_schedule(planned(RUNNING, SWEEP, HELD, LAST))
    assert [row(panel, number) for number in range(4)] == [
        [share_text(0.25), "30 min", "now", "23:30"],
        ["Waiting", "2 h", "23:30", "Mon 01:30"],
        ["Held", "1 min", "–", "–"],
        ["Waiting", "1 min", "Mon 01:30", "Mon 01:31"],
    ]
    assert panel.summary.whole_text() == "3 waiting · 1 held · 2 h 31 min · everything done at Mon 01:31"


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


def test_a_queue_at_rest_has_no_times_and_a_button_to_go_on(qtbot: QtBot, panel: QueuePanel) -> None:
    panel.show_schedule(planned(SWEEP))
    assert panel.rest.isVisible() and not panel.go_on.isVisible()
    with qtbot.waitSignal(panel.rest_asked) as asked:
        panel.rest.click()
    assert asked.args == [True]
    panel.show_schedule(planned(SWEEP, rests=True))
    assert panel.go_on.isVisible() and not panel.rest.isVisible()
    assert row(panel, 0) == ["Waiting", "2 h", "–", "–"]
    assert panel.summary.whole_text() == "1 waiting · 2 h · the queue rests"


@pytest.mark.parametrize(
    ("key", "modifier", "asked"),
    [
        (Qt.Key.Key_Return, Qt.KeyboardModifier.NoModifier, (["b"], "next")),
        (Qt.Key.Key_Space, Qt.KeyboardModifier.NoModifier, (["b"], "hold")),
        (Qt.Key.Key_Delete, Qt.KeyboardModifier.NoModifier, (["b"], "remove")),
        (Qt.Key.Key_R, Qt.KeyboardModifier.ControlModifier, (["b"], "repeat")),
    ],
)
def test_keys_ask_for_the_highlighted_item(
    qtbot: QtBot, panel: QueuePanel, key: Qt.Key, modifier: Any, asked: tuple[list[str], str]
) -> None:
    panel.show_schedule(planned(RUNNING, SWEEP, LAST))
    panel.table.selectRow(1)
    with qtbot.waitSignal(panel.chosen) as told:
        qtbot.keyClick(panel.table, key, modifier)
    assert tuple(told.args) == asked


def test_rows_move_by_keys_and_by_drag_and_stay_highlighted(qtbot: QtBot, panel: QueuePanel) -> None:
    moves: list[tuple[object, object]] = []
    panel.move_asked.connect(lambda keys, before: moves.append((keys, before)))
    panel.show_schedule(planned(RUNNING, SWEEP, UNKNOWN, LAST))
    panel.table.selectRow(2)
    alt = Qt.KeyboardModifier.AltModifier
    qtbot.keyClick(panel.table, Qt.Key.Key_Up, alt)
    qtbot.keyClick(panel.table, Qt.Key.Key_Down, alt)
    model = panel.table.model()
    data = model.mimeData([model.index(3, 0)])
    model.dropMimeData(data, Qt.DropAction.MoveAction, 1, 0, QModelIndex())
    model.dropMimeData(data, Qt.DropAction.MoveAction, -1, -1, QModelIndex())
    assert moves == [(["c"], "b"), (["c"], None), (["e"], "b"), (["e"], None)]
    panel.show_schedule(planned(RUNNING, UNKNOWN, SWEEP, LAST))
    assert panel.highlighted() == (UNKNOWN,)


def test_a_rows_button_asks_for_its_item(qtbot: QtBot, panel: QueuePanel) -> None:
    panel.show_schedule(planned(RUNNING, SWEEP))
    place = panel.table.button_place(1, REMOVE).center()
    with qtbot.waitSignal(panel.chosen) as told:
        qtbot.mouseClick(panel.table.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert told.args == [["b"], REMOVE.name]
    assert [action.text().split("\t")[0] for action in panel.menu_for(RUNNING).actions()] == ["Repeat"]
