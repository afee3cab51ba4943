"""The queue of the window, with the real engine: what trains, what waits, what is stopped and taken out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment, experiment_from
from engine.store.record import Status
from gui.session.experiments import Experiments
from gui.session.request import Request
from gui.window.main_window import MainWindow

Open = Callable[[], MainWindow]
WAIT_MS = 60_000
pytestmark = pytest.mark.usefixtures("only_first_view")


@pytest.mark.slow
def test_stop_ends_the_whole_comparison_and_its_page_stays_while_the_next_one_trains(
    qtbot: QtBot, window: MainWindow, training: Any, tiny: Experiment, endless: Experiment
) -> None:
    done, first, *mates = training.submit(window, tiny, endless, tiny, endless)
    window.in_view.open(done)
    training.wait_for_steps(window, first)
    others = training.submit(window, tiny, tiny)
    qtbot.mouseClick(window.live.page.strip.stop, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: window.experiments.runs.record(others[-1]).status.is_over, timeout=WAIT_MS)
    records = {record.id: record.status for record in window.experiments.runs.records()}
    assert records == {
        done: Status.FINISHED,
        first: Status.STOPPED,
        **dict.fromkeys(others, Status.FINISHED),
    }, f"{mates} never started"
    assert [run.run_id for run in window.live.runs()] == [done, first]
    assert window.experiments.waiting == ()
    steps = window.experiments.runs.live(first).column("loss")
    assert len(steps) == window.experiments.runs.record(first).summary.steps


@pytest.mark.slow
def test_repeats_are_trained_in_turns_and_watched_round_by_round(
    window: MainWindow, training: Any, tiny: Experiment, qtbot: QtBot
) -> None:
    sides = (("FP32", tiny), ("BF16 AMP", experiment_from({**tiny.model_dump(), "precision": "bf16"})))
    window.experiments.submit_request(Request("Tiny", sides, name="Tiny", repeats=2))
    assert window.live.page.strip.title.whole_text() == "FP32 and BF16 AMP, repeat 1 of 2"
    training.wait_for_end(window, 4)
    records = sorted(window.experiments.runs.records(), key=lambda record: record.started)
    assert [(record.label, record.experiment.seed) for record in records] == [
        ("FP32", 0), ("BF16 AMP", 0), ("BF16 AMP", 1), ("FP32", 1)
    ]  # fmt: skip
    assert records[2].name == "Tiny, BF16 AMP, repeat 2"
    assert len({record.comparison for record in records}) == 1
    # the baseline of the ratios stays first, whoever trained first
    assert [run.run_id for run in window.live.runs()] == [records[3].id, records[2].id]
    qtbot.waitUntil(lambda: window.live.answer() is not None)
    assert window.live.page.strip.title.whole_text() == "FP32 and BF16 AMP"


@pytest.mark.slow
def test_a_queued_run_can_be_taken_out(
    qtbot: QtBot, window: MainWindow, training: Any, tiny: Experiment, endless: Experiment
) -> None:
    (first,) = training.submit(window, endless)
    training.wait_for_steps(window, first)
    (second,) = training.submit(window, tiny)
    # how long a run takes that was never made is not known
    qtbot.waitUntil(lambda: window.live.page.strip.left.text().startswith("at least "), timeout=60_000)
    window.runs.experiments.dequeue(second)
    qtbot.waitUntil(lambda: window.live.page.strip.left.text()[:1].isdigit(), timeout=60_000)
    assert window.experiments.runs.record(second) is None and window.experiments.waiting == ()
    window.experiments.stop()
    training.wait_for_end(window, 1)
    assert [record.id for record in window.experiments.runs.records()] == [first]


@pytest.mark.slow
def test_what_is_queued_when_the_window_closes_is_offered_by_the_next(
    window: MainWindow,
    open_window: Open,
    monkeypatch: pytest.MonkeyPatch,
    training: Any,
    tiny: Experiment,
    endless: Experiment,
) -> None:
    (first,) = training.submit(window, endless)
    training.wait_for_steps(window, first)
    (second,) = training.submit(window, tiny)
    again = open_window()
    assert again.experiments.runs.record(first).status is Status.STOPPED
    assert again.experiments.runs.record(second).status is Status.QUEUED
    assert "still in the queue" in again.notice.text()
    assert again.experiments.why_not_started(again.experiments.runs.record(second)) is None
    buttons = again.notice.findChildren(QAbstractButton)
    next(button for button in buttons if button.text() == "Resume").click()
    assert (
        again.experiments.why_not_started(again.experiments.runs.record(second))
        == "This run is waiting in the queue."
    )
    training.wait_for_end(again, 2)
    assert again.experiments.runs.record(second).status is Status.FINISHED


def test_runs_that_show_me_queued_are_not_promised_for_the_next_start(
    start: Callable[[], MainWindow], monkeypatch: pytest.MonkeyPatch, training: Any, endless: Experiment
) -> None:
    window, told = start(), list[str]()
    monkeypatch.setattr("gui.window.main_window.may_stop", lambda *asked: told.append(asked[-1]))
    monkeypatch.setattr(Experiments, "in_progress", "run")
    _own, shown = training.submit(window, endless, endless)
    window.others.demo.measurement._submitted.add(shown)
    window._may_close()
    assert told == ["a run"]


@pytest.mark.slow
def test_a_run_is_paused_and_goes_on(
    qtbot: QtBot, window: MainWindow, training: Any, endless: Experiment
) -> None:
    (run_id,) = training.submit(window, endless)
    training.wait_for_steps(window, run_id)
    live, timer = window.experiments.runs.live(run_id), window.in_view.timer
    assert timer.isActive() and timer.interval() == 200, "slowly beside a run on the CPU"
    qtbot.mouseClick(window.live.page.strip.pause, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: live.is_paused, timeout=WAIT_MS)
    qtbot.waitUntil(lambda: window.live.page.strip.status.whole_text().endswith("paused"), timeout=WAIT_MS)
    paused_at = live.step
    qtbot.mouseClick(window.live.page.strip.pause, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: live.step > paused_at, timeout=WAIT_MS)
    assert not live.is_paused and window.live.page.strip.pause.accessibleName() == "Pause"
    window.experiments.toggle_pause()
    qtbot.waitUntil(lambda: live.is_paused, timeout=WAIT_MS)
    window.experiments.stop()
    training.wait_for_end(window, 1)
    assert window.experiments.runs.record(run_id).status is Status.STOPPED and not timer.isActive()


@pytest.mark.slow
def test_a_stopped_run_is_resumed_from_its_last_checkpoint(
    qtbot: QtBot, window: MainWindow, training: Any, endless: Experiment
) -> None:
    (run_id,) = training.submit(
        window, experiment_from({**endless.model_dump(), "checkpoint": {"last": True}})
    )
    training.wait_for_steps(window, run_id)
    window.experiments.stop()
    training.wait_for_end(window, 1)
    runs, stopped_at = window.experiments.runs, window.experiments.runs.live(run_id).step
    assert window.experiments.why_not_resumed(runs.record(run_id)) is None
    (other,) = training.submit(window, endless)
    training.wait_for_steps(window, other)
    window.runs.resume_requested.emit(run_id)
    assert runs.record(run_id).status is Status.QUEUED and runs.live(run_id).status == "queued"
    window.runs.experiments.dequeue(run_id)
    assert runs.record(run_id).status is Status.STOPPED and runs.live(run_id).status == "stopped"
    window.experiments.stop()
    training.wait_for_end(window, 2)
    window.runs.resume_requested.emit(run_id)
    qtbot.waitUntil(lambda: window.experiments.runs.live(run_id).step > stopped_at, timeout=WAIT_MS)
    window.experiments.stop()
    training.wait_for_end(window, 2)
    steps = window.experiments.runs.live(run_id).column("step")
    assert list(steps) == list(range(1, len(steps) + 1))
    assert window.live.runs()[0] is window.experiments.runs.live(run_id)
