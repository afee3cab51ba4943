"""A run under fire: the worker or the whole program is killed in mid-run, and nothing recorded is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.paths import checkpoint_path
from engine.experiment.problem import Kind, ProblemError
from engine.protocol.events import Event, Failed, Finished, Phase, Samples, Started
from engine.runner import Runner
from engine.store.store import Status, Store
from engine.worker.launcher import Launcher, Target
from tests.engine.conftest import TINY

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="signals are POSIX")

ENDLESS = {**TINY, "steps": 100_000_000}


def train(store: Store, launcher: Launcher, **changes: object) -> tuple[str, list[Event]]:
    record = store.add(experiment_from({**TINY, **changes}))
    return record.id, list(Runner(store, launcher).run(record.id))


@pytest.mark.slow
def test_a_run_is_recorded_whole(store, launcher):
    run_id, events = train(store, launcher)
    record, samples = store.run(run_id), store.samples(run_id)
    assert isinstance(events[-1], Finished)
    assert record.status is Status.FINISHED
    assert record.summary == events[-1].summary
    assert list(samples["step"]) == list(range(1, 21))
    assert record.environment is not None and record.environment.device_name
    assert record.experiment.device == "cpu"
    catalog = Runner(store, launcher).catalog()
    assert catalog.device("cpu") is not None and catalog.model("resnet50") is not None


def test_a_killed_worker_leaves_a_failed_run_and_the_next_one_works(store, launcher, own_children):
    record = store.add(experiment_from(ENDLESS))
    told = 0
    for event in Runner(store, launcher).run(record.id):
        if isinstance(event, Samples):
            told = event.step[-1]
            for worker in own_children():
                worker.kill()
    assert isinstance(event, Failed) and event.problem.kind is Kind.WORKER_DIED
    after = store.run(record.id)
    assert after.status is Status.FAILED
    assert after.problem is not None and "SIGKILL" in after.problem.message
    assert len(store.samples(record.id)["step"]) == told
    assert after.summary is not None and after.summary.steps == told
    assert after.summary.samples_per_second is None
    run_id, _ = train(store, launcher)
    assert store.run(run_id).status is Status.FINISHED


PROGRAM = """
import sys
from engine.protocol.events import Samples
from engine.experiment.experiment import Experiment
from engine.worker.launcher import Launcher
from engine.store.store import Store
from engine.runner import Runner
with Store() as store, Launcher() as launcher:
    record = store.add(Experiment.from_json(sys.argv[1]))
    for event in Runner(store, launcher).run(record.id):
        if isinstance(event, Samples):
            print(event.step[-1], event.seconds[-1], flush=True)
