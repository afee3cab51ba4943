"""A run on another machine is the same as here, whatever is cut and killed while it trains."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind
from engine.machines import remote_worker
from engine.machines.remote_site import RemoteSite, launcher_on
from engine.protocol import jobs
from engine.protocol.events import Event, Failed, Finished, Heartbeat, Log
from engine.protocol.jobs import RemotePlace
from engine.worker.keeper import CANCELED
from engine.worker.launcher import Launcher, Session, iterate
from engine.worker.site import parse_line
from engine.worker.supervision import ProcessSession
from tests.remote import RemoteMachine, events_of, eventually

JOB = jobs.Train(experiment=Experiment(device="cpu"))
LONG = {"TALK": "[150, 0.01]"}
ENDLESS = {"TALK": "[1000000, 0.01]"}


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cut line is soon tried again."""
    monkeypatch.setattr(remote_worker, "_FIRST_WAIT_SECONDS", 0.1)
    monkeypatch.setattr(remote_worker, "_LONGEST_WAIT_SECONDS", 0.5)


def launcher_of(
    machine: RemoteMachine, talk: dict[str, str], patience: tuple[float, float] = (60, 600)
) -> Launcher:
    machine.talk()
    return Launcher(environment=talk, site=RemoteSite(machine.machine, patience))


@contextmanager
def kept(launcher: Launcher) -> Iterator[tuple[ProcessSession, list[RemotePlace]]]:
    """A session whose worker lives on without it, and where it was."""
    places: list[RemotePlace] = []
    session = launcher.start(JOB, keep=places.append)
    assert isinstance(session, ProcessSession)
    with closing(session):
        yield session, places


def until(session: Session, step: int) -> list[Event]:
    """The events up to a step."""
    events: list[Event] = []
    for event in iterate(session):
        events += [event] if event is not None else []
        if isinstance(event, Heartbeat) and event.step >= step:
            break
    return events


def steps_of(events: list[Event]) -> list[int]:
    return [event.step for event in events if isinstance(event, Heartbeat)]


def written(folder: Path) -> list[object]:
    lines = (folder / "events").read_bytes().splitlines(keepends=True)
    return of_worker([parse_line(line) for line in lines if not line.endswith(CANCELED)])


def of_worker(events: list[Event]) -> list[Event]:
    """Without its stderr, and without what is said of the line."""
    return [
        e for e in events if not (isinstance(e, Log) and (e.level != "info" or "Reconnected" in e.message))
    ]


def test_a_job_is_done_there_and_nothing_of_it_stays(near: RemoteMachine) -> None:
    near.talk()
    with launcher_on(near.machine) as launcher, closing(launcher.start(JOB)) as session:
        events = events_of(session)
    assert steps_of(events) == list(range(1, 101))
    stderr = [event.message for event in events if isinstance(event, Log) and event.level == "stderr"]
    # the last line may come after the end
    assert stderr[:9] == [f"error {number}" for number in range(10, 100, 10)]
    assert isinstance(events[-1], Finished)
    assert near.folders() == []


def test_pause_resume_and_a_stop_while_the_line_is_cut_reach_it(near: RemoteMachine) -> None:
    with launcher_of(near, ENDLESS) as launcher, kept(launcher) as (session, _):
        until(session, 5)
        session.pause()
        # paused, it says the same step again and again
        eventually(lambda: len(set(steps_of([e for _ in range(9) if (e := session.next_event(1))]))) == 1)
        session.resume()
        (step,) = set(steps_of(until(session, 1)))
        until(session, step + 5)
        ssh = near.bin / "ssh"
        ssh.rename(near.bin / "away")
        ssh.write_text("#!/bin/sh\necho 'ssh: connect to host near: No route to host' >&2\nexit 255\n")
        ssh.chmod(0o755)
        near.kill_line()
        for event in iterate(session):
            if isinstance(event, Log) and "Lost the connection to near" in event.message:
                break
        session.stop()
        assert session.next_event(0.3) is None and not session.is_over
        (near.bin / "away").replace(ssh)
        last = events_of(session)[-1]
        assert isinstance(last, Finished) and last.stopped and last.summary.speed_note is None


@pytest.mark.slow
def test_one_that_nobody_comes_back_to_is_ended(near: RemoteMachine) -> None:
    with launcher_of(near, ENDLESS, patience=(2, 2)) as launcher:
        session = launcher.start(JOB)
        assert isinstance(session, ProcessSession)
        until(session, 5)
        session.leave()
        (folder,) = near.folders()
        eventually((folder / "ended").exists)
        assert json.loads((folder / "ended").read_text())["why"] == "patience"
        eventually(lambda: not near.running())
        with closing(launcher.reconnect(RemotePlace("near", folder.name), JOB)) as again:
            events = events_of(again)
    assert any(isinstance(event, Log) and "No program reconnected" in event.message for event in events)
    assert isinstance(events[-1], Failed) and events[-1].problem.kind is Kind.WORKER_DIED


