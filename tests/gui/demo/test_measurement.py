"""The sequence of the demo: a pilot, then two runs through the queue, and nothing left of what goes wrong."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment, Precision
from engine.experiment.problem import Kind, Problem
from engine.race.showcase import Showcase, showcase
from engine.store.record import Status
from engine.store.store import Store
from engine.worker.launcher import Launcher
from gui.demo.measurement import GuidedMeasurement
from gui.demo.pages import measuring_frame
from gui.session.background import Background
from gui.session.experiments import Experiments

WAIT_MS = 60_000


def shown(experiment: Experiment, **mixed: object) -> Showcase:
    other = experiment.model_copy(update={"precision": Precision.BF16, **mixed})
    return Showcase("Demo", (("FP32", experiment), ("BF16 AMP", other)), "Why.")


@dataclass
class Workspace:
    """Experiments with a real engine, and what was told on the way."""

    qtbot: QtBot
    store: Store
    experiments: Experiments
    measurement: GuidedMeasurement
    measured: list[tuple[str, ...]] = field(default_factory=list)
    refused: list[Problem] = field(default_factory=list)
    captions: list[str] = field(default_factory=list)

    def until(self, is_so: Callable[[], bool]) -> None:
        def holds() -> None:
            assert is_so(), f"{self.captions[-3:]}, {self.measured}, {self.refused}, {self.statuses()}"

        self.qtbot.waitUntil(holds, timeout=WAIT_MS)

    def until_training(self, name: str = "Demo, FP32") -> None:
        def trains() -> bool:
            run_id = self.experiments.running
            run = self.experiments.runs.record(run_id) if run_id else None
            live = self.experiments.runs.opened(run_id or "")
            return run is not None and run.name.startswith(name) and live is not None and live.step > 0

        self.until(trains)

    def until_measured(self) -> tuple[str, ...]:
        self.until(lambda: bool(self.measured))
        return self.measured[0]

    def until_refused(self) -> str:
        self.until(lambda: bool(self.refused))
        self.until_idle()
        return f"{self.refused[-1].message} {self.refused[-1].remedy}"

    def until_idle(self) -> None:
        self.until(lambda: not self.measurement.is_at_work and self.experiments.running is None)

    def statuses(self) -> dict[str, Status]:
        return {run.name: run.status for run in self.store.runs()}


@pytest.fixture
def workspace(
    qtbot: QtBot, launcher: Launcher, home: Path, monkeypatch: pytest.MonkeyPatch, tiny: Experiment
) -> Iterator[Workspace]:
    choose(monkeypatch, shown(tiny))
    # its runs are over in a moment
    monkeypatch.setattr("engine.race.showcase.SLOWER_SECONDS", 0.1)
    with Store(home / "ammeter.sqlite") as store:
        experiments, background = Experiments(store, launcher), Background()
        made = Workspace(qtbot, store, experiments, GuidedMeasurement(experiments, background))
        made.measurement.measured.connect(made.measured.append)
        made.measurement.refused.connect(made.refused.append)
        made.measurement.progressed.connect(
            lambda progress: made.captions.append(" ".join(measuring_frame(progress).caption))
        )
        experiments.load()
        experiments.start()
        yield made
        made.measurement.close()
        background.stop()
        experiments.shut_down()


def choose(monkeypatch: pytest.MonkeyPatch, case: Showcase) -> None:
    monkeypatch.setattr("gui.demo.measurement.showcase", lambda _catalog: case)


def without_pilot(monkeypatch: pytest.MonkeyPatch, case: Showcase) -> None:
    """Lets the pilot of a pair be over soon, whose runs then are as they are in `case`."""
    choose(monkeypatch, case)
    monkeypatch.setattr(Showcase, "of_pace", lambda self, _pace: self)


@pytest.mark.slow
def test_pressed_before_the_machine_is_known_and_twice_it_measures_one_pair(workspace: Workspace) -> None:
    workspace.measurement.start()
    workspace.measurement.start()
    assert "examining this machine" in workspace.captions[-1]
    full, mixed = workspace.until_measured()
    assert workspace.statuses() == dict.fromkeys(("Demo, FP32", "Demo, BF16 AMP"), Status.FINISHED)
    runs = [workspace.store.run(run_id) for run_id in (full, mixed)]
    assert [run.experiment.precision for run in runs] == [Precision.FP32, Precision.BF16]
    assert runs[0].comparison == runs[1].comparison is not None
    assert not workspace.measurement.is_at_work and workspace.measurement.owns(full)
    # the pilot is gone, and its comparison with it
    assert workspace.store.deleted() == () and len(workspace.store.comparisons()) == 1
    begun = [caption.split()[0] for caption in workspace.captions]
    assert begun.index("Testing") < begun.index("Measuring")


def test_the_pilots_slower_side_fixes_the_steps_and_a_late_answer_stops_nothing(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, tiny: Experiment
) -> None:
    paces, stops = list[float](), list[str]()

    def of_pace(case: Showcase, pace: float) -> Showcase:
        paces.append(pace)
        steps = {"steps": tiny.least_steps + 7}
        return shown(case.sides[0][1].model_copy(update=steps))

    monkeypatch.setattr(Showcase, "of_pace", of_pace)
    monkeypatch.setattr(workspace.experiments, "stop", lambda: stops.append("stopped"))
    workspace.measurement.stop_and_start()
    ids = workspace.until_measured()
    assert stops == [], "what was asked about has ended, and its own first run would be the one"
    assert {workspace.store.run(run_id).experiment.steps for run_id in ids} == {tiny.least_steps + 7}
    assert len(paces) == 1 and paces[0] > 0


@pytest.mark.slow
def test_a_run_that_trains_is_asked_about_and_what_waits_waits_longer(
    workspace: Workspace, tiny: Experiment, endless: Experiment
) -> None:
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
    assert workspace.store.run(running).status is Status.STOPPED
    workspace.until(lambda: workspace.statuses()["after"] is Status.FINISHED)


def test_a_machine_that_cannot_be_looked_at_is_told_each_time(
    qtbot: QtBot, store: Store, launcher: Launcher
) -> None:
    experiments, background = Experiments(store, launcher), Background()
    measurement = GuidedMeasurement(experiments, background)
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
    assert "waiting in the queue" in workspace.captions[-1]
    with workspace.qtbot.waitSignal(workspace.measurement.stopped):
        workspace.measurement.stop()
    assert workspace.statuses() == {"before": Status.RUNNING}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "by"),
    [("Demo, pilot", "its button"), ("Demo, FP32", "the run's"), ("Demo, pilot", "a deletion")],
)
def test_stopped_on_the_first_run_it_leaves_nothing_behind(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, endless: Experiment, name: str, by: str
) -> None:
    without_pilot(monkeypatch, shown(endless))
    if "pilot" in name:
        monkeypatch.setattr(Showcase, "pilot", lambda self: self)
    workspace.measurement.start()
    workspace.until_training(name)
    with workspace.qtbot.waitSignal(workspace.measurement.stopped, timeout=WAIT_MS):
        if by == "its button":
            workspace.measurement.stop()
        elif by == "the run's":
            workspace.experiments.stop()
        else:
            workspace.experiments.dequeue(workspace.experiments.waiting[0])
    workspace.until_idle()
    assert workspace.measured == [] and workspace.experiments.waiting == ()
    assert workspace.store.runs() == () and workspace.store.deleted() == ()


@pytest.mark.slow
def test_stopped_on_the_second_run_it_keeps_the_whole_first_one(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, tiny: Experiment
) -> None:
    without_pilot(monkeypatch, shown(tiny, steps=100_000_000))
    workspace.measurement.start()
    workspace.until_training("Demo, BF16 AMP")
    workspace.measurement.report_progress()
    assert "Measuring mixed precision" in workspace.captions[-1]
    with workspace.qtbot.waitSignal(workspace.measurement.stopped, timeout=WAIT_MS):
        workspace.measurement.stop()
    workspace.until_idle()
    assert workspace.statuses() == {"Demo, FP32": Status.FINISHED} and workspace.store.deleted() == ()


@pytest.mark.slow
@pytest.mark.parametrize("failing", ["the pilot", "the first run", "the second run"])
def test_a_run_that_fails_is_told_and_the_first_takes_the_second_with_it(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, tiny: Experiment, failing: str
) -> None:
    step = tiny.step.model_copy(update={"fp32_modules": ("layer9.*",)})
    optimizer = tiny.optimizer.model_copy(update={"learning_rate": 1_000.0})
    unstable = tiny.model_copy(update={"optimizer": optimizer, "on_nan": "fail", "steps": 2_000})
    pilot = shown(tiny, step=step) if failing == "the pilot" else shown(tiny)
    monkeypatch.setattr(Showcase, "pilot", lambda _self: pilot)
    without_pilot(monkeypatch, shown(unstable) if failing == "the first run" else shown(tiny, step=step))
    workspace.measurement.start()
    assert ("not a number" if failing == "the first run" else "layer9") in workspace.until_refused()
    failed = {name: status for name, status in workspace.statuses().items() if status is not Status.FINISHED}
    names = {
        "the pilot": "Demo, pilot, BF16 AMP",
        "the first run": "Demo, FP32",
        "the second run": "Demo, BF16 AMP",
    }
    assert failed == {names[failing]: Status.FAILED}


def test_a_store_that_refuses_is_told_and_nothing_is_half_written(workspace: Workspace, home: Path) -> None:
    with closing(sqlite3.connect(home / "ammeter.sqlite")) as connection, connection:
        connection.execute(
            "CREATE TRIGGER refusal BEFORE INSERT ON runs BEGIN SELECT RAISE(ABORT, 'read-only'); END"
        )
    workspace.measurement.start()
    assert "read-only" in workspace.until_refused()
    assert workspace.store.runs() == () and workspace.experiments.waiting == ()


def test_a_window_that_closes_meanwhile_leaves_no_run_in_the_queue(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, endless: Experiment
) -> None:
    without_pilot(monkeypatch, shown(endless))
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
    measure = case.sides[0][1].measure.model_copy(update={"warmup_steps": 0})
    few = {"steps": 3, "batch_size": 4, "measure": measure}
    sides = [(label, side.model_copy(update=few)) for label, side in case.pilot().sides]
    run_ids = workspace.experiments.submit("A few steps", sides)
    workspace.until(lambda: all(workspace.store.run(run_id).status.is_over for run_id in run_ids))
    assert {workspace.store.run(run_id).status for run_id in run_ids} == {Status.FINISHED}
    assert workspace.store.pictures(run_ids) is not None
