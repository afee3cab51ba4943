"""The queue of the window, with the real engine: what trains, what waits, what is stopped and taken out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QAbstractButton
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment, experiment_from
from engine.store.record import Status
from engine.store.store import Store
from engine.worker.launcher import Target
from gui.session.request import Request
from gui.window.main_window import MainWindow

Open = Callable[[], MainWindow]

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


def test_repeats_are_trained_in_turns_and_watched_round_by_round(
    window: MainWindow, training: Any, tiny: Experiment
) -> None:
    sides = (("FP32", tiny), ("BF16 AMP", experiment_from({**tiny.model_dump(), "precision": "bf16"})))
    window._submit(Request("Tiny", sides, is_comparison=True, name="Tiny", repeats=2))
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
    next(button for button in buttons if button.text() == "Go on").click()
    assert (
        again.experiments.why_not_begun(again.experiments.runs.record(second))
        == "It is waiting for its turn."
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
    window.others.shows.show_me._pair._submitted.add(shown)
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