@pytest.mark.slow
def test_one_that_is_kept_goes_on_and_is_read_on_from_its_place(near: RemoteMachine) -> None:
    with launcher_of(near, LONG, patience=(1, 1)) as launcher:
        with kept(launcher) as (session, places):
            events = until(session, 50)
            place = session.place
            session.leave()
        (folder,) = near.folders()
        assert places == [RemotePlace("near", folder.name)] and place is not None
        eventually(lambda: b'"step": 120' in (folder / "events").read_bytes())
        # away at first, then behind another host key: neither says that it is lost
        ssh, tries = near.bin / "ssh", near.home / "tries"
        good = ssh.rename(near.bin / "away")
        said = "[ $(wc -l <$tries) = 1 ] && echo 'No route to host' || echo 'Host key verification failed.'"
        ssh.write_text(f"#!/bin/sh\ntries={tries}\necho >>$tries\n({said}) >&2\nexit 255\n")
        ssh.chmod(0o755)
        with closing(launcher.reconnect(place, JOB)) as again:
            eventually(lambda: len(tries.read_text()) > 3)
            good.replace(ssh)
            events += events_of(again)
            # nothing of it is removed before its end can have been recorded
            assert of_worker(events) == written(folder)
    assert steps_of(events) == list(range(1, 151)) and near.folders() == []


@pytest.mark.slow
def test_one_whose_program_was_killed_before_it_sent_the_job_is_given_it(near: RemoteMachine) -> None:
    with launcher_of(near, LONG) as launcher:
        worker = launcher.site.worker((), LONG)
        assert worker.place is not None
        worker.leave()
        with closing(launcher.reconnect(worker.place, JOB)) as session:
            assert steps_of(events_of(session)) == list(range(1, 151))
        with closing(launcher.reconnect(worker.place, JOB)) as session:
            (last,) = events_of(session)
    assert isinstance(last, Failed) and session.is_lost
    assert last.problem.message == "near no longer has this run."


def kill_keeper(near: RemoteMachine, folder: Path) -> None:
    os.kill(near.kept(folder)["pid"], signal.SIGKILL)


def kill_worker(near: RemoteMachine, folder: Path) -> None:
    os.kill(near.kept(folder)["worker"], signal.SIGKILL)


def restart(near: RemoteMachine, folder: Path) -> None:
    kept = near.kept(folder)
    (folder / "keeper.json").write_text(json.dumps({**kept, "boot": "another"}))
    kill_keeper(near, folder)


def test_output_that_a_power_cut_took_back_is_told_as_a_restart(near: RemoteMachine) -> None:
    with launcher_of(near, ENDLESS) as launcher, kept(launcher) as (session, _):
        until(session, 20)
        session.leave()
        (folder,) = near.folders()
        kill_keeper(near, folder)
        eventually(lambda: not near.running())
        (folder / "ended").unlink(missing_ok=True)
        (folder / "events").write_bytes(b"")
        assert session.place is not None
        with closing(launcher.reconnect(session.place, JOB)) as again:
            last = events_of(again)[-1]
        assert isinstance(last, Failed) and last.problem.message == "near was restarted during the run."
    assert near.folders() == []


def test_one_whose_folder_was_removed_is_not_made_anew(near: RemoteMachine) -> None:
    with launcher_of(near, ENDLESS) as launcher, kept(launcher) as (session, _):
        until(session, 20)
        (folder,) = near.folders()
        near.kill_line()
        os.kill(near.kept(folder)["worker"], signal.SIGKILL)
        folder.rename(near.home / "moved")
        last = events_of(session)[-1]
        assert isinstance(last, Failed) and "no longer has this run" in last.problem.message
        assert near.folders() == []


@pytest.mark.parametrize(
    ("happens", "sentence", "is_lost"),
    [
        (kill_keeper, "The process that supervises the run on near was ended.", True),
        (restart, "near was restarted during the run.", True),
        (kill_worker, "The training process ended mid-run by signal 9 (SIGKILL).", False),
    ],
)
def test_what_ends_it_there_is_told(
    near: RemoteMachine, happens: Callable[[RemoteMachine, Path], None], sentence: str, is_lost: bool
) -> None:
    with launcher_of(near, ENDLESS) as launcher, kept(launcher) as (session, _):
        events = until(session, 5)
        happens(near, near.folders()[0])
        events += events_of(session)
        last = events.pop()
        assert of_worker(events) == written(near.folders()[0])
        assert isinstance(last, Failed) and last.problem.message == sentence and session.is_lost is is_lost
    assert near.folders() == []


def test_a_spare_waits_there_and_is_discarded_with_the_launcher(near: RemoteMachine) -> None:
    with launcher_of(near, LONG) as launcher:
        launcher.prepare()
        eventually(lambda: launcher.has_ready_spare)
        (folder,) = near.folders()
        with closing(launcher.start(JOB)) as session:
            until(session, 5)
            assert near.folders() == [folder]
        launcher.prepare()
        assert len(near.folders()) == 1
    eventually(lambda: near.folders() == [] and not near.running())


@pytest.mark.slow
def test_through_ssh_whatever_is_killed_on_the_way(far: RemoteMachine) -> None:
    with launcher_of(far, {"TALK": "[200, 0.01]"}) as launcher, kept(launcher) as (session, _):
        events: list[Event] = []
        kills = (far.kill_line, far.kill_master, far.kill_sessions, far.kill_followers)
        for number, kill in enumerate(kills, 1):
            events += until(session, 40 * number)
            kill()
        events += events_of(session)
        assert of_worker(events) == written(far.folders()[0])
        assert steps_of(events) == list(range(1, 201))
        told = [event.message for event in events if isinstance(event, Log) and "onnect" in event.message]
        assert "Lost the connection to far" in told[0] and "Reconnected to far" in told[1]
    assert far.folders() == []
