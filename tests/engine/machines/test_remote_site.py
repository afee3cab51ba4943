"""What a job on another machine needs: paths there, its trace brought here, and what the line says."""

from __future__ import annotations

import gzip
from contextlib import closing
from pathlib import Path

import pytest

from engine.experiment.experiment import Experiment
from engine.experiment.problem import ProblemError
from engine.machines import remote_worker
from engine.machines.machine import Machine
from engine.machines.remote_site import RemoteSite, launcher_on
from engine.machines.ssh import SshConnection
from engine.protocol import jobs
from engine.protocol.events import Finished, Samples, Started
from engine.worker.launcher import iterate
from tests.remote import RemoteMachine, check_script

TINY = Experiment.model_validate(
    {"model": "linear", "dataset": "synthetic-regression", "device": "cpu", "steps": 30, "epochs": None}
)


def test_paths_there_are_absolute_and_within_its_folder(near: RemoteMachine) -> None:
    site = RemoteSite(near.machine)
    assert site.checkpoints(Path("/mine/checkpoints/17")) == f"{near.home}/home/checkpoints/17"
    assert site.trace(Path("/mine/traces/3.json.gz")) == f"{near.home}/home/traces/3.json.gz"


def test_a_trace_is_brought_here_and_removed_there(near: RemoteMachine, tmp_path: Path) -> None:
    site, path = RemoteSite(near.machine), tmp_path / "traces" / "3.json.gz"
    there = Path(site.trace(path))
    there.parent.mkdir(parents=True)
    there.write_bytes(gzip.compress(b"{}"))
    site.fetch(path)
    assert gzip.decompress(path.read_bytes()) == b"{}" and not there.exists()
    with pytest.raises(ProblemError, match="No such file"):
        site.fetch(path)


def test_a_machine_without_the_program_says_so_and_how_to_install_it(near: RemoteMachine) -> None:
    (near.home / "program" / "current" / "bin" / "python").unlink()
    with pytest.raises(ProblemError) as error, launcher_on(near.machine) as launcher:
        launcher.start(jobs.ReadCatalog())
    assert error.value.problem.message.startswith("Ammeter is not installed on near: ")
    assert error.value.problem.remedy == "Install it: `ammeter engine install --machine 'near'`."


def test_a_slow_line_is_told_once(near: RemoteMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_worker, "_SLOW_SECONDS", -1.0)
    monkeypatch.setattr(remote_worker, "_PING_SECONDS", 0.1)
    near.talk()
    with (
        launcher_on(near.machine) as launcher,
        closing(launcher.start(jobs.Train(experiment=TINY))) as session,
    ):
        told = [event for event in iterate(session) if "is slow" in str(event)]
    assert len(told) == 1


@pytest.mark.slow
def test_a_script_runs_in_a_folder_there_and_leaves_nothing(near: RemoteMachine, tmp_path: Path) -> None:
    with launcher_on(near.machine) as launcher:
        check_script(launcher, tmp_path / "code there")
    assert near.folders() == []


@pytest.mark.slow
def test_a_run_trains_through_ssh_and_leaves_nothing(far: RemoteMachine) -> None:
    with (
        launcher_on(far.machine) as launcher,
        closing(launcher.start(jobs.Train(experiment=TINY))) as session,
    ):
        events = [event for event in iterate(session) if event is not None]
    assert any(isinstance(event, Started) for event in events)
    steps = [step for event in events if isinstance(event, Samples) for step in event.step]
    assert steps == list(range(1, 31)) and isinstance(events[-1], Finished)
    assert far.folders() == []


@pytest.mark.slow
def test_what_ssh_refuses_is_told_in_its_own_words(far: RemoteMachine) -> None:
    (far.bin.parent / "known").write_text("")
    with pytest.raises(ProblemError) as error:
        SshConnection(far.machine).ask(("true",), seconds=20)
    assert error.value.problem.message == "No connection to far: Host key verification failed."
    assert "`ssh far`" in error.value.problem.remedy


@pytest.mark.parametrize(
    ("status", "complaint", "why", "remedy"),
    [
        (
            1,
            "ammeter: [Errno 28] No space left on device: 'workers/1'",
            "disk of box is full",
            "Free disk space",
        ),
        (1, "ammeter: [Errno 122] Disk quota exceeded", "quota on box is used up", "Free disk space"),
        (1, "OSError: [Errno 30] Read-only file system: 'x'", "disk of box is read-only", "another folder"),
        (
            126,
            "sh: 1: exec: .ammeter/program/current/bin/python: Permission denied",
            "run files",
            "permissions",
        ),
        (1, "OSError: [Errno 12] Cannot allocate memory", "box is out of memory", "Close other programs"),
        (
            127,
            "sh: 1: exec: .ammeter/program/current/bin/python: not found",
            "is not installed on box",
            "engine install",
        ),
        (
            255,
            "me@box: Permission denied (publickey).",
            "No connection to box",
            "without a password",
        ),
    ],
)
def test_what_fails_there_is_not_called_a_lost_connection(status, complaint, why, remedy):
    problem = SshConnection(Machine(name="box", host="me@box")).failure(status, complaint).problem
    assert why in problem.message and remedy in problem.remedy
    assert ("No connection" in problem.message) is (status == 255)
