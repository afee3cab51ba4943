"""The recorder's clock, and what becomes of a run when the file of the saved runs is taken away under it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import pytest

from engine.experiment.experiment import Experiment
from engine.experiment.problem import ProblemError
from engine.protocol.events import Finished, Log, Phase, PhaseName, Samples, Summary
from engine.protocol.jobs import RemotePlace
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


LETTER = b"a letter to my aunt, rather long, and no database at all" * 10


def overwrite(path: Path) -> None:
    path.unlink()
    path.write_bytes(LETTER)


def cut_short(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows lets nobody take an open file away")
@pytest.mark.parametrize(
    ("take_away", "words"),
    [
        (delete_the_folder, "was removed or replaced during this run"),
        (delete_the_file_alone, "was removed or replaced during this run"),
        (move, "was removed or replaced during this run"),
        (replace, "was removed or replaced during this run"),
        (empty, "was removed or replaced|damaged"),
        (cut_short, "it is damaged"),
        (overwrite, "it is damaged"),
    ],
)
def test_a_run_ends_where_the_store_is_taken_away(path, started, batch, take_away, words):
    with Store(path) as store:
        # in the file itself, not in its log alone
        for _ in range(20):
            store.add(Experiment(), name="before")
    with Store(path) as store:
        clock, run_id = Clock(), begun(store)
        with closing(Recorder(store, run_id, resumes=False, clock=clock)) as recorder:
            recorder.add([started(), batch(1, 5)])
            take_away(path)
            clock.now += COMMIT_SECONDS
            # a moment in which nothing comes is enough to see it
            with pytest.raises(ProblemError, match=words) as caught:
                recorder.add([])
            assert str(path) in caught.value.problem.message
    if take_away is move:
        with Store(path.with_name("moved.sqlite")) as moved:
            assert steps(moved, run_id) == [1, 2, 3, 4, 5] and len(moved.runs()) == 21
    if take_away is overwrite:
        assert path.read_bytes() == LETTER


def test_a_full_disk_ends_the_run_with_all_that_was_recorded(path, started, batch, no_room):
    with Store(path) as store:
        clock, run_id = Clock(), begun(store)
        with closing(Recorder(store, run_id, resumes=False, clock=clock)) as recorder:
            recorder.add([started(), batch(1, 5)])
            clock.now += COMMIT_SECONDS
            with no_room(), pytest.raises(ProblemError, match="Nothing can be saved"):
                recorder.add([batch(6, 5)])
    with Store(path) as again:
        assert again.run(run_id).status is Status.RUNNING and steps(again, run_id) == [1, 2, 3, 4, 5]
        again.rename(run_id, "there is room again")


@pytest.fixture
def locked(path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], AbstractContextManager[None]]:
    """Locks the store's file, for which a writer then waits a moment."""
    monkeypatch.setattr("engine.store.database._BUSY_SECONDS", 0.1)

    @contextmanager
    def lock() -> Iterator[None]:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            yield

    return lock


@pytest.mark.parametrize("is_remote", [False, True])
@pytest.mark.parametrize(
    ("obstacle", "words"), [("no_room", "Nothing can be saved"), ("locked", "are locked by another program")]
)
def test_an_obstacle_interrupts_a_run_here_but_none_on_a_remote_machine(
    path, started, batch, request, monkeypatch, obstacle, words, is_remote
):
    obstructed = request.getfixturevalue(obstacle)
    with Store(path) as store:
        clock, run_id = Clock(), begun(store)
        places = [RemotePlace("far", "0" * 32, at) if is_remote else None for at in (100, 200)]
        (place, later), record = places, store.record

        def record_obstructed(*arguments: object) -> None:
            with obstructed():
                record(*arguments)

        with closing(Recorder(store, run_id, resumes=False, clock=clock)) as recorder:
            recorder.add([started(), batch(1, 5)], place)
            clock.now += COMMIT_SECONDS
            monkeypatch.setattr(store, "record", record_obstructed)
            with pytest.raises(ProblemError, match=words):
                recorder.add([batch(6, 5)], later)
        assert store.run(run_id).status is (Status.RUNNING if is_remote else Status.INTERRUPTED)
        assert store.remote_place(run_id) == place and steps(store, run_id) == [1, 2, 3, 4, 5]


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


@pytest.mark.parametrize("is_closed", [False, True])
def test_of_a_flood_of_output_the_first_and_the_last_lines_are_saved(store, started, monkeypatch, is_closed):
    # output comes in many pieces, which only their characters limit
    monkeypatch.setattr("engine.store.recorder.MOST_REMARKS", 5)
    monkeypatch.setattr("engine.store.recorder.MOST_CHARACTERS", 400)
    run = store.add(Experiment())
    store.begin(run.id)
    recorder = Recorder(store, run.id, resumes=False)
    recorder.add([started()])
    for number in range(3_000):
        recorder.add([Log(level="stderr", message=f"line {number}")])
    if not is_closed:
        recorder.add([Finished(summary=Summary(steps=3, seconds=1.0))])
    recorder.close()
    kept = store.events(run.id)
    printed = [event.message for event in kept if isinstance(event, Log) and event.level == "stderr"]
    assert printed[:10] == [f"line {number}" for number in range(10)] and len(printed) == 11
    gap, _, *last = printed[10].splitlines()
    assert gap == "[…]" and last[-2:] == ["line 2998", "line 2999"] and len(last) > 100
    assert isinstance(kept[-1], Finished)
