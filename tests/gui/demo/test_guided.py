"""The sequence of the demo: two runs through the ordinary queue, and nothing left of what goes wrong."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment, Measure, Precision
from engine.experiment.problem import Kind, Problem
from engine.race.showcase import FIRST, PATIENCE_SECONDS, SECOND, Showcase, Span, busy, showcase
from engine.store.record import Status
from engine.store.store import Store
from engine.worker.launcher import Launcher
from gui.demo.measurement import GuidedMeasurement
from gui.demo.panel import DemoPanel
from gui.session.background import Background
from gui.session.experiments import Experiments

WAIT_MS = 60_000


def shown(experiment: Experiment, **mixed: object) -> Showcase:
    other = experiment.model_copy(update={"precision": Precision.BF16, **mixed})
    return Showcase("Demo", (("FP32", experiment), ("BF16 AMP", other)), "Why.")


@dataclass
class Workspace:
    """Experiments with a real engine, the panel, and what was told on the way."""

    qtbot: QtBot
    store: Store
    experiments: Experiments
    panel: DemoPanel
    measurement: GuidedMeasurement
    told: list[object] = field(default_factory=list)

    def until(self, is_so: Callable[[], bool]) -> None:
        def holds() -> None:
            assert is_so(), f"on the page {self.panel.page}, told {self.told}, runs {self.statuses()}"

        self.qtbot.waitUntil(holds, timeout=WAIT_MS)

    def until_training(self, name: str = "Demo, FP32") -> None:
        def trains() -> bool:
            run_id = self.experiments.running
            run = self.experiments.runs.record(run_id) if run_id else None
            live = self.experiments.runs.opened(run_id or "")
            return run is not None and run.name.startswith(name) and live is not None and live.step > 0

        self.until(trains)

    def until_measured(self) -> tuple[str, ...]:
        self.until(lambda: bool(self.told))
        (ids,) = self.told
        assert isinstance(ids, tuple)
        return ids

    def until_idle(self) -> None:
        self.until(lambda: not self.measurement.is_at_work and self.experiments.running is None)

    def statuses(self) -> dict[str, Status]:
        return {run.name: run.status for run in self.store.runs()}

    def until_refused(self) -> str:
        self.until(lambda: self.panel.page == "refused")
        words = self.panel.refused.words()
        self.until_idle()
        return words

    def assert_nothing_left(self) -> None:
        assert self.store.runs() == () and self.store.deleted() == () and self.store.comparisons() == ()
        assert self.experiments.waiting == () and not self.measurement._patience.isActive()


@pytest.fixture
def workspace(
    qtbot: QtBot, launcher: Launcher, home: Path, monkeypatch: pytest.MonkeyPatch, tiny: Experiment
) -> Iterator[Workspace]:
    monkeypatch.setattr("gui.demo.measurement.showcase", lambda _catalog: shown(tiny))
    # its runs are over in a moment
    monkeypatch.setattr("engine.race.showcase.LEAST_RACE_SECONDS", 0.0)
    with Store(home / "ammeter.sqlite") as store:
        experiments, panel, background = Experiments(store, launcher), DemoPanel(), Background()
        qtbot.addWidget(panel)
        made = Workspace(qtbot, store, experiments, panel, GuidedMeasurement(experiments, panel, background))
        made.measurement.measured.connect(made.told.append)
        # as the window does it
        made.measurement.refused.connect(
            lambda problem: panel.show_refusal(problem.message, problem.remedy, was_measured=True)
        )
        experiments.load()
        experiments.start()
        yield made
        made.measurement.close()
        background.stop()
        experiments.shut_down()


def choose(monkeypatch: pytest.MonkeyPatch, case: Showcase) -> None:
    monkeypatch.setattr("gui.demo.measurement.showcase", lambda _catalog: case)


def test_pressed_before_the_machine_is_known_and_twice_it_measures_one_pair(workspace: Workspace) -> None:
    workspace.measurement.start()
    workspace.measurement.start()
    assert workspace.panel.page == "measuring"
    assert "examining this machine" in workspace.panel.measuring.words()
    full, mixed = workspace.until_measured()
    assert workspace.statuses() == dict.fromkeys(("Demo, FP32", "Demo, BF16 AMP"), Status.FINISHED)
    runs = [workspace.store.run(run_id) for run_id in (full, mixed)]
    assert [run.experiment.precision for run in runs] == [Precision.FP32, Precision.BF16]
    assert runs[0].comparison == runs[1].comparison is not None
    assert not workspace.measurement.is_at_work and workspace.measurement.pair.owns(full)


@pytest.mark.slow
def test_a_run_that_trains_is_asked_about_and_what_waits_waits_longer(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, tiny: Experiment, endless: Experiment
) -> None:
    # on a machine that is slow for a moment its runs would begin anew
    monkeypatch.setattr("gui.demo.measurement.adapted", lambda *_: None)
    asked: list[str] = []
    workspace.measurement.busy.connect(asked.append)
    (running,) = workspace.experiments.submit("x", [("x", endless)], name="before")
    (waiting,) = workspace.experiments.submit("y", [("y", tiny)], name="after")
    workspace.until_training("before")
    workspace.measurement.start()
    assert asked == ["A run is training."] and not workspace.measurement.is_at_work
    workspace.measurement.stop_and_start()
    assert workspace.experiments.waiting[-1] == waiting and len(workspace.experiments.waiting) == 3
    workspace.until_measured()
    workspace.until(lambda: workspace.statuses()["after"] is Status.FINISHED)
    assert workspace.store.run(running).status is Status.STOPPED
    order = sorted(workspace.store.runs(), key=lambda run: run.started or run.created)
    assert [run.name for run in order] == ["before", "Demo, FP32", "Demo, BF16 AMP", "after"]


def test_what_ended_before_the_question_was_answered_is_not_stopped_in_its_place(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    stops: list[str] = []
    monkeypatch.setattr("gui.demo.measurement.adapted", lambda *_: None)
    monkeypatch.setattr(workspace.experiments, "stop", lambda: stops.append("stopped"))
    workspace.measurement.stop_and_start()
    workspace.until_measured()
    assert stops == [], "its own first run would be the one"


def test_a_machine_that_cannot_be_looked_at_is_told_on_the_page_each_time(
    qtbot: QtBot, store: Store, launcher: Launcher
) -> None:
    experiments, panel, background = Experiments(store, launcher), DemoPanel(), Background()
    qtbot.addWidget(panel)
    measurement = GuidedMeasurement(experiments, panel, background)
    lost = Problem(kind=Kind.INTERNAL, message="The worker died.", remedy="Reinstall.")
    with qtbot.waitSignal(measurement.refused) as before:
        measurement.start()
        experiments._thread.problem.emit(lost)
    with qtbot.waitSignal(measurement.refused) as after:
        measurement.start()
    assert before.args == after.args == [lost] and not measurement.is_at_work


@pytest.mark.slow
def test_begun_next_it_waits_for_the_run_and_can_be_stopped_while_it_waits(
    workspace: Workspace, endless: Experiment
) -> None:
    workspace.experiments.submit("x", [("x", endless)], name="before")
    workspace.until_training("before")
    workspace.measurement.start_next()
    assert "waiting in the queue" in workspace.panel.measuring.words()
    with workspace.qtbot.waitSignal(workspace.measurement.stopped):
        workspace.measurement.stop()
    assert workspace.statuses() == {"before": Status.RUNNING}


@pytest.mark.slow
@pytest.mark.parametrize("by", ["its button", "its button as its time is over", "the run's", "a deletion"])
def test_stopped_it_leaves_nothing_behind(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, by: str, endless: Experiment
) -> None:
    choose(monkeypatch, shown(endless))
    monkeypatch.setattr("gui.demo.measurement.adapted", lambda *_: None)
    workspace.measurement.start()
    workspace.until_training()
    with workspace.qtbot.waitSignal(workspace.measurement.stopped, timeout=WAIT_MS):
        if by.startswith("its button"):
            workspace.measurement.stop()
            if "time" in by:
                workspace.measurement._patience.timeout.emit()
        elif by == "the run's":
            workspace.experiments.stop()
            # the other one would begin by itself
            workspace.measurement.stop()
        else:
            workspace.experiments.dequeue(workspace.experiments.waiting[0])
    workspace.until_idle()
    assert workspace.told == []
    workspace.assert_nothing_left()


def test_stopped_on_the_second_run_it_keeps_the_whole_first_one(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, tiny: Experiment
) -> None:
    choose(monkeypatch, shown(tiny, steps=100_000_000))
    workspace.measurement.start()
    workspace.until_training("Demo, BF16 AMP")
    assert "Measuring mixed precision" in workspace.panel.measuring.words()
    with workspace.qtbot.waitSignal(workspace.measurement.stopped, timeout=WAIT_MS):
        workspace.measurement.stop()
    workspace.until_idle()
    assert workspace.statuses() == {"Demo, FP32": Status.FINISHED} and workspace.store.deleted() == ()


@pytest.mark.parametrize("failing", ["the first run", "the second run"])
def test_a_run_that_fails_is_told_on_the_page_and_the_first_takes_the_second_with_it(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, tiny: Experiment, failing: str
) -> None:
    step = tiny.step.model_copy(update={"fp32_modules": ("layer9.*",)})
    optimizer = tiny.optimizer.model_copy(update={"learning_rate": 1_000.0})
    unstable = tiny.model_copy(update={"optimizer": optimizer, "on_nan": "fail", "steps": 2_000})
    is_first = failing == "the first run"
    choose(monkeypatch, shown(unstable) if is_first else shown(tiny, step=step))
    workspace.measurement.start()
    assert ("not a number" if is_first else "layer9") in workspace.until_refused()
    both = {"Demo, FP32": Status.FINISHED, "Demo, BF16 AMP": Status.FAILED}
    assert workspace.statuses() == ({"Demo, FP32": Status.FAILED} if is_first else both)


def test_a_store_that_refuses_is_told_on_the_page_and_nothing_is_half_written(
    workspace: Workspace, home: Path
) -> None:
    with closing(sqlite3.connect(home / "ammeter.sqlite")) as connection, connection:
        connection.execute(
            "CREATE TRIGGER refusal BEFORE INSERT ON runs BEGIN SELECT RAISE(ABORT, 'read-only'); END"
        )
    workspace.measurement.start()
    assert "read-only" in workspace.until_refused()
    assert workspace.store.runs() == () and workspace.experiments.waiting == ()


@pytest.mark.parametrize("slow", [FIRST, SECOND], ids=["the first run", "the second run"])
def test_a_machine_that_is_slower_than_thought_begins_both_anew_once_with_less(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, tiny: Experiment, endless: Experiment, slow: Span
) -> None:
    shorter = tiny.model_copy(update={"steps": 50})

    def adapted(case: Showcase, span: Span, *_: object) -> Showcase | None:
        return once(case.of_length(shorter), case) if span is slow else None

    choose(monkeypatch, shown(endless) if slow is FIRST else shown(tiny, steps=100_000_000))
    monkeypatch.setattr("engine.race.showcase._LEAST_SECONDS", 0.0)
    monkeypatch.setattr("gui.demo.measurement.adapted", adapted)
    workspace.measurement.start()
    ids = workspace.until_measured()
    runs = {(run.id, run.experiment.steps, run.status) for run in workspace.store.runs()}
    assert runs == {(run_id, 50, Status.FINISHED) for run_id in ids}
    assert workspace.store.deleted() == () and len(workspace.store.comparisons()) == 1


def once(better: Showcase, case: Showcase) -> Showcase | None:
    return None if case == better else better


def test_a_race_that_was_over_too_soon_is_measured_longer(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, tiny: Experiment
) -> None:
    longer, paces = tiny.model_copy(update={"steps": 60}), []

    def lengthened(case: Showcase, seen: tuple[float, float]) -> Showcase | None:
        paces.append(seen)
        return once(case.of_length(longer), case)

    monkeypatch.setattr("gui.demo.measurement.lengthened", lengthened)
    workspace.measurement.start()
    ids = workspace.until_measured()
    assert {(run.id, run.experiment.steps) for run in workspace.store.runs()} == {(run, 60) for run in ids}
    assert len(paces) == 2 and min(map(min, paces)) > 0 and workspace.store.deleted() == ()


@pytest.mark.slow
def test_a_machine_on_which_each_race_is_too_short_shows_none(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gui.demo.measurement.adapted", lambda *_: None)
    monkeypatch.setattr("gui.demo.measurement.lengthened", lambda case, _paces: case)
    workspace.measurement.start()
    assert "ended too early" in workspace.until_refused() and not workspace.told


@pytest.mark.parametrize("by", ["its pace", "patience"])
def test_a_machine_that_is_too_slow_is_called_busy_and_can_be_tried_again(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, by: str, tiny: Experiment, endless: Experiment
) -> None:
    problem = busy(tiny, 3) if by == "its pace" else None
    # it never has enough steps for a speed
    choose(monkeypatch, shown(endless.model_copy(update={"measure": Measure(block_steps=100_000)})))
    monkeypatch.setattr("engine.race.showcase._LEAST_SECONDS", 0.0)
    monkeypatch.setattr("gui.demo.measurement.adapted", lambda *_: problem)
    workspace.measurement.start()
    if by == "patience":
        workspace.until_training()
        patience = workspace.measurement._patience
        assert patience.isActive() and patience.interval() == 1_000 * PATIENCE_SECONDS
        for is_held in (True, False):
            workspace.experiments.toggle_pause()
            workspace.until(lambda held=is_held: patience.isActive() is not held)
        # it is looked at once more before it is given up
        patience.timeout.emit()
        assert workspace.panel.page == "measuring"
        patience.timeout.emit()
    assert "This machine is busy" in workspace.until_refused()
    assert workspace.panel.refused.run_demo.text().strip() == "Try again"
    workspace.assert_nothing_left()


def test_a_window_that_closes_meanwhile_leaves_no_run_in_the_queue(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, endless: Experiment
) -> None:
    choose(monkeypatch, shown(endless))
    monkeypatch.setattr("gui.demo.measurement.adapted", lambda *_: None)
    workspace.measurement.start()
    workspace.until_training()
    workspace.measurement.close()
    workspace.experiments.shut_down()
    assert workspace.statuses() == {"Demo, FP32": Status.STOPPED}


@pytest.mark.slow
def test_this_machine_can_train_what_is_chosen_for_it(workspace: Workspace) -> None:
    workspace.until(lambda: workspace.experiments.catalog is not None)
    assert workspace.experiments.catalog is not None
    case = showcase(workspace.experiments.catalog)
    short = [(label, one.model_copy(update={"steps": 3})) for label, one in case.sides]
    run_ids = workspace.experiments.submit("A few steps", short)
    workspace.until(lambda: all(workspace.store.run(run_id).status.is_over for run_id in run_ids))
    assert {workspace.store.run(run_id).status for run_id in run_ids} == {Status.FINISHED}
    assert workspace.store.pictures(run_ids) is not None