"""


@pytest.mark.slow
def test_a_killed_program_leaves_an_interrupted_run_with_its_samples_and_no_worker(home):
    experiment = experiment_from(ENDLESS)
    program = subprocess.Popen(
        [sys.executable, "-P", "-c", PROGRAM, experiment.to_json()], stdout=subprocess.PIPE, text=True
    )
    assert program.stdout is not None
    seen = 0.0
    for line in program.stdout:
        seen = float(line.split()[1])
        if seen > 1.0:
            break
    workers = psutil.Process(program.pid).children(recursive=True)
    assert workers
    os.kill(program.pid, signal.SIGKILL)
    program.stdout.close()
    program.wait()
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert not alive

    with Store() as store:
        (run_id,) = store.recover()
        record, samples = store.run(run_id), store.samples(run_id)
    assert record.status is Status.INTERRUPTED
    assert samples["seconds"][-1] > seen - 0.3
    assert list(samples["step"]) == list(range(1, len(samples["step"]) + 1))


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"model": "resnet51"}, "model"),
        ({"batch_size": 21}, "batch_size"),
        ({"precision": "tf32"}, "precision"),
    ],
)
def test_a_request_that_this_machine_cannot_run_leaves_nothing_behind(store, changes, key):
    # in a thread: a process for each would take seconds to import torch
    with Launcher(Target.THREAD) as launcher:
        _, events = train(store, launcher, **changes)
    assert not any(isinstance(event, Started) for event in events)
    failed = events[-1]
    assert isinstance(failed, Failed)
    assert failed.problem.kind is Kind.REQUEST
    assert failed.problem.key == key
    assert failed.problem.value and failed.problem.remedy
    assert store.runs() == ()
    record = store.add(experiment_from({**TINY, **changes}))
    with Launcher(Target.THREAD) as launcher:
        (*_, failed) = Runner(store, launcher, keeps_refused=True).run(record.id)
    after = store.run(record.id)
    assert after.status is Status.FAILED and after.problem == failed.problem


def test_a_run_that_its_reader_leaves_is_stopped_and_kept(store, launcher):
    record = store.add(experiment_from(ENDLESS))
    events = Runner(store, launcher).run(record.id)
    for event in events:
        if isinstance(event, Samples):
            break
    events.close()
    after = store.run(record.id)
    assert after.status is Status.STOPPED
    assert after.summary is not None and after.summary.steps == len(store.samples(record.id)["step"]) > 0


def stopped_run(store: Store, scripted: Callable[[str], Launcher]) -> str:
    """A run that was stopped after step 12, with a checkpoint of step 10."""
    record = store.add(experiment_from({**TINY, "steps": 30, "checkpoint": {"last": True}}))
    *_, last = Runner(store, scripted("started(); samples(1, 12); finished(12, True)")).run(record.id)
    assert isinstance(last, Finished) and last.stopped
    folder = store.checkpoints_folder(record.id)
    folder.mkdir(parents=True)
    checkpoint_path(folder, "last").write_bytes(b"a checkpoint")
    return record.id


def job_in(folder: Path) -> tuple[str | None, bool]:
    job = json.loads((folder / "job.json").read_text())
    return job["checkpoints"], job["resume"]


def test_a_requeued_run_goes_on_from_its_checkpoint_and_has_each_step_once(store, scripted, tmp_path):
    run_id = stopped_run(store, scripted)
    folder = str(store.checkpoints_folder(run_id))
    assert job_in(tmp_path) == (folder, False)
    store.requeue(run_id)
    body = "started(resumed_step=10); samples(11, 30); finished(30, False)"
    *_, last = Runner(store, scripted(body)).run(run_id)
    assert isinstance(last, Finished) and not last.stopped
    assert job_in(tmp_path) == (folder, True)
    record = store.run(run_id)
    assert record.status is Status.FINISHED and record.summary is not None and record.summary.steps == 30
    assert store.samples(run_id)["step"].tolist() == list(range(1, 31))


def test_what_led_to_a_checkpoint_is_recorded_before_it_is_written(store, scripted, tmp_path):
    record = store.add(experiment_from(TINY))
    body = "started(); samples(1, 5); say(event='phase', name='saving'); finished(5, False)"
    for event in Runner(store, scripted(body)).run(record.id):
        if isinstance(event, Phase):
            assert store.samples(record.id)["step"].tolist() == [1, 2, 3, 4, 5]
    # nor is a run that saves none asked for checkpoints
    assert job_in(tmp_path) == (None, False)


@pytest.mark.parametrize(
    "body",
    [
        "say(event='failed', problem=dict(kind='store', message='Damaged.', remedy='Start anew.'))",
        "say(event='failed', problem=dict(kind='request', message='No.', remedy='Other settings.'))",
        "finished(0, True)",
        "sys.exit(3)",
        "say(event='log', message='its reader leaves'); sys.stdin.read()",
    ],
)
def test_a_resumed_run_that_does_not_start_again_is_what_it_was(store, scripted, body):
    run_id = stopped_run(store, scripted)
    before, events = store.run(run_id), store.events(run_id)
    store.requeue(run_id)
    told = Runner(store, scripted(body)).run(run_id)
    assert any(isinstance(event, Failed | Finished) or event.event == "log" for event in told)
    told.close()
    assert store.run(run_id) == before and store.events(run_id)[: len(events)] == events
    assert store.samples(run_id)["step"].tolist() == list(range(1, 13))
    assert store.requeue(run_id).status is Status.QUEUED


def test_pausing_and_going_on_reach_the_job_that_runs(store, scripted):
    record = store.add(experiment_from(TINY))
    body = """
        started()
        for line in sys.stdin:
            said = json.loads(line)["job"]
            say(event="log", message=said)
            if said == "continue":
                break
        finished(1, False)
    """
    runner = Runner(store, scripted(body))
    runner.pause()  # nothing runs yet
    heard = []
    for event in runner.run(record.id):
        if isinstance(event, Started):
            runner.pause()
        if event.event == "log":
            heard.append(event.message)
            runner.resume()
    assert heard == ["pause", "continue"]


def test_what_came_is_saved_while_the_reader_is_held_up(store, scripted):
    run = store.add(Experiment())
    body = "started(); samples(1, 30); samples(31, 33); sys.stdin.read()"
    events = Runner(store, scripted(body)).run(run.id)
    next(events)
    # the reader asks for nothing more, as a window that has much to paint, or a terminal that is stopped
    pause = threading.Event()
    while len(store.samples(run.id).get("step", ())) < 33:
        pause.wait(0.01)
    assert store.run(run.id).status is Status.RUNNING
    events.close()
    assert store.run(run.id).status is Status.STOPPED


def test_a_fault_while_recording_reaches_the_reader_and_ends_the_worker(store, scripted):
    run = store.add(Experiment())
    events = Runner(store, scripted("started(); sys.stdin.read()")).run(run.id)
    next(events)
    store.delete([run.id])
    with pytest.raises(ProblemError, match="no longer exists"):
        list(events)


def test_a_run_ends_where_its_store_is_taken_away(path, store, scripted):
    run = store.add(Experiment())
    # it goes on once it is told to pause, which is when the store is gone
    runner = Runner(
        store,
        scripted("started(); samples(1, 5); sys.stdin.readline(); samples(6, 9); finished(9, False)"),
    )
    with pytest.raises(ProblemError, match="was removed or replaced during this run"):
        for event in runner.run(run.id):
            if event.event == "samples" and event.step[0] == 1:
                path.unlink()
                runner.pause()
