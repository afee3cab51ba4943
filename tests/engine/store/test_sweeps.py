"""A sweep keeps its grid and every cell, one run a place, and one program at a time."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.experiment.sweep import Pilot, Plan
from engine.protocol.events import Finished, Summary
from engine.store.queue import Owner, this_process
from engine.store.record import RunRecord, Status
from engine.store.saved.whole_runs import WholeRun
from engine.store.store import Store
from tests.sweeps import small_grid

GONE = Owner(host=this_process().host, boot=this_process().boot, pid=this_process().pid, started=0.0)
ELSEWHERE = this_process().model_copy(update={"host": "elsewhere.example"})


@pytest.fixture
def sweep(store: Store) -> str:
    return store.sweeps.add(
        "Night", small_grid(), Plan(repeats=2), device_name="a card", left_out={3: "It does not fit."}
    )


@pytest.fixture
def train(store: Store, sweep: str) -> Callable[..., RunRecord]:
    """Adds a run of cell 4, by default whole."""

    def make(*, is_whole: bool = True, repeat: int = 1) -> RunRecord:
        record = store.sweeps.find(sweep)
        run = store.add(Experiment(), comparison=record.comparison, sweep=sweep, cell=4, repeat=repeat)
        if is_whole:
            store.begin(run.id)
            store.record(run.id, [Finished(summary=Summary(steps=4))])
        return store.run(run.id)

    return make


def _own(path: Path, table: str, work_id: str, owner: Owner) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE {table} SET owner = ? WHERE id = ?", (owner.model_dump_json(), work_id))


def test_what_was_written_of_a_sweep_is_read_again(store: Store, path: Path, sweep: str) -> None:
    pilot = Pilot(steps=5, seconds=3.0, start_seconds=2.0, step_ms=4.0)
    problem = Problem(kind=Kind.OUT_OF_MEMORY, message="The memory is full.", remedy="Take a smaller batch.")
    store.sweeps.set_pilot(sweep, 0, pilot)
    store.sweeps.set_cell_problem(sweep, 1, problem)
    store.sweeps.pause(sweep, 2, True)
    store.sweeps.spend(sweep, 2.0)
    store.sweeps.spend(sweep, 3.5)
    with Store(path) as another:
        record = another.sweeps.find(sweep)
    assert (record.name, record.grid, record.plan) == ("Night", small_grid(), Plan(repeats=2))
    assert record.spent_seconds == 5.5 and record.ended is None
    first, failed, held, left_out = record.cells[:4]
    assert first.pilot == pilot and failed.problem == problem and held.is_paused
    assert left_out.left_out == "It does not fit." and len(record.cells) == 12
    store.sweeps.end(sweep)
    assert store.sweeps.find(sweep).ended is not None


def test_a_grid_is_validated_once_however_often_its_sweep_is_read(store: Store, sweep: str) -> None:
    assert store.sweeps.find(sweep).grid is store.sweeps.find(sweep).grid


def test_a_run_knows_its_place_in_the_sweep(store, sweep, train):
    second, first = train(repeat=2), train(repeat=1)
    assert (first.sweep, first.cell, first.repeat) == (sweep, 4, 1)
    assert [run.id for run in store.sweeps.find(sweep).cells[4].runs] == [first.id, second.id]
    store.sweeps.delete(sweep)
    assert {run.id for run in store.runs()} == {first.id, second.id}
    assert store.run(first.id).sweep is None


def test_no_cell_has_the_same_repeat_twice(store: Store, train: Callable[..., RunRecord]) -> None:
    whole = train()
    with pytest.raises(ProblemError, match="is finished and already has this place"):
        train()
    assert store.runs() == (whole,)


def test_a_run_that_did_not_end_is_replaced(store, path, sweep, train, batch):
    lost = train(is_whole=False)
    store.begin(lost.id)
    store.record(lost.id, [batch(1, 2)])
    _own(path, "runs", lost.id, ELSEWHERE)
    with pytest.raises(ProblemError, match="is running and already has this place"):
        train()
    _own(path, "runs", lost.id, GONE)
    assert store.recover() == (lost.id,)
    assert store.run(lost.id).status is Status.INTERRUPTED
    whole = train()
    assert store.runs() == (whole,)
    # the comparison outlived its only run
    assert whole.comparison == store.sweeps.find(sweep).comparison is not None


def test_a_queued_run_of_a_sweep_is_offered_to_nobody_else(store, train):
    queued = train(is_whole=False)
    assert queued.status is Status.QUEUED and store.waiting.claimable() == ()


def test_a_restored_run_whose_place_was_taken_leaves_the_sweep(store, sweep, train):
    deleted = train()
    store.delete([deleted.id])
    assert store.sweeps.find(sweep).cells[4].runs == ()
    another = train()
    store.restore([deleted.id])
    assert store.run(deleted.id).sweep is None
    assert [run.id for run in store.sweeps.find(sweep).cells[4].runs] == [another.id]


def test_a_damaged_run_costs_the_sweep_no_other(store, path, sweep, train):
    damaged, whole = train(), train(repeat=2)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE runs SET summary = '{', checksum = NULL WHERE id = ?", (damaged.id,))
    assert store.sweeps.find(sweep).cells[4].runs == (whole,)
    with pytest.raises(ProblemError, match="already has this place in the sweep"):
        train()


def test_a_run_that_travels_leaves_its_sweep_behind(store, path, train):
    run = train()
    with Store(path.with_name("another.sqlite")) as another:
        another.import_runs([WholeRun(run, store.events(run.id), {})])
        assert another.run(run.id).sweep is None and another.sweeps.newest() == ()
    # it is the same run where it came from
    (arrival,) = store.import_runs([WholeRun(run, store.events(run.id), {})])
    assert not arrival.is_new and store.run(run.id) == run


def test_two_programs_never_carry_on_the_same_sweep(store: Store, path: Path, sweep: str) -> None:
    store.sweeps.claim(sweep)
    assert store.sweeps.find(sweep).is_claimed
    _own(path, "sweeps", sweep, ELSEWHERE)
    for act in (store.sweeps.claim, store.sweeps.delete):
        with pytest.raises(ProblemError, match="Night is running in another instance of Ammeter"):
            act(sweep)
    _own(path, "sweeps", sweep, GONE)
    assert not store.sweeps.find(sweep).is_claimed
    store.sweeps.claim(sweep)
    store.sweeps.release(sweep)
    assert not store.sweeps.find(sweep).is_claimed


def test_a_missing_sweep_is_named(store: Store) -> None:
    for act in (store.sweeps.find, store.sweeps.claim, store.sweeps.delete):
        with pytest.raises(ProblemError, match="No sweep has the id 'nothing'"):
            act("nothing")
