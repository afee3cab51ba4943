"""Runs that were queued for a comparison: awaited until they have finished, failed or been taken back."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind, Problem
from engine.protocol.events import Failed, Finished, Summary
from engine.store.record import RunRecord
from engine.store.store import Store
from gui.compare.controller import Awaited, AwaitedRuns
from gui.session.saved_runs import SavedRuns

BESIDE = frozenset({"a", "b"})


@pytest.fixture
def queued(saved: Store) -> RunRecord:
    return saved.add(Experiment.model_validate({"precision": "bf16"}))


@pytest.fixture
def runs(saved: Store, queued: RunRecord) -> SavedRuns:
    runs = SavedRuns(saved)
    runs.reload()
    return runs


def finish(saved: Store, runs: SavedRuns, run_id: str) -> None:
    saved.begin(run_id)
    saved.record(run_id, [Finished(summary=Summary(steps=1, seconds=1.0))])
    runs.refresh(run_id)


def test_a_run_that_finishes_arrives_once(
    qtbot: QtBot, saved: Store, queued: RunRecord, runs: SavedRuns
) -> None:
    awaited, arrived = AwaitedRuns(runs), list[Awaited]()
    awaited.arrived.connect(arrived.append)
    awaited.add(Awaited((queued.id,), BESIDE))
    assert awaited.experiments() == {queued.experiment} and not arrived
    finish(saved, runs, queued.id)
    runs.refresh(queued.id)
    assert awaited.experiments() == frozenset()
    assert arrived == [Awaited((queued.id,), BESIDE)]


def test_runs_that_are_to_take_the_place_of_others_arrive_together(
    qtbot: QtBot, saved: Store, queued: RunRecord, runs: SavedRuns
) -> None:
    other = saved.add(Experiment())
    runs.reload()
    awaited, arrived = AwaitedRuns(runs), list[Awaited]()
    awaited.arrived.connect(arrived.append)
    awaited.add(both := Awaited((queued.id, other.id), BESIDE, BESIDE))
    finish(saved, runs, queued.id)
    assert not arrived and awaited.experiments() == {other.experiment}
    finish(saved, runs, other.id)
    assert arrived == [both]


@pytest.mark.parametrize("is_withdrawn", [True, False])
def test_one_that_comes_to_nothing_can_be_asked_for_again(
    qtbot: QtBot, saved: Store, queued: RunRecord, runs: SavedRuns, is_withdrawn: bool
) -> None:
    awaited = AwaitedRuns(runs)
    awaited.add(Awaited((queued.id,), BESIDE))
    with qtbot.assertNotEmitted(awaited.arrived), qtbot.waitSignal(awaited.changed):
        if is_withdrawn:
            runs.withdraw(queued.id)
        else:
            saved.begin(queued.id)
            problem = Problem(kind=Kind.OUT_OF_MEMORY, message="The card is full.", remedy="Take less.")
            saved.record(queued.id, [Failed(problem=problem)])
            runs.refresh(queued.id)
    assert awaited.experiments() == frozenset()
