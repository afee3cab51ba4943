"""A run on another machine is the same as here, whatever is cut and killed while it trains."""

from __future__ import annotations

import pytest

from engine.experiment.experiment import Experiment
from engine.machines.far_site import launcher_on
from engine.protocol import jobs
from engine.protocol.events import Event, Finished, Heartbeat, Log
from engine.worker.launcher import Session, iterate
from tests.far import FarMachine

JOB = jobs.Train(experiment=Experiment(device="cpu"))


def events_of(session: Session) -> list[Event]:
    return [event for event in iterate(session) if event is not None]


def test_a_job_is_done_there_and_nothing_of_it_stays(near: FarMachine) -> None:
    near.talk()
    with launcher_on(near.machine) as launcher:
        session = launcher.start(JOB)
        events = events_of(session)
        session.close()
        assert [event.step for event in events if isinstance(event, Heartbeat)] == list(range(1, 101))
        stderr = [event.message for event in events if isinstance(event, Log) and event.level == "stderr"]
        # the last line may come after the end
        assert stderr[:9] == [f"error {number}" for number in range(10, 100, 10)]
        assert isinstance(events[-1], Finished)
    assert near.folders() == []


@pytest.mark.slow
def test_the_same_through_ssh(far: FarMachine) -> None:
    far.talk()
    with launcher_on(far.machine) as launcher:
        session = launcher.start(JOB)
        events = events_of(session)
        session.close()
        assert [event.step for event in events if isinstance(event, Heartbeat)] == list(range(1, 101))
        assert isinstance(events[-1], Finished)
    assert far.folders() == []
