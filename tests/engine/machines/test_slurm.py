"""A cluster in words, and what its programs may say; they are scripts here."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from engine.experiment.problem import Kind, ProblemError
from engine.machines.machine import Machine, Machines, Slurm, new_machine
from engine.machines.slurm import JobState, ending, job_state, waiting_words
from engine.machines.ssh import SshConnection
from engine.worker.allocation import Allocation

NAME, WORKER = "a" * 32, "1" * 32


def test_a_cluster_is_kept_with_its_wishes() -> None:
    wishes = {"partition": "gpu", "account": "lab", "time_limit": "1-12:00:00", "options": ["--gres=gpu:1"]}
    machine = new_machine("Cluster", "me@login", "/scratch/me", wishes)
    Machines().put(machine)
    Machines().put(new_machine("Own", "", slurm={}))
    assert Machines().all() == (machine, Machine(name="Own", host="", slurm=Slurm()))
    assert machine.slurm is not None and machine.slurm.arguments == (
        *("--partition=gpu", "--account=lab", "--time=1-12:00:00", "--gres=gpu:1"),
    )
    assert machine.place == "me@login (Slurm, partition gpu)"


REFUSED = {
    "Ammeter sets it itself": ["--wrap=rm", "--outp=x", "--array=1-9", "--export=NONE", "--uid=0", "--err=x"],
    "the form --name=value": ["-pgpu", "script.sh", "--a=\x1b[2J", ":", ""],
    "its value is missing": ["--gres"],
}


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        *(("options", [option], why) for why, options in REFUSED.items() for option in options),
        ("partition", "-x", "not a valid partition"),
        ("account", "a b", "not a valid account"),
        ("time_limit", "soon", "not a valid time limit"),
    ],
)
def test_what_would_break_the_job_is_refused(key: str, value: Any, why: str) -> None:
    with pytest.raises(ProblemError) as raised:
        new_machine("Cluster", "login", slurm={key: value})
    assert why in raised.value.problem.message and raised.value.problem.key == key
    assert "\x1b" not in raised.value.problem.message


def test_without_a_host_the_words_run_here() -> None:
    line = SshConnection(Machine(name="Own", host="", folder="far", slurm=Slurm()))
    assert line.ask(("pwd",), seconds=30).decode().strip() == str(Path.home())
    with pytest.raises(ValueError):
        line.command(("echo", "$(reboot)"))


def test_a_reason_is_told_in_words_and_an_unknown_one_as_it_is() -> None:
    def words(reason: str, **more: Any) -> str:
        return waiting_words(JobState(state="PENDING", reason=reason, **more))

    assert words("Resources") == "waiting for a free node"
    assert words("ReqNodeNotAvail, UnavailableNodes:n1") == "waiting for a node that is not available"
    assert words("MoonPhase") == "waiting in Slurm (MoonPhase)"
    assert words("None") == "waiting in Slurm"
    soon = datetime.now() + timedelta(seconds=90)
    assert (
        words("Priority", starts_in=90.0).endswith(f"expected to start about {soon:%H:%M}") or soon.hour == 0
    )
    assert waiting_words(JobState(state="RUNNING", node="n1")) == "waiting for n1 to start"


@pytest.mark.parametrize(
    ("state", "sentence", "kind", "has_failed"),
    [
        ("CANCELLED", "The job was cancelled in Slurm on n7.", Kind.WORKER_DIED, False),
        ("TIMEOUT", "The job reached its time limit of 1:00:00 in Slurm on n7.", Kind.WORKER_DIED, False),
        ("PREEMPTED", "The job was preempted by another one on n7.", Kind.NODE_LOST, False),
        ("NODE_FAIL", "Slurm lost n7, where the run trained.", Kind.NODE_LOST, False),
        ("BOOT_FAIL", "The node n7 did not start.", Kind.NODE_LOST, False),
        ("FAILED", "The job failed in Slurm on n7. Its last output: no such file.", Kind.WORKER_DIED, True),
        (
            "COMPLETED",
            "The job found no worker on n7: the folder of far must be on a file system shared by its nodes."
            " Its last output: no such file.",
            Kind.REQUEST,
            True,
        ),
        ("RUNNING", "The process that supervises the run on far was ended on n7.", Kind.WORKER_DIED, False),
    ],
)
def test_an_end_is_told_as_what_it_is(state: str, sentence: str, kind: Kind, has_failed: bool) -> None:
    lost = ending(JobState(state=state, node="n7", limit="1:00:00", output="no such file"), "far")
    assert (lost.why, lost.kind, lost.has_failed) == (sentence, kind, has_failed)


@pytest.fixture
def says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Has each of Slurm's programs run a line of a shell, and note how it was called."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    def put(**scripts: str) -> None:
        for name in ("sbatch", "squeue", "sacct", "scancel"):
            script = scripts.get(name, "exit 1")
            (folder / name).write_text(f'#!/bin/sh\necho "{name} $*" >>{tmp_path}/calls\n{script}\n')
            (folder / name).chmod(0o755)

    put()
    return put


def calls(tmp_path: Path, name: str) -> list[str]:
    return [line for line in (tmp_path / "calls").read_text().splitlines() if line.startswith(name)]


UNKNOWN = "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1"


@pytest.mark.parametrize(
    ("scripts", "known"),
    [
        ({"squeue": "echo 'PENDING|Resources|N/A||1:00:00'"}, ("PENDING", "Resources", "", False)),
        ({"squeue": "echo 'RUNNING|None|2026-01-01T00:00:00|n1|1:00'"}, ("RUNNING", "None", "n1", False)),
        (
            {"squeue": UNKNOWN, "sacct": "echo 'CANCELLED by 0|None|Unknown|n3|1:00'"},
            ("CANCELLED", "None", "n3", True),
        ),
        ({"squeue": UNKNOWN}, ("GONE", "", "", True)),
        ({"squeue": "exit 0"}, ("GONE", "", "", True)),
        ({"squeue": "echo 'Unable to contact slurm controller' >&2; exit 1"}, None),
        ({"squeue": "echo '|||'"}, None),
    ],
)
def test_the_state_is_asked_for_where_it_is_known(tmp_path: Path, says, scripts, known) -> None:
    says(**scripts)
    output = tmp_path / "allocations" / NAME / "output"
    output.parent.mkdir(parents=True)
    output.write_text("first\nlast \x1b[2J")
    state = job_state(SshConnection(Machine(name="Own", host="", slurm=Slurm())), "7", str(tmp_path), NAME)
    assert (state and (state.state, state.reason, state.node, state.is_over)) == known
    if state is not None:
        assert state.output == "last \ufffd[2J" and state.starts_in in (None, 0.0)


def test_one_job_serves_the_workers_and_is_cancelled_with_the_last_that_waits(tmp_path: Path, says) -> None:
    says(sbatch="cat >/dev/null; echo '7;cluster'")
    allocation, other = Allocation(tmp_path, NAME), "2" * 32
    allocation.ask(WORKER, ["--partition=x", "--nodes=9"])
    allocation.ask(other, [])
    (submitted,) = calls(tmp_path, "sbatch")
    # ours hold: they come last
    assert submitted.startswith(
        "sbatch --partition=x --nodes=9 --parsable --exclusive --nodes=1 --no-requeue"
    )
    allocation.withdraw(WORKER)
    assert calls(tmp_path, "scancel") == []
    allocation.withdraw(other)
    assert calls(tmp_path, "scancel") == ["scancel 7"]
    # the next one gets another job
    allocation.ask(WORKER, [])
    assert len(calls(tmp_path, "sbatch")) == 2


def test_sbatch_is_quoted_where_it_refuses(tmp_path: Path, says) -> None:
    says(sbatch="cat >/dev/null; echo 'sbatch: error: invalid account' >&2; exit 1")
    allocation = Allocation(tmp_path, NAME)
    with pytest.raises(OSError, match=r"^sbatch: invalid account$"):
        allocation.ask(WORKER, [])
    assert allocation.waiting() == []


def test_what_names_no_allocation_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        Allocation(tmp_path, "../../etc")
