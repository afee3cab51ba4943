"""Runs in a real cluster of two nodes, both of which are this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind, ProblemError
from engine.machines.machine import Slurm
from engine.machines.remote_site import RemoteSite
from engine.protocol import jobs
from engine.protocol.events import Event, Failed, Finished, Heartbeat, Phase, PhaseName
from engine.protocol.jobs import RemotePlace
from engine.worker.launcher import Launcher, Session, iterate
from engine.worker.supervision import ProcessSession
from tests.remote import TOLD, check_script, events_of, eventually
from tests.slurm import NODES, Cluster

pytestmark = pytest.mark.slow

JOB = jobs.Train(experiment=Experiment(device="cpu"))
LONG = {"TALK": "[1000000, 0.01]"}


@contextmanager
def launcher_of(cluster: Cluster, talk: dict[str, str]) -> Iterator[Launcher]:
    cluster.talk()
    with Launcher(environment=talk, site=RemoteSite(cluster.machine)) as launcher:
        yield launcher


def until(session: Session, kind: type[Event]) -> Event:
    return next(event for event in iterate(session) if isinstance(event, kind))


def test_a_run_waits_is_trained_and_the_next_one_finds_the_node_ready(cluster: Cluster) -> None:
    with launcher_of(cluster, {"TALK": "[20, 0.01]"}) as launcher:
        for _ in range(2):
            with closing(launcher.start(JOB)) as session:
                events = events_of(session)
            phases = [(e.name, e.detail) for e in events if isinstance(e, Phase)][-2:]
            assert phases == [(PhaseName.BUILDING, "on n1"), (PhaseName.PROFILING, "")]
            assert isinstance(events[-1], Finished)
            # one wait in the queue serves both
            assert cluster.jobs() == ["RUNNING n1"]
    # given back
    eventually(lambda: cluster.jobs() == [])
    assert cluster.folders() == []


def test_a_script_runs_on_a_node_in_its_folder(cluster: Cluster, tmp_path: Path) -> None:
    with Launcher(site=RemoteSite(cluster.machine)) as launcher:
        check_script(launcher, tmp_path / "code there", TOLD)
        assert cluster.jobs() == ["RUNNING n1"]
    eventually(lambda: cluster.jobs() == [])
    assert cluster.folders() == []


def test_one_that_waits_says_why_and_is_stopped_by_cancelling_its_job(cluster: Cluster) -> None:
    for _ in NODES:
        cluster.ask("sbatch", "--exclusive", "--time=10", "--output=/dev/null", "--wrap=sleep 600")
    eventually(lambda: len(cluster.jobs()) == 2 and all("RUNNING" in job for job in cluster.jobs()))
    with launcher_of(cluster, LONG) as launcher, closing(launcher.start(JOB)) as session:
        waiting = until(session, Phase)
        assert isinstance(waiting, Phase) and waiting.name is PhaseName.WAITING
        assert waiting.detail.startswith("waiting for a free node")
        session.stop()
        last = events_of(session)[-1]
        assert isinstance(last, Finished) and last.stopped
        assert last.summary.speed_note == "Stopped before training began."
        eventually(lambda: len(cluster.jobs()) == 2)
        # one that is to be kept waits on without its program
        places: list[RemotePlace] = []
        kept = launcher.start(JOB, keep=places.append)
        assert isinstance(kept, ProcessSession)
        until(kept, Phase)
        kept.leave()
        launcher.close()
        assert sorted(job.split()[0] for job in cluster.jobs()) == ["PENDING", "RUNNING", "RUNNING"]
        cluster.ask("scancel", cluster.ask("squeue", "-h", "-t", "RUNNING", "-o", "%i").split()[0])
        with closing(launcher.reconnect(places[0], JOB)) as again:
            until(again, Heartbeat)
            again.stop()
            assert isinstance(events_of(again)[-1], Finished)
    assert cluster.folders() == []


def test_what_slurm_does_to_a_job_is_told(cluster: Cluster) -> None:
    with launcher_of(cluster, LONG) as launcher:
        with closing(launcher.start(JOB)) as session:
            until(session, Heartbeat)
            cluster.ask("scancel", "-p", "short")
            last = events_of(session)[-1]
            assert isinstance(last, Failed) and session.is_lost
            assert last.problem.message == "The job was cancelled in Slurm on n1."
        # the next one gets another job
        with closing(launcher.start(JOB)) as session:
            until(session, Heartbeat)
            (job,) = cluster.jobs()
            cluster.kill_node(job.split()[-1])
            last = events_of(session)[-1]
            assert isinstance(last, Failed) and session.is_lost and last.problem.kind is Kind.NODE_LOST
        # the node lives, other than Slurm thinks, and what trained there was ended
        eventually(lambda: not cluster.running_workers())
    assert cluster.folders() == []


def test_what_sbatch_refuses_is_told_in_its_words(cluster: Cluster) -> None:
    machine = cluster.machine.model_copy(update={"slurm": Slurm(partition="nosuch")})
    with Launcher(site=RemoteSite(machine)) as launcher, pytest.raises(ProblemError) as raised:
        launcher.start(JOB)
    assert "refused the job: invalid partition specified: nosuch" in raised.value.problem.message
    assert raised.value.problem.kind is Kind.REQUEST and cluster.folders() == []
