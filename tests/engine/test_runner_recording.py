"""What the worker sent is saved, however long the reader of a run takes to ask for more."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.experiment.experiment import Experiment
from engine.experiment.problem import ProblemError
from engine.protocol.events import Finished, Log
from engine.runner import Runner
from engine.store.record import Status
from engine.store.store import Store
from engine.worker.launcher import Launcher

Scripted = Callable[[str], Launcher]


def test_what_came_is_saved_while_the_reader_is_held_up(tmp_path: Path, scripted: Scripted) -> None:
    with Store(tmp_path / "runs.sqlite") as store:
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


def test_a_fault_while_recording_reaches_the_reader_and_ends_the_worker(
    tmp_path: Path, scripted: Scripted
) -> None:
    with Store(tmp_path / "runs.sqlite") as store:
        run = store.add(Experiment())
        events = Runner(store, scripted("started(); sys.stdin.read()")).run(run.id)
        next(events)
        store.delete([run.id])
        with pytest.raises(ProblemError, match="no longer among the saved runs"):
            list(events)


def test_a_run_whose_store_is_taken_away_ends_in_a_new_one(tmp_path: Path, scripted: Scripted) -> None:
    path = tmp_path / "runs.sqlite"
    with Store(path) as store:
        run = store.add(Experiment())
        # it goes on once it is told to pause, which is when the store is gone
        runner = Runner(
            store,
            scripted("started(); samples(1, 5); sys.stdin.readline(); samples(6, 9); finished(9, False)"),
        )
        told = []
        for event in runner.run(run.id):
            told.append(event)
            if event.event == "samples" and event.step[0] == 1:
                path.unlink()
                runner.pause()
        assert isinstance(told[-1], Finished)
        assert [event.level for event in told if isinstance(event, Log)] == ["problem"]
        # the reader's own connection has followed
        assert store.run(run.id).status is Status.FINISHED
    with Store(path) as again:
        assert again.samples(run.id)["step"].tolist() == list(range(1, 10))
