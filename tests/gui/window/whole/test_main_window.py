"""The window whole, with the real engine: choose, press, watch, compare, open again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment, Precision, experiment_from
from engine.store.record import Status
from engine.store.store import Store
from engine.worker.launcher import Target
from gui.window.main_window import MainWindow

Open = Callable[[], MainWindow]

WAIT_MS = 60_000
pytestmark = pytest.mark.usefixtures("only_first_view")
in_a_process = pytest.mark.parametrize("launcher", [Target.PROCESS], indirect=True)


def press_run(qtbot: QtBot, window: MainWindow) -> None:
    button = window.setup.foot.run_button
    assert button.isEnabled()
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)


@pytest.mark.slow
@in_a_process
def test_from_the_preset_to_two_runs_with_a_ratio_and_back_after_a_restart(
    qtbot: QtBot,
    window: MainWindow,
    open_window: Open,
    training: Any,
    type_into: Callable[[QLineEdit, str], None],
) -> None:
    form = window.setup.form
    assert form.editor("preset").value() == "fashion"
    assert form.tiles.chips[Precision.FP32].isChecked() and form.tiles.chips[Precision.BF16].isChecked()
    form.length.unit.edited.emit("steps")
    type_into(form.length, "70")
    type_into(form.batch, "16")

    with qtbot.waitSignal(window.experiments.began, timeout=WAIT_MS):
        press_run(qtbot, window)
    qtbot.waitUntil(lambda: len(window.live.runs()) == 2, timeout=WAIT_MS)
    qtbot.waitUntil(lambda: window.live.runs()[0].step > 5, timeout=WAIT_MS)
    assert window.setup.run_action.text() == "Add to queue"
    training.wait_for_end(window, 2)

    fp32, bf16 = window.live.runs()
    for run in (fp32, bf16):
        assert list(run.column("step")) == list(range(1, 71))
        assert run.column("loss")[-10:].mean() < run.column("loss")[:10].mean()
        assert run.summary is not None and run.summary.samples_per_second
    newest, oldest = window.experiments.runs.records()
    assert (oldest.label, newest.label) == ("FP32", "BF16 AMP")
    assert oldest.comparison == newest.comparison is not None
    assert "×" in row_text(window, newest.id) and "Finished" in row_text(window, newest.id)
    assert window.setup.run_action.text() == "Compare 2 precisions"
    assert "2 runs, about " in window.setup.foot.text(), "the time that these runs took"

    again = open_window()
    assert {record.id for record in again.experiments.runs.records()} == {oldest.id, newest.id}
    assert "×" in row_text(again, newest.id)
    again.runs.open_requested.emit(newest.id)
    assert [list(run.column("loss")) for run in again.live.runs()] == [
        list(fp32.column("loss")),
        list(bf16.column("loss")),
    ]
    assert again.setup.form.length.text() == "70"


def row_text(window: MainWindow, run_id: str) -> str:
    model = window.runs.model
    return " | ".join(model.text(model.lines[run_id], column) for column in range(model.columnCount()))


@pytest.mark.slow
@in_a_process
def test_a_killed_worker_is_told_in_words_and_the_next_run_works(
    window: MainWindow,
    own_children: Callable[[], set[psutil.Process]],
    training: Any,
    tiny: Experiment,
    endless: Experiment,
) -> None:
    (first,) = training.submit(window, endless)
    training.wait_for_steps(window, first)
    for child in own_children():
        child.kill()
    training.wait_for_end(window, 1)
    assert window.experiments.runs.record(first).status is Status.FAILED
    assert "SIGKILL" in window.live.page.failure.card.accessibleName()
    assert "SIGKILL" in window.backstage.log.text() and window.notice.text() == ""
    (second,) = training.submit(window, tiny)
    training.wait_for_end(window, 2)
    assert window.experiments.runs.record(second).status is Status.FINISHED


def test_a_run_of_another_program_appears_by_itself(
    qtbot: QtBot, open_window: Open, home: Path, tiny: Experiment
) -> None:
    window = open_window()
    window.experiments.runs._watch.setInterval(20)
    with Store(home / "ammeter.sqlite") as other:
        record = other.add(tiny, name="from elsewhere")
    qtbot.waitUntil(lambda: window.experiments.runs.record(record.id) is not None, timeout=WAIT_MS)
    assert "from elsewhere" in row_text(window, record.id)


@pytest.mark.slow
def test_what_a_comparison_lacks_is_queued_and_can_be_dragged_into_it(
    qtbot: QtBot, window: MainWindow, training: Any, tiny: Experiment
) -> None:
    (first,) = training.submit(window, tiny)
    training.wait_for_end(window, 1)
    window.runs.set_checked([first])
    with qtbot.waitSignal(window.others.comparisons.reader.shown):
        window.show_page("results")
    window.others.compare.headline.missing_wanted.emit(
        (experiment_from({**tiny.model_dump(), "precision": "bf16"}),)
    )
    assert "1 run queued: BF16 AMP, plain." in window.notice.text()
    training.wait_for_end(window, 2)
    second = window.experiments.runs.records()[0].id
    curves = window.others.compare.curves
    # it joins what it was queued for without being asked to
    qtbot.waitUntil(lambda: [line.name for line in curves.lines] == ["FP32", "BF16 AMP"])
    assert window.runs.checked() == (first, second)
    window.runs.set_checked([first])
    with qtbot.waitSignal(window.others.comparisons.reader.shown):
        window.others.compare.runs_dropped.emit((second,))
    assert window.runs.checked() == (first, second)
