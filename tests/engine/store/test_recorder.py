"""The recorder's clock, and what becomes of a run when the file of the saved runs is taken away under it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from engine.experiment.experiment import Experiment
from engine.experiment.problem import ProblemError
from engine.protocol.events import Epoch, Finished, Log, Phase, PhaseName, Samples, Summary
from engine.store.record import Status
from engine.store.recorder import COMMIT_SECONDS, Recorder
from engine.store.store import Store

Batch = Callable[..., Samples]


class Clock:
    """Stands still until it is told to go on."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def begun(store: Store, name: str = "the run") -> str:
    run = store.add(Experiment(), name=name)
    store.begin(run.id)
    return run.id


def steps(store: Store, run_id: str) -> list[int]:
    return [int(step) for step in store.samples(run_id).get("step", ())]


def test_the_first_samples_are_saved_at_once_and_the_others_by_the_clock(store, started, batch):
    clock, run_id = Clock(), begun(store)
    with closing(Recorder(store, run_id, resumes=False, clock=clock)) as recorder:
        recorder.add([started()])
        recorder.add([batch(1, 5)])
        assert steps(store, run_id) == [1, 2, 3, 4, 5]
        recorder.add([batch(6, 5)])
        assert steps(store, run_id) == [1, 2, 3, 4, 5]
        assert recorder.seconds_left == COMMIT_SECONDS
        clock.now += COMMIT_SECONDS
        assert recorder.seconds_left == 0.0
        recorder.add([])
        assert steps(store, run_id) == list(range(1, 11))


def test_what_came_together_is_saved_together(store, started, batch):
    run_id = begun(store)
    with closing(Recorder(store, run_id, resumes=False, clock=Clock())) as recorder:
        recorder.add([started(), batch(1, 5), batch(6, 5), batch(11, 5)])
        assert steps(store, run_id) == list(range(1, 16))


def delete(path: Path) -> None:
    for file in list(path.parent.iterdir()):
        file.unlink()


def delete_the_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


def delete_the_file_alone(path: Path) -> None:
    path.unlink()


def move(path: Path) -> None:
    path.rename(path.with_name("moved.sqlite"))


