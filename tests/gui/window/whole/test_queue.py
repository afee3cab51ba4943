"""The queue of the window, with the real engine: what trains, what waits, what is stopped and taken out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment, experiment_from
from engine.store.record import Status
from engine.store.store import Store
from engine.worker.launcher import Target
from gui.session.request import Request
from gui.window.main_window import MainWindow

Open = Callable[[], MainWindow]
WAIT_MS = 60_000

in_a_process = pytest.mark.parametrize("launcher", [Target.PROCESS], indirect=True)


def test_stop_ends_the_run_and_the_next_one_begins(
    window: MainWindow, training: Any, tiny: Experiment, endless: Experiment
) -> None:
    (first,) = training.submit(window, endless)
    training.wait_for_steps(window, first)
    (second,) = training.submit(window, tiny)
    assert window.experiments.runs.record(second).status is Status.QUEUED
    assert window.experiments.waiting == (second,)
    window.live.stop_requested.emit()
    training.wait_for_end(window, 2)
    assert window.experiments.runs.record(first).status is Status.STOPPED
    assert window.experiments.runs.record(second).status is Status.FINISHED
    assert (
        len(window.experiments.runs.live(first).column("loss"))
        == window.experiments.runs.record(first).summary.steps
    )


def test_stop_ends_the_whole_comparison_and_its_page_stays_while_the_next_one_trains(
    qtbot: QtBot, window: MainWindow, training: Any, tiny: Experiment, endless: Experiment
) -> None:
    done, first, *mates = training.submit(window, tiny, endless, tiny, endless)
    window.in_view.open(done)
    training.wait_for_steps(window, first)
    others = training.submit(window, tiny, tiny)
    qtbot.mouseClick(window.live.strip.stop, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: window.experiments.runs.record(others[-1]).status.is_over, timeout=WAIT_MS)
    records = {record.id: record.status for record in window.experiments.runs.records()}
    assert records == {
        done: Status.FINISHED,
        first: Status.STOPPED,
        **dict.fromkeys(others, Status.FINISHED),
    }, f"{mates} never started"
    assert [run.run_id for run in window.live.runs()] == [done, first]
    assert window.experiments.waiting == ()


def test_repeats_are_trained_in_turns_and_watched_round_by_round(
    window: MainWindow, training: Any, tiny: Experiment
) -> None:
    sides = (("FP32", tiny), ("BF16 AMP", experiment_from({**tiny.model_dump(), "precision": "bf16"})))
    window._submit(Request("Tiny", sides, name="Tiny", repeats=2))
    assert window.live.strip.title.whole_text() == "FP32 against BF16 AMP, repeat 1 of 2"
    training.wait_for_end(window, 4)
    records = sorted(window.experiments.runs.records(), key=lambda record: record.started)
    assert [(record.label, record.experiment.seed) for record in records] == [
        ("FP32", 0), ("BF16 AMP", 0), ("BF16 AMP", 1), ("FP32", 1)
    ]  # fmt: skip
    assert records[2].name == "Tiny, BF16 AMP, repeat 2"
    assert len({record.comparison for record in records}) == 1
    # the baseline of the ratios stays first, whoever trained first
    assert [run.run_id for run in window.live.runs()] == [records[3].id, records[2].id]
    assert window.live.strip.title.whole_text() == "FP32 against BF16 AMP, repeat 2 of 2"


def test_a_queued_run_can_be_taken_out(
    qtbot: QtBot, window: MainWindow, training: Any, tiny: Experiment, endless: Experiment
) -> None:
    (first,) = training.submit(window, endless)
    training.wait_for_steps(window, first)
    (second,) = training.submit(window, tiny)
    # how long a run takes that was never made is not known
    qtbot.waitUntil(lambda: window.live.strip.left.text().startswith("at least "), timeout=60_000)
    window.runs.edits.experiments.take_out(second)
    qtbot.waitUntil(lambda: window.live.strip.left.text()[:1].isdigit(), timeout=60_000)
    assert window.experiments.runs.record(second) is None and window.experiments.waiting == ()
    window.experiments.stop()
    training.wait_for_end(window, 1)
    assert [record.id for record in window.experiments.runs.records()] == [first]


@in_a_process
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
    assert again.experiments.why_not_begun(again.experiments.runs.record(second)) is None
    buttons = again.notice.findChildren(QAbstractButton)
    next(button for button in buttons if button.text() == "Resume").click()
    assert (
        again.experiments.why_not_begun(again.experiments.runs.record(second))
        == "This run is waiting in the queue."
    )
    training.wait_for_end(again, 2)
    assert again.experiments.runs.record(second).status is Status.FINISHED


def test_a_waiting_run_that_is_gone_by_now_is_told_and_the_others_run(
    window: MainWindow, home: Path, training: Any, tiny: Experiment
) -> None:
    with Store(home / "ammeter.sqlite") as other:
        gone, here = other.add(tiny), other.add(tiny)
        other.delete([gone.id])
    window.experiments.resume_waiting([gone.id, here.id])
    assert gone.id in window.notice.text()
    training.wait_for_end(window, 1)
    assert [record.id for record in window.experiments.runs.records()] == [here.id]


def test_runs_that_show_me_queued_are_not_promised_for_the_next_start(
    window: MainWindow, monkeypatch: pytest.MonkeyPatch, training: Any, endless: Experiment
) -> None:
    told: list[str] = []
    monkeypatch.setattr("gui.window.main_window.may_stop", lambda *asked: told.append(asked[-1]))
    trains, _own, shown = training.submit(window, endless, endless, endless)
    training.wait_for_steps(window, trains)
    window.others.shows.measurement.pair._submitted.add(shown)
    window._may_close()
    assert told == ["a run"]


def test_deleting_leaves_the_run_that_trains(
    window: MainWindow, training: Any, tiny: Experiment, endless: Experiment
) -> None:
    (first,) = training.submit(window, tiny)
    training.wait_for_end(window, 1)
    (running,) = training.submit(window, endless)
    training.wait_for_steps(window, running)
    window.experiments.delete([first, running])
    assert [record.id for record in window.experiments.runs.records()] == [running]
    window.experiments.stop()
    training.wait_for_end(window, 1)


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
