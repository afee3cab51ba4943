"""The dock's queue in the window: it shows what waits, and a removal can be undone."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtWidgets import QAbstractButton

from engine.experiment.experiment import Experiment
from engine.store.store import Store
from gui.window.main_window import MainWindow


def press(window: MainWindow, words: str) -> None:
    buttons = window.notice.findChildren(QAbstractButton)
    next(button for button in buttons if button.text() == words).click()


def test_what_waits_is_shown_and_a_removal_can_be_undone(
    start: Callable[[], MainWindow], tiny: Experiment
) -> None:
    window = start()
    queue, panel = window.experiments.queue, window.backstage.queue
    queue.stops_after_this = True
    window.experiments.submit("", [("FP32", tiny)], "first")
    assert "The queue rests" in window.notice.text()
    window.experiments.submit("", [("FP32", tiny)], "second")
    window.backstage.toggle_page("queue")
    assert window.backstage.page == "queue" and window.top_bar.activity.activity().waits == "2 waiting"
    assert [item.title for item in panel.table.schedule.items] == ["first", "second"]
    panel.table.selectRow(0)
    panel.table.action_pressed.emit("remove")
    assert "Took “first” out of the queue." in window.notice.text()
    assert [item.title for item in panel.table.schedule.items] == ["second"]
    press(window, "Undo")
    assert [item.title for item in panel.table.schedule.items] == ["first", "second"]
    panel.move_asked.emit([panel.table.schedule.items[1].key], panel.table.schedule.items[0].key)
    assert [item.title for item in queue.items()] == ["second", "first"]


def test_the_queue_says_what_an_earlier_window_left_and_goes_on_with_it(
    store: Store, start: Callable[[], MainWindow], tiny: Experiment
) -> None:
    runs = [store.add(tiny).id for _ in range(2)]
    window = start()
    panel = window.backstage.queue
    assert panel.empty.words().startswith("2 runs are still in the queue from last time.")
    assert "2 runs" in window.notice.text() and panel.empty.button.text() == "Go on"
    panel.empty.button.click()
    assert window.notice.text() == ""
    assert [item.key for item in window.experiments.queue.items()] == runs
    for run_id in runs:
        panel.chosen.emit([run_id], "remove")
    assert panel.empty.words().startswith("Nothing waits.")