def replace(path: Path) -> None:
    with Store(path.with_name("other.sqlite")) as other:
        other.add(Experiment(), name="another")
    path.with_name("other.sqlite").replace(path)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def cut_short(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows lets nobody take an open file away")
@pytest.mark.parametrize(
    "take_away", [delete, delete_the_folder, delete_the_file_alone, move, replace, empty, cut_short]
)
def test_a_run_is_saved_whole_where_the_store_is_taken_away(path, started, batch, take_away):
    with Store(path) as store:
        # in the file itself, not in its log alone
        for _ in range(20):
            store.add(Experiment(), name="before")
    with Store(path) as reader, Store(path) as store:
        clock, run_id = Clock(), begun(store)
        with closing(Recorder(store, run_id, resumes=False, clock=clock)) as recorder:
            recorder.add([started(), batch(1, 5)])
            assert steps(reader, run_id) == [1, 2, 3, 4, 5]
            take_away(path)
            clock.now += COMMIT_SECONDS
            # a moment in which nothing comes is enough to see it
            (told,) = recorder.add([])
            assert told.level == "problem" and str(path) in told.message
            assert steps(reader, run_id) == [1, 2, 3, 4, 5]
            clock.now += COMMIT_SECONDS
            assert recorder.add([batch(6, 5)]) == ()
            assert recorder.add([Finished(summary=Summary(steps=10))]) == ()
        assert reader.run(run_id).status is Status.FINISHED
    with Store(path) as again:
        assert steps(again, run_id) == list(range(1, 11))
        assert told in again.events(run_id)
        names = {run.name for run in again.runs()}
    assert names == ({"the run", "another"} if take_away is replace else {"the run"})
    if take_away is move:
        with Store(path.with_name("moved.sqlite")) as moved:
            assert steps(moved, run_id) == [1, 2, 3, 4, 5]
            assert len(moved.runs()) == 21
    if take_away in (empty, cut_short):
        assert [file.name for file in path.parent.glob("*-damaged-*.sqlite")]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows lets nobody take an open file away")
def test_what_is_not_ours_is_left_alone_and_the_run_saved_beside_it(path, started, batch):
    letter = b"a letter to my aunt, rather long, and no database at all" * 10
    with Store(path) as store:
        clock, run_id = Clock(), begun(store)
        with closing(Recorder(store, run_id, resumes=False, clock=clock)) as recorder:
            recorder.add([started(), batch(1, 5)])
            path.unlink()
            path.write_bytes(letter)
            clock.now += COMMIT_SECONDS
            with pytest.raises(ProblemError, match="damaged or replaced") as caught:
                recorder.add([batch(6, 5)])
    beside = path.with_name(f"ammeter-{run_id}.sqlite")
    assert str(beside) in caught.value.problem.remedy
    assert path.read_bytes() == letter
    with Store(beside) as saved:
        assert steps(saved, run_id) == list(range(1, 11))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows lets nobody take an open file away")
def test_a_resumed_run_is_saved_with_what_it_had_before(path, started, batch):
    with Store(path) as store:
        comparison = store.add_comparison("both")
        run_id = store.add(Experiment(), comparison=comparison, label="FP32").id
        store.begin(run_id)
        epoch = Epoch(epoch=1, step=8, seconds=0.1, train_loss=0.5)
        store.record(run_id, [started(), batch(1, 12), epoch])
        clock = Clock()
        with closing(Recorder(store, run_id, resumes=True, clock=clock)) as recorder:
            again = started().model_copy(update={"resumed_step": 10})
            path.unlink()
            clock.now += COMMIT_SECONDS
            (told,) = recorder.add([again, batch(11, 5)])
        assert isinstance(told, Log)
        assert steps(store, run_id) == list(range(1, 16))
        assert epoch in store.events(run_id)
        assert [one.id for one in store.comparisons()] == [comparison]


def test_a_file_that_was_tidied_up_is_no_damage(path: Path) -> None:
    with Store(path) as store, Store(path) as other:
        runs = [store.add(Experiment(), name="n" * 100) for _ in range(200)]
        store.remove([run.id for run in runs[:-1]])
        for statement in ("PRAGMA wal_checkpoint(TRUNCATE)", "SELECT count(*) FROM runs"):
            store._connection.read(statement)
        other.runs()
        before = path.stat().st_size
        for statement in ("VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"):
            store._connection.read(statement)
        assert path.stat().st_size < before
        assert [run.id for run in other.runs()] == [run.id for run in store.runs()] == [runs[-1].id]


@pytest.mark.parametrize(
    "flood",
    [
        [Log(message="x")] * 30,
        [Log(level="problem", message="x" * 1_000)] * 3,
        [Phase(name=PhaseName.MEASURING, detail="x" * 1_000)] * 3,
    ],
)
def test_a_flood_of_remarks_is_cut_and_says_so_once(store, started, batch, monkeypatch, flood):
    monkeypatch.setattr("engine.store.recorder.MOST_REMARKS", 20)
    monkeypatch.setattr("engine.store.recorder.MOST_CHARACTERS", 1_500)
    run = store.add(Experiment())
    store.begin(run.id)
    recorder = Recorder(store, run.id, resumes=False)
    recorder.add([started(), *flood])
    recorder.add([*flood, batch(1, 3), Finished(summary=Summary(steps=3, seconds=1.0))])
    recorder.close()
    kept = store.events(run.id)
    assert len(kept) <= 23 and isinstance(kept[-1], Finished)
    said = [event for event in kept if isinstance(event, Log) and "not saved" in event.message]
    assert len(said) == 1 and list(store.samples(run.id)["step"]) == [1, 2, 3]
