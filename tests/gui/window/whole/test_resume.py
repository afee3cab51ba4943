"""Runs that are paused, and runs that go on from their last checkpoint."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment, experiment_from
from engine.store.record import Status
from gui.window.main_window import MainWindow

WAIT_MS = 60_000


def test_a_run_is_paused_and_goes_on(
    qtbot: QtBot, window: MainWindow, training: Any, endless: Experiment
) -> None:
    (run_id,) = training.submit(window, endless)
    training.wait_for_steps(window, run_id)
    live = window.experiments.runs.live(run_id)
    qtbot.mouseClick(window.live.strip.pause, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: live.is_paused, timeout=WAIT_MS)
    qtbot.waitUntil(lambda: window.live.strip.status.whole_text().endswith("paused"), timeout=WAIT_MS)
    paused_at = live.step
    qtbot.mouseClick(window.live.strip.pause, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: live.step > paused_at, timeout=WAIT_MS)
    assert not live.is_paused and window.live.strip.pause.accessibleName() == "Pause"
    window.experiments.toggle_pause()
    qtbot.waitUntil(lambda: live.is_paused, timeout=WAIT_MS)
    window.experiments.stop()
    training.wait_for_end(window, 1)
    assert window.experiments.runs.record(run_id).status is Status.STOPPED


def test_a_stopped_run_is_resumed_from_its_last_checkpoint(
    qtbot: QtBot, window: MainWindow, training: Any, endless: Experiment
) -> None:
    (run_id,) = training.submit(
        window, experiment_from({**endless.model_dump(), "checkpoint": {"last": True}})
    )
    training.wait_for_steps(window, run_id)
    window.experiments.stop()
    training.wait_for_end(window, 1)
    stopped_at = window.experiments.runs.live(run_id).step
    assert window.experiments.why_not_resumed(window.experiments.runs.record(run_id)) is None
    window.runs.resume_requested.emit(run_id)
    qtbot.waitUntil(lambda: window.experiments.runs.live(run_id).step > stopped_at, timeout=WAIT_MS)
    window.experiments.stop()
    training.wait_for_end(window, 1)
    steps = window.experiments.runs.live(run_id).column("step")
    assert list(steps) == list(range(1, len(steps) + 1))
    assert window.live.runs()[0] is window.experiments.runs.live(run_id)


def test_a_resumed_run_that_is_taken_out_again_is_as_it_was(
    window: MainWindow, training: Any, endless: Experiment
) -> None:
    (first,) = training.submit(
        window, experiment_from({**endless.model_dump(), "checkpoint": {"last": True}})
    )
    training.wait_for_steps(window, first)
    window.experiments.stop()
    training.wait_for_end(window, 1)
    (second,) = training.submit(window, endless)
    training.wait_for_steps(window, second)
    window.runs.resume_requested.emit(first)
    assert window.experiments.runs.record(first).status is Status.QUEUED
    assert window.experiments.runs.live(first).status == "queued"
    window.runs.edits.experiments.take_out(first)
    assert window.experiments.runs.record(first).status is Status.STOPPED
    assert window.experiments.runs.live(first).status == "stopped"
    window.experiments.stop()
    training.wait_for_end(window, 2)


def test_a_run_without_a_checkpoint_cannot_be_resumed(
    window: MainWindow, training: Any, endless: Experiment
) -> None:
    (run_id,) = training.submit(window, endless)
    training.wait_for_steps(window, run_id)
    window.experiments.stop()
    training.wait_for_end(window, 1)
    record = window.experiments.runs.record(run_id)
    assert "no checkpoint" in (window.experiments.why_not_resumed(record) or "")
    window.experiments.resume(run_id)
    assert "no checkpoint" in window.notice.text()
    assert window.experiments.runs.record(run_id).status is Status.STOPPED
