"""Runs on another machine outlive their program, and are read on: no sample is lost, none comes twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from engine.cli.app import main
from engine.cli.session import Interrupt
from engine.experiment.experiment import experiment_from
from engine.experiment.problem import ProblemError
from engine.experiment.sweep import Axis, Grid, Plan
from engine.machines.remote_site import launcher_on
from engine.protocol.events import Event, Failed, Finished, Samples, Started
from engine.runner import Runner
from engine.store.queue import this_process
from engine.store.record import RunRecord
from engine.store.recorder import Recorder
from engine.store.store import Status, Store
from engine.worker.launcher import Launcher
from tests.remote import CLONE, RemoteMachine, eventually

SETTINGS = {
    "model": "linear",
    "dataset": "synthetic-regression",
    "samples": 20,
    "batch_size": 10,
    "steps": 300,
    "device": "cpu",
}
EXPERIMENT = experiment_from(SETTINGS)
FLAGS = [f"--set={key}={value}" for key, value in SETTINGS.items() if key != "steps"]


@pytest.fixture
def there(near: RemoteMachine, home: Path) -> Iterator[Launcher]:
    """Trains to step 100, and on from there once a test lets it."""
    near.talk("training_worker.py")
    near.train_to(100)
    near.make_known()
    with launcher_on(near.machine) as launcher:
        yield launcher


@pytest.fixture
def saved(home: Path) -> Iterator[Store]:
    """The store of the command line."""
    with Store() as store:
        yield store


def begun(store: Store, launcher: Launcher, steps: int = 20, **place: object) -> RunRecord:
    """A run that was left in mid-run, with at least so many samples."""
    run = store.add(EXPERIMENT, machine="near", **place)
    seen = 0
    with closing(Runner(store, launcher).run(run.id)) as events:
        for event in events:
            seen += len(event.step) if isinstance(event, Samples) else 0
            if seen >= steps:
                break
    return store.run(run.id)


def read_on(store: Store, launcher: Launcher, run_id: str, near: RemoteMachine) -> list[Event]:
    """All that is left of a run, which may now train to its end."""
    near.train_to(300)
    return list(Runner(store, launcher).run(run_id))


def steps_of(store: Store, run_id: str) -> list[int]:
    return [int(step) for step in store.samples(run_id)["step"]]


@pytest.mark.slow
def test_a_run_is_left_as_often_as_one_likes_and_read_on(
    store: Store, there: Launcher, near: RemoteMachine
) -> None:
    run = begun(store, there)
    before = steps_of(store, run.id)
    assert before == list(range(1, len(before) + 1)) and len(before) < 300
    assert store.run(run.id).status is Status.RUNNING
    assert store.recover() == (), "its process is gone, but it trains"
    for furthest in (140, 220):
        near.train_to(furthest)
        runner, seen = Runner(store, there), 0
        for event in runner.run(run.id):
            seen += isinstance(event, Samples)
            if seen == 3:
                runner.leave()
    assert store.remote_place(run.id) is not None
    assert isinstance(read_on(store, there, run.id, near)[-1], Finished)
    saved = store.run(run.id)
    assert (saved.status, saved.machine, saved.to_dict()["machine"]) == (Status.FINISHED, "near", "near")
    assert store.remote_place(run.id) is None and steps_of(store, run.id) == list(range(1, 301))
    assert [type(event) for event in store.events(run.id)].count(Started) == 1
    eventually(lambda: not near.folders())


@pytest.mark.slow
def test_what_was_taken_and_not_committed_is_read_again(
    store: Store, there: Launcher, near: RemoteMachine
) -> None:
    class Killed(Recorder):
        def close(self) -> None:
            """As by a kill: what waits is lost."""

        leave = close

    with pytest.MonkeyPatch.context() as context:
        context.setattr("engine.runner.Recorder", Killed)
        run = begun(store, there, steps=60)
    assert len(steps_of(store, run.id)) < 300
    read_on(store, there, run.id, near)
    assert steps_of(store, run.id) == list(range(1, 301))


def test_stop_reaches_a_run_that_was_taken_up(store: Store, there: Launcher) -> None:
    run = begun(store, there)
    runner = Runner(store, there)
    for event in runner.run(run.id):
        if isinstance(event, Samples):
            runner.stop()
    saved = store.run(run.id)
    assert saved.status is Status.STOPPED and saved.summary is not None
    steps = steps_of(store, run.id)
    assert steps == list(range(1, len(steps) + 1)) and len(steps) < 300


@pytest.mark.slow
@pytest.mark.parametrize("is_removed", [False, True])
def test_a_run_whose_keeper_or_folder_is_gone_is_interrupted_with_what_it_had(
    store: Store, there: Launcher, near: RemoteMachine, is_removed: bool
) -> None:
    run = begun(store, there)
    for pid in near.running():
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: not near.running())
    if is_removed:
        near.folders()[0].rename(near.home / "elsewhere")
    events = read_on(store, there, run.id, near)
    assert isinstance(events[-1], Failed) and "near" in events[-1].problem.message
    saved = store.run(run.id)
    assert saved.status is Status.INTERRUPTED and saved.problem is None and saved.summary is not None
    steps = steps_of(store, run.id)
    assert len(steps) >= 20 and steps == list(range(1, len(steps) + 1))
    assert store.remote_place(run.id) is None


@pytest.mark.slow
def test_a_run_that_still_trains_is_not_deleted(store: Store, there: Launcher, near: RemoteMachine) -> None:
    run = begun(store, there)
    for delete in (store.delete, store.remove):
        with pytest.raises(ProblemError) as refused:
            delete([run.id])
        assert "still trains on near" in refused.value.problem.message
    read_on(store, there, run.id, near)
    store.remove([run.id])
    assert not store.has(run.id)


@pytest.mark.slow
def test_a_living_program_keeps_its_run(store: Store, there: Launcher, near: RemoteMachine) -> None:
    run = begun(store, there)
    other = this_process().model_copy(update={"pid": 1, "started": 0.0, "host": "another"})
    with store._connection.writing() as connection:
        connection.execute("UPDATE runs SET owner = ?", (other.model_dump_json(),))
    with pytest.raises(ProblemError) as refused:
        read_on(store, there, run.id, near)
    assert "another instance of Ammeter" in refused.value.problem.message
    with store._connection.writing() as connection:
        connection.execute("UPDATE runs SET owner = ?", (this_process().model_dump_json(),))
    read_on(store, there, run.id, near)


@pytest.mark.slow
def test_the_place_of_a_sweep_goes_on_and_is_not_trained_beside_itself(
    store: Store, there: Launcher, near: RemoteMachine
) -> None:
    axes = (Axis(key="precision", values=("fp32", "bf16")),)
    sweep = store.sweeps.add("", Grid(base=SETTINGS, axes=axes), Plan(), device_name="", machine="near")
    saved = store.sweeps.find(sweep)
    assert saved.machine == "near"
    run = begun(store, there, sweep=sweep, cell=0, repeat=1, comparison=saved.comparison)
    again = store.add(EXPERIMENT, sweep=sweep, cell=0, repeat=1, machine="near")
    assert again.id == run.id and again.status is Status.RUNNING
    read_on(store, there, again.id, near)
    assert [each.id for each in store.runs()] == [run.id]
    with pytest.raises(ProblemError):
        store.add(EXPERIMENT, sweep=sweep, cell=0, repeat=1, machine="near")


@pytest.mark.slow
def test_a_checkpoint_is_resumed_where_it_is(store: Store, there: Launcher, near: RemoteMachine) -> None:
    saving = experiment_from({**SETTINGS, "checkpoint": {"last": True}})
    run = store.add(saving, machine="near")
    runner = Runner(store, there)
    for event in runner.run(run.id):
        if isinstance(event, Samples) and event.step[-1] >= 30:
            runner.stop()
    assert store.run(run.id).status is Status.STOPPED
    queued = store.requeue(run.id)
    assert queued.status is Status.QUEUED
    with closing(Runner(store, there).run(run.id)) as events:
        next(event for event in events if isinstance(event, Samples))
    # what it dropped when it began again is not dropped once more
    read_on(store, there, run.id, near)
    assert store.run(run.id).status is Status.FINISHED and steps_of(store, run.id) == list(range(1, 301))


def test_a_run_is_trained_on_its_own_machine_only(store: Store, there: Launcher, near: RemoteMachine) -> None:
    run = store.add(EXPERIMENT)
    with pytest.raises(ProblemError) as refused:
        read_on(store, there, run.id, near)
    assert refused.value.problem.message == f"{run.title} belongs to this machine."
    assert store.run(run.id).status is Status.QUEUED


@pytest.mark.slow
def test_a_path_that_is_here_is_looked_for_there(
    store: Store, there: Launcher, tmp_path: Path, near: RemoteMachine
) -> None:
    here = store.add(experiment_from({**SETTINGS, "path": str(tmp_path)}), machine="near")
    last = read_on(store, there, here.id, near)[-1]
    assert isinstance(last, Failed)
    assert last.problem.remedy == "Check it. The path must exist on near."
    elsewhere = store.add(experiment_from({**SETTINGS, "path": "/no/such"}), machine="near")
    last = read_on(store, there, elsewhere.id, near)[-1]
    assert isinstance(last, Failed) and last.problem.remedy == "Check it."


def command_line(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "engine", *arguments],
        cwd=CLONE,
        env={**os.environ, "PYTHONPATH": str(CLONE)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def some_samples(store: Store, least: int = 20) -> Callable[[], bool]:
    def are_there() -> bool:
        runs = store.runs()
        return bool(runs) and len(store.samples(runs[0].id).get("step", ())) >= least

    return are_there


@pytest.mark.slow
def test_a_command_line_that_ends_leaves_it_training_and_resume_reads_on(
    saved: Store,
    there: Launcher,
    capsys: pytest.CaptureFixture[str],
    near: RemoteMachine,
) -> None:
    began = command_line("run", "--machine", "near", *FLAGS, "--steps", "300")
    eventually(some_samples(saved))
    began.send_signal(signal.SIGTERM)
    _, said = began.communicate(timeout=60)
    (run,) = saved.runs()
    assert run.status is Status.RUNNING
    assert began.returncode == 128 + signal.SIGTERM
    assert f"{run.name} keeps training on near." in said and f"resume {run.id}" in said
    assert main(["results"]) == 0
    assert "training on near" in capsys.readouterr().out
    near.train_to(300)
    assert main(["resume", run.id, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["machine"] == "near"
    assert steps_of(saved, run.id) == list(range(1, 301))


@pytest.mark.slow
def test_a_machine_with_a_run_is_forgotten_only_by_force(
    saved: Store, there: Launcher, capsys: pytest.CaptureFixture[str], near: RemoteMachine
) -> None:
    run = begun(saved, there)
    assert main(["machines", "remove", "near"]) == 2
    assert "is still training on near" in capsys.readouterr().err
    assert main(["machines", "remove", "near", "--force"]) == 0
    again = saved.run(run.id)
    assert again.status is Status.INTERRUPTED and len(steps_of(saved, run.id)) >= 20
    assert main(["resume", run.id]) == 2
    assert "machine" in capsys.readouterr().err
    near.train_to(300)


def test_only_ctrl_c_stops_what_trains_elsewhere() -> None:
    stopped: list[bool] = []
    with Interrupt(lambda: stopped.append(True), machine="near") as interrupt:
        with pytest.raises(KeyboardInterrupt):
            signal.getsignal(signal.SIGINT)(signal.SIGTERM, None)  # type: ignore[operator]
        assert not interrupt.asked
    with Interrupt(lambda: stopped.append(True), machine="near") as interrupt:
        signal.getsignal(signal.SIGINT)(signal.SIGINT, None)  # type: ignore[operator]
        assert interrupt.asked
        eventually(lambda: stopped == [True])
