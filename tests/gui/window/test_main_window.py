"""The window whole, with the real worker: choose, press, watch, close, open again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton, QLineEdit, QWidget
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment, Precision, experiment_from
from engine.protocol.events import Samples
from engine.store.record import Status
from engine.store.store import Store
from engine.worker.launcher import Launcher, Target
from gui.setup.panel import Request
from gui.theme.theme import theme
from gui.window.body import LOW_HEIGHT, OPEN_HEIGHT
from gui.window.main_window import MainWindow
from gui.window.remembered import Settings

WAIT_MS = 60_000
TINY = experiment_from(
    {
        "model": "linear",
        "dataset": "synthetic-regression",
        "samples": 20,
        "batch_size": 10,
        "steps": 40,
        "device": "cpu",
        "measure": {"warmup_steps": 1, "block_steps": 2},
        "optimizer": {"name": "sgd", "learning_rate": 0.01},
    }
)
ENDLESS = experiment_from({**TINY.model_dump(), "steps": 100_000_000})

Open = Callable[[], MainWindow]

in_a_process = pytest.mark.parametrize("launcher", [Target.PROCESS], indirect=True)


@pytest.fixture
def open_window(
    qtbot: QtBot, launcher: Launcher, home: Path, seen_before: Callable[[Path], Settings]
) -> Iterator[Open]:
    """Opens windows on one store, as starting the program again does; the one before is closed first."""
    opened: list[tuple[MainWindow, Store]] = []

    def close_last() -> None:
        if opened:
            window, store = opened.pop()
            window.close_without_asking()
            store.close()
            window.deleteLater()

    def start() -> MainWindow:
        close_last()
        store = Store(home / "ammeter.sqlite")
        window = MainWindow(store, launcher, seen_before(home))
        opened.append((window, store))
        window.show()
        return window

    yield start
    close_last()


@pytest.fixture
def window(qtbot: QtBot, open_window: Open) -> MainWindow:
    window = open_window()
    qtbot.waitUntil(window.setup.run_action.isEnabled, timeout=WAIT_MS)
    return window


def type_into(qtbot: QtBot, edit: QLineEdit, text: str) -> None:
    edit.setFocus()
    edit.selectAll()
    qtbot.keyClick(edit, Qt.Key.Key_Delete)
    qtbot.keyClicks(edit, text)


def press_run(qtbot: QtBot, window: MainWindow) -> None:
    button = window.setup.foot.run_button
    assert button.isEnabled() and button.property("kind") == "primary"
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)


def wait_for_end(qtbot: QtBot, window: MainWindow, runs: int) -> None:
    def all_over() -> bool:
        records = window.experiments.runs.records()
        return len(records) >= runs and all(record.status.is_over for record in records)

    qtbot.waitUntil(all_over, timeout=WAIT_MS)


@in_a_process
def test_from_the_preset_to_two_runs_with_a_ratio_and_back_after_a_restart(
    qtbot: QtBot, window: MainWindow, open_window: Open
) -> None:
    form = window.setup.form
    assert form.preset.value() == "fashion"
    assert form.chips[Precision.FP32].isChecked() and form.chips[Precision.BF16].isChecked()
    form.length.unit_button.click()
    type_into(qtbot, form.length, "70")
    type_into(qtbot, form.batch_size, "16")

    press_run(qtbot, window)
    with qtbot.waitSignal(window.experiments.began, timeout=WAIT_MS):
        pass
    qtbot.waitUntil(lambda: len(window.live.runs()) == 2, timeout=WAIT_MS)
    qtbot.waitUntil(lambda: window.live.runs()[0].step > 5, timeout=WAIT_MS)
    assert not window.setup.run_action.isEnabled()
    wait_for_end(qtbot, window, 2)

    fp32, bf16 = window.live.runs()
    for run in (fp32, bf16):
        assert list(run.column("step")) == list(range(1, 71))
        assert run.column("loss")[-10:].mean() < run.column("loss")[:10].mean()
        assert run.summary is not None and run.summary.samples_per_second
    newest, oldest = window.experiments.runs.records()
    assert (oldest.label, newest.label) == ("FP32", "BF16 AMP")
    assert oldest.comparison == newest.comparison is not None
    assert "×" in row_text(window, newest.id) and "Finished" in row_text(window, newest.id)
    assert window.setup.run_action.isEnabled()

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
    model = window.runs.table.model()
    for row in range(model.rowCount()):
        cells = [str(model.index(row, column).data() or "") for column in range(model.columnCount())]
        if window.runs.model.run(row).id == run_id:
            return " | ".join(cells)
    raise AssertionError(f"{run_id} is not in the table")


def submit(window: MainWindow, *experiments: Experiment) -> tuple[str, ...]:
    return window.experiments.submit("test", [(str(n), one) for n, one in enumerate(experiments)])


def wait_for_steps(qtbot: QtBot, window: MainWindow, run_id: str) -> None:
    qtbot.waitUntil(lambda: window.experiments.runs.live(run_id).step > 0, timeout=WAIT_MS)


def test_stop_ends_the_run_and_the_next_one_begins(qtbot: QtBot, window: MainWindow) -> None:
    (first,) = submit(window, ENDLESS)
    wait_for_steps(qtbot, window, first)
    (second,) = submit(window, TINY)
    assert window.experiments.runs.record(second).status is Status.QUEUED
    assert window.experiments.waiting == (second,)
    window.live.stop_requested.emit()
    wait_for_end(qtbot, window, 2)
    assert window.experiments.runs.record(first).status is Status.STOPPED
    assert window.experiments.runs.record(second).status is Status.FINISHED
    assert (
        len(window.experiments.runs.live(first).column("loss"))
        == window.experiments.runs.record(first).summary.steps
    )


def test_repeats_are_trained_in_turns_and_watched_round_by_round(qtbot: QtBot, window: MainWindow) -> None:
    sides = (("FP32", TINY), ("BF16 AMP", experiment_from({**TINY.model_dump(), "precision": "bf16"})))
    window.setup.run_requested.emit(Request("Tiny", sides, is_comparison=True, name="Tiny", repeats=2))
    assert window.live.strip.title.whole_text() == "FP32 against BF16 AMP, repeat 1 of 2"
    wait_for_end(qtbot, window, 4)
    records = sorted(window.experiments.runs.records(), key=lambda record: record.started)
    assert [(record.label, record.experiment.seed) for record in records] == [
        ("FP32", 0), ("BF16 AMP", 0), ("BF16 AMP", 1), ("FP32", 1)
    ]  # fmt: skip
    assert records[2].name == "Tiny, BF16 AMP, repeat 2"
    assert len({record.comparison for record in records}) == 1
    # the baseline of the ratios stays first, whoever trained first
    assert [run.run_id for run in window.live.runs()] == [records[3].id, records[2].id]
    assert window.live.strip.title.whole_text() == "FP32 against BF16 AMP, repeat 2 of 2"


def test_a_queued_run_can_be_taken_out(qtbot: QtBot, window: MainWindow) -> None:
    (first,) = submit(window, ENDLESS)
    wait_for_steps(qtbot, window, first)
    (second,) = submit(window, TINY)
    window.runs.take_out_requested.emit(second)
    assert window.experiments.runs.record(second) is None and window.experiments.waiting == ()
    window.experiments.stop()
    wait_for_end(qtbot, window, 1)
    assert [record.id for record in window.experiments.runs.records()] == [first]


def test_a_run_is_paused_and_goes_on(qtbot: QtBot, window: MainWindow) -> None:
    (run_id,) = submit(window, ENDLESS)
    wait_for_steps(qtbot, window, run_id)
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
    wait_for_end(qtbot, window, 1)
    assert window.experiments.runs.record(run_id).status is Status.STOPPED


def test_a_stopped_run_is_resumed_from_its_last_checkpoint(qtbot: QtBot, window: MainWindow) -> None:
    (run_id,) = submit(window, experiment_from({**ENDLESS.model_dump(), "checkpoint": {"last": True}}))
    wait_for_steps(qtbot, window, run_id)
    window.experiments.stop()
    wait_for_end(qtbot, window, 1)
    stopped_at = window.experiments.runs.live(run_id).step
    assert window.experiments.why_not_resumed(window.experiments.runs.record(run_id)) is None
    window.runs.resume_requested.emit(run_id)
    qtbot.waitUntil(lambda: window.experiments.runs.live(run_id).step > stopped_at, timeout=WAIT_MS)
    window.experiments.stop()
    wait_for_end(qtbot, window, 1)
    steps = window.experiments.runs.live(run_id).column("step")
    assert list(steps) == list(range(1, len(steps) + 1))
    assert window.live.runs()[0] is window.experiments.runs.live(run_id)


def test_a_resumed_run_that_is_taken_out_again_is_as_it_was(qtbot: QtBot, window: MainWindow) -> None:
    (first,) = submit(window, experiment_from({**ENDLESS.model_dump(), "checkpoint": {"last": True}}))
    wait_for_steps(qtbot, window, first)
    window.experiments.stop()
    wait_for_end(qtbot, window, 1)
    (second,) = submit(window, ENDLESS)
    wait_for_steps(qtbot, window, second)
    window.runs.resume_requested.emit(first)
    assert window.experiments.runs.record(first).status is Status.QUEUED
    assert window.experiments.runs.live(first).status == "queued"
    window.runs.take_out_requested.emit(first)
    assert window.experiments.runs.record(first).status is Status.STOPPED
    assert window.experiments.runs.live(first).status == "stopped"
    window.experiments.stop()
    wait_for_end(qtbot, window, 2)


def test_a_run_without_a_checkpoint_cannot_be_resumed(qtbot: QtBot, window: MainWindow) -> None:
    (run_id,) = submit(window, ENDLESS)
    wait_for_steps(qtbot, window, run_id)
    window.experiments.stop()
    wait_for_end(qtbot, window, 1)
    record = window.experiments.runs.record(run_id)
    assert "no checkpoint" in (window.experiments.why_not_resumed(record) or "")
    window.experiments.resume(run_id)
    assert "no checkpoint" in window.notice.text()
    assert window.experiments.runs.record(run_id).status is Status.STOPPED


@in_a_process
def test_what_is_queued_when_the_window_closes_is_offered_by_the_next(
    qtbot: QtBot, window: MainWindow, open_window: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first,) = submit(window, ENDLESS)
    wait_for_steps(qtbot, window, first)
    (second,) = submit(window, TINY)
    again = open_window()
    assert again.experiments.runs.record(first).status is Status.STOPPED
    assert again.experiments.runs.record(second).status is Status.QUEUED
    assert "still in the queue" in again.notice.text()
    assert again.experiments.why_not_begun(again.experiments.runs.record(second)) is None
    buttons = again.notice.findChildren(QAbstractButton)
    next(button for button in buttons if button.text() == "Run now").click()
    assert again.experiments.why_not_begun(again.experiments.runs.record(second)) == "It waits for its turn."
    wait_for_end(qtbot, again, 2)
    assert again.experiments.runs.record(second).status is Status.FINISHED


def test_a_waiting_run_that_is_gone_by_now_is_told_and_the_others_run(
    qtbot: QtBot, window: MainWindow, home: Path
) -> None:
    with Store(home / "ammeter.sqlite") as other:
        gone, here = other.add(TINY), other.add(TINY)
        other.delete([gone.id])
    window.experiments.resume_waiting([gone.id, here.id])
    assert gone.id in window.notice.text()
    wait_for_end(qtbot, window, 1)
    assert [record.id for record in window.experiments.runs.records()] == [here.id]


@in_a_process
def test_a_killed_worker_is_told_in_words_and_the_next_run_works(
    qtbot: QtBot, window: MainWindow, launcher: Launcher
) -> None:
    (first,) = submit(window, ENDLESS)
    wait_for_steps(qtbot, window, first)
    for child in psutil.Process().children():
        if child.pid not in launcher.idle_worker_pids:
            child.kill()
    wait_for_end(qtbot, window, 1)
    assert window.experiments.runs.record(first).status is Status.FAILED
    assert "SIGKILL" in window.notice.text() and "SIGKILL" in window.dock.log.text()
    (second,) = submit(window, TINY)
    wait_for_end(qtbot, window, 2)
    assert window.experiments.runs.record(second).status is Status.FINISHED


def test_a_run_of_another_program_appears_by_itself(qtbot: QtBot, window: MainWindow, home: Path) -> None:
    with Store(home / "ammeter.sqlite") as other:
        record = other.add(TINY, name="from elsewhere")
    qtbot.waitUntil(lambda: window.experiments.runs.record(record.id) is not None, timeout=WAIT_MS)
    assert "from elsewhere" in row_text(window, record.id)


def test_deleting_leaves_the_run_that_trains(qtbot: QtBot, window: MainWindow) -> None:
    (first,) = submit(window, TINY)
    wait_for_end(qtbot, window, 1)
    (running,) = submit(window, ENDLESS)
    wait_for_steps(qtbot, window, running)
    window.experiments.delete([first, running])
    assert [record.id for record in window.experiments.runs.records()] == [running]
    window.experiments.stop()
    wait_for_end(qtbot, window, 1)


def test_ticked_runs_are_compared_and_the_dock_makes_room(qtbot: QtBot, window: MainWindow) -> None:
    ids = submit(window, TINY, experiment_from({**TINY.model_dump(), "precision": "bf16"}))
    wait_for_end(qtbot, window, 2)
    window.runs.set_checked(ids)
    with qtbot.waitSignal(window.comparisons.comparing.shown):
        window.runs.compare_requested.emit(window.runs.checked())
    assert window.workspace == "compare" and not window.runs.is_open()
    assert [line.key for line in window.compare.curves.lines()] == list(ids)
    assert "BF16 AMP" in window.compare.headline.text()
    window.show_workspace("train")
    assert window.runs.is_open()


def test_what_a_comparison_lacks_is_queued_and_can_be_dragged_into_it(
    qtbot: QtBot, window: MainWindow
) -> None:
    (first,) = submit(window, TINY)
    wait_for_end(qtbot, window, 1)
    window.runs.set_checked([first])
    with qtbot.waitSignal(window.comparisons.comparing.shown):
        window.show_workspace("compare")
    window.compare.missing_wanted.emit((experiment_from({**TINY.model_dump(), "precision": "bf16"}),))
    assert "1 run queued: BF16 AMP, plain." in window.notice.text()
    wait_for_end(qtbot, window, 2)
    second = window.experiments.runs.records()[0].id
    curves = window.compare.curves
    # it joins what it was queued for without being asked to
    qtbot.waitUntil(lambda: [line.name for line in curves.lines()] == ["FP32", "BF16 AMP"])
    assert window.runs.checked() == (first, second)
    window.runs.set_checked([first])
    with qtbot.waitSignal(window.comparisons.comparing.shown):
        window.compare.runs_dropped.emit((second,))
    assert window.runs.checked() == (first, second)


def test_what_the_window_looked_like_survives_a_restart(
    qtbot: QtBot, window: MainWindow, open_window: Open
) -> None:
    theme().set_mode("light")
    window._body.setSizes([400, 900])
    side = window._body.sizes()[0]
    window.runs.set_open(False)
    window.show_workspace("compare")
    again = open_window()
    assert theme().mode == "light"
    assert again._body.sizes()[0] == side != 320
    assert again.workspace == "compare" and not again.runs.is_open()
    theme().set_mode("dark")


def test_broken_settings_do_not_keep_the_window_from_opening(
    qtbot: QtBot, open_window: Open, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (home / "window.json").write_text(
        '{"form": {"preset": 5}, "workspace": "nowhere", "geometry": "%", "theme": 3}'
    )
    window = open_window()
    assert window.workspace == "train"
    assert window.setup.form.preset.value() == "fashion"
    assert "could not be restored" in caplog.text


def test_the_geometry_of_another_screen_is_passed_over_quietly(
    open_window: Open, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (home / "window.json").write_text('{"geometry": "AAAA", "workspace": "compare"}')
    assert open_window().workspace == "compare"
    assert caplog.text == ""


def test_runs_that_show_me_queued_are_not_promised_for_the_next_start(
    qtbot: QtBot, window: MainWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []
    monkeypatch.setattr(
        "gui.window.main_window.may_stop", lambda _window, waiting, _searches: told.append(waiting)
    )
    trains, _own, shown = submit(window, ENDLESS, ENDLESS, ENDLESS)
    wait_for_steps(qtbot, window, trains)
    window.shows.show_me._pair._submitted.add(shown)
    window._may_close()
    assert told == [1]


def test_the_window_repaints_slowly_beside_a_cpu_run(qtbot: QtBot, window: MainWindow) -> None:
    (run_id,) = submit(window, ENDLESS)
    wait_for_steps(qtbot, window, run_id)
    assert window._followed.timer.isActive() and window._followed.timer.interval() == 200
    window.experiments.stop()
    wait_for_end(qtbot, window, 1)
    assert not window._followed.timer.isActive()


@in_a_process
def test_the_worker_never_runs_in_the_windows_process(
    qtbot: QtBot, window: MainWindow, launcher: Launcher
) -> None:
    children: set[int] = set()
    window.experiments.event_taken.connect(
        lambda _id, event: (
            children.update(child.pid for child in psutil.Process().children())
            if isinstance(event, Samples)
            else None
        )
    )
    submit(window, TINY)
    wait_for_end(qtbot, window, 1)
    assert children - launcher.idle_worker_pids


def test_every_control_says_what_it_is(window: MainWindow) -> None:
    silent = [
        control
        for control in window.findChildren(QWidget)
        if isinstance(control, QAbstractButton | QLineEdit)
        and control.objectName() != "qt_spinbox_lineedit"
        and not (control.accessibleName() and (control.toolTip() or isinstance(control.parent(), QLineEdit)))
    ]
    assert not silent, [(control, control.parent(), control.accessibleName()) for control in silent]


def test_a_window_that_becomes_low_takes_the_height_from_the_runs(window: MainWindow) -> None:
    window.resize(1_440, 900)
    assert window.dock.height() == OPEN_HEIGHT
    window.resize(1_100, 700)
    assert window.dock.height() == LOW_HEIGHT
    window.resize(1_440, 900)
    assert window.dock.height() == OPEN_HEIGHT


def test_a_refused_setting_is_told_by_the_name_that_its_field_has(qtbot: QtBot, window: MainWindow) -> None:
    experiment = experiment_from(
        {**TINY.model_dump(), "precision": Precision.BF16, "step": {"fp32_modules": ["layer9.*"]}}
    )
    submit(window, experiment)
    qtbot.waitUntil(lambda: "layer9" in window.notice.text(), timeout=WAIT_MS)
    assert window.notice.text().startswith("Keep in FP32 has")
