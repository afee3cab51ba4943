"""A run that ended early goes on from its checkpoint: nothing stands twice, and nothing is lost."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.experiment.experiment import Experiment
from engine.experiment.paths import checkpoint_path
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.protocol.events import Epoch, Failed, Finished, Log, Samples, Skipped, Started, Summary
from engine.store.record import RunRecord, Status
from engine.store.store import Store

PROBLEM = Problem(kind=Kind.WORKER_DIED, message="It died.", remedy="Run it again.")
SUMMARY = Summary(steps=60, samples_per_second=12.5)
STOPPED = Finished(summary=SUMMARY, stopped=True)


def epoch(number: int, step: int) -> Epoch:
    return Epoch(epoch=number, step=step, seconds=float(step), train_loss=1.0 / number)


def save_checkpoint(store: Store, run: RunRecord) -> Path:
    folder = store.checkpoints_folder(run.id)
    folder.mkdir(parents=True)
    checkpoint_path(folder, "last").write_bytes(b"a checkpoint")
    return folder


@pytest.fixture
def ended(store: Store, started: Callable[..., Started], batch: Callable[..., Samples]) -> RunRecord:
    """Stopped after 60 steps, with a checkpoint of step 50."""
    run = store.add(Experiment())
    store.begin(run.id)
    store.record(run.id, [started(), batch(1, 60), Skipped(steps=(3, 49))])
    store.record(run.id, [epoch(1, 25), epoch(2, 50), Skipped(steps=(55,)), Log(message="later"), STOPPED])
    save_checkpoint(store, run)
    return store.run(run.id)


def resumed(started: Callable[..., Started], step: int) -> Started:
    return started().model_copy(update={"resumed_step": step})


def test_a_requeued_run_keeps_what_it_has_until_it_starts(store: Store, ended: RunRecord) -> None:
    queued = store.requeue(ended.id)
    assert (queued.status, queued.summary, queued.started) == (Status.QUEUED, SUMMARY, ended.started)
    assert [item.key for item in store.waiting.claimable()] == [ended.id]
    assert len(store.samples(ended.id)["step"]) == 60


def test_what_came_after_the_checkpoint_is_dropped_when_the_run_starts_again(store, ended, started, batch):
    store.requeue(ended.id)
    store.begin(ended.id)
    again = resumed(started, 50)
    store.record(ended.id, [Log(message="before it started"), again, batch(51, 10)])
    running = store.run(ended.id)
    assert (running.status, running.summary, running.ended) == (Status.RUNNING, None, None)
    assert running.started == ended.started
    assert store.samples(ended.id)["step"].tolist() == list(range(1, 61))
    kept = store.events(ended.id)
    assert kept == (
        started(),
        Skipped(steps=(3, 49)),
        epoch(1, 25),
        epoch(2, 50),
        Log(message="before it started"),
        again,
    )
    store.record(ended.id, [Skipped(steps=(57,)), epoch(3, 75), Finished(summary=Summary(steps=75))])
    assert store.run(ended.id).status is Status.FINISHED
    assert store.summary_so_far(ended.id).steps == 60


@pytest.mark.parametrize(
    ("before", "between", "kept"),
    [
        # skipped steps on both sides of the checkpoint
        ([Skipped(steps=(9, 10, 11)), Log(message="later")], None, [Skipped(steps=(9, 10))]),
        # what was recorded between two resumptions from the same checkpoint
        ([], [Log(message="the first time")], []),
        # a NaN after the checkpoint, which is reported again
        ([Log(message="NaN since step 12", step=12)], None, []),
    ],
)
def test_what_came_after_the_checkpoint_stands_nowhere_twice(store, started, batch, before, between, kept):
    run, again = store.add(Experiment()), resumed(started, 10)
    store.record(run.id, [started(), batch(1, 20), *before])
    if between is not None:
        store.record(run.id, [again, batch(11, 5), *between])
    store.record(run.id, [again, batch(11, 2)])
    assert store.events(run.id) == (started(), *kept, again)
    assert store.samples(run.id)["step"].tolist() == list(range(1, 13))


def test_all_of_it_is_dropped_or_nothing(store, ended, started, batch):
    before = store.events(ended.id), store.samples(ended.id)["step"].tolist()
    store._connection.read(
        "CREATE TEMP TRIGGER full BEFORE UPDATE ON runs BEGIN SELECT raise(ABORT, 'disk full'); END"
    )
    with pytest.raises(ProblemError, match="disk full"):
        store.record(ended.id, [resumed(started, 50), batch(51, 1)])
    assert (store.events(ended.id), store.samples(ended.id)["step"].tolist()) == before


@pytest.mark.parametrize(
    ("last", "status"),
    [(STOPPED, Status.STOPPED), (Failed(problem=PROBLEM, detail="trace", summary=SUMMARY), Status.FAILED)],
)
def test_a_withdrawn_run_is_what_it_was_before(store, started, last, status):
    run = store.add(Experiment())
    store.begin(run.id)
    store.record(run.id, [started(), last])
    save_checkpoint(store, run)
    before = store.run(run.id)
    assert before.status is status
    for begins in (False, True):
        store.requeue(run.id)
        if begins:
            store.begin(run.id)
        store.withdraw(run.id)
        assert store.run(run.id) == before
    store.withdraw(run.id)
    assert store.run(run.id) == before


def test_a_new_run_that_is_withdrawn_is_gone_and_an_old_one_stays(store: Store) -> None:
    new, failed = store.add(Experiment()), store.add(Experiment())
    store.record(failed.id, [Failed(problem=PROBLEM)])
    store.withdraw(new.id)
    store.withdraw(failed.id)
    assert [run.id for run in store.runs()] == [failed.id]


def test_a_resumed_run_that_is_stopped_before_its_first_step_keeps_its_figures(store, ended, started):
    store.requeue(ended.id)
    store.begin(ended.id)
    early = Finished(summary=Summary(speed_note="Stopped before training began."), stopped=True)
    store.record(ended.id, [resumed(started, 50), early])
    after = store.run(ended.id)
    assert after.status is Status.STOPPED and after.summary is not None
    assert (after.summary.steps, after.summary.speed_note) == (50, "Stopped before training began.")


@pytest.mark.parametrize("on_nan", ["stop", "fail"])
def test_a_run_that_a_nan_ended_does_not_go_on(store, started, on_nan):
    run = store.add(Experiment.model_validate({"on_nan": on_nan}))
    summary = Summary(steps=9, first_nan_step=7)
    nan = Problem(kind=Kind.NOT_A_NUMBER, message="NaN.", remedy="Clip.")
    last = (
        Finished(summary=summary, stopped=True) if on_nan == "stop" else Failed(problem=nan, summary=summary)
    )
    begun = started().model_copy(update={"experiment": run.experiment})
    store.record(run.id, [begun, last])
    save_checkpoint(store, run)
    with pytest.raises(ProblemError, match="from step 7 on"):
        store.requeue(run.id)


INTERRUPTED = """
import sys
from pathlib import Path
from engine.store.store import Store
store = Store(Path(sys.argv[1]))
store.requeue(sys.argv[2])
store.begin(sys.argv[2])
print("running", flush=True)
sys.stdin.read()
"""


def test_a_run_whose_resuming_was_killed_before_it_started_is_what_it_was(store, ended):
    root = Path(__file__).parents[3]
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(store.path), ended.id],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=root,
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == "running\n"
        assert store.run(ended.id).status is Status.RUNNING
        with pytest.raises(ProblemError, match="belongs to another instance of Ammeter"):
            store.withdraw(ended.id)
        other.kill()
    assert store.recover() == (ended.id,)
    assert store.run(ended.id) == ended


def test_a_run_that_cannot_go_on_says_why(store: Store, ended: RunRecord) -> None:
    queued, finished = store.add(Experiment(), name="Waiting"), store.add(Experiment(), name="Done")
    store.record(finished.id, [Finished(summary=SUMMARY)])
    bare = store.add(Experiment(), name="Bare")
    store.record(bare.id, [STOPPED])
    for run, words in (
        (queued, "Waiting is already queued"),
        (finished, "Done has finished"),
        (bare, "Bare has no checkpoint"),
    ):
        with pytest.raises(ProblemError, match=words) as raised:
            store.requeue(run.id)
        assert raised.value.problem.kind is Kind.REQUEST and raised.value.problem.remedy
    store.requeue(ended.id)
    store.begin(ended.id)
    with pytest.raises(ProblemError, match="is already running"):
        store.requeue(ended.id)


def test_deleting_a_run_deletes_its_checkpoints_and_no_others(store: Store, ended: RunRecord) -> None:
    kept = save_checkpoint(store, store.add(Experiment()))
    folder = store.checkpoints_folder(ended.id)
    store.remove([ended.id])
    assert not folder.exists() and checkpoint_path(kept, "last").is_file()


def test_a_deletion_that_is_refused_keeps_the_checkpoints(store: Store, ended: RunRecord) -> None:
    with pytest.raises(ProblemError):
        store.remove([ended.id, "000000000000"])
    assert store.requeue(ended.id).status is Status.QUEUED


def test_what_a_killed_deletion_left_goes_later_and_what_nobody_deleted_stays(store, ended):
    folder, stray = store.checkpoints_folder(ended.id), store.checkpoints_folder("0123456789ab")
    stray.mkdir()
    (folder / ".deleted").touch()
    store.recover()
    assert folder.is_dir(), "its run is there"
    with sqlite3.connect(store.path) as connection:
        connection.execute("DELETE FROM runs WHERE id = ?", (ended.id,))
    connection.close()
    store.recover()
    assert not folder.exists() and stray.is_dir()
