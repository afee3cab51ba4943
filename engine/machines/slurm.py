"""The state of a cluster's job as Slurm reports it, and in words why it waits or how it ended."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta

from engine.experiment.problem import Kind, ProblemError
from engine.experiment.value import Bounded, Line, Seconds
from engine.machines.ssh import SshConnection, run_script
from engine.worker.site import WorkerLost


class JobState(Bounded, frozen=True):
    """The state of a Slurm job, in text from Slurm that is not trusted. `output` is the job's last line.

    The state "GONE" is Ammeter's own: Slurm no longer has the job.
    """

    state: Line
    reason: Line = ""
    node: Line = ""
    limit: Line = ""
    output: Line = ""
    starts_in: Seconds | None = None

    @property
    def is_over(self) -> bool:
        """True once the job has ended."""
        return self.state in _OVER


_OVER = {
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED"),
    *("REVOKED", "TIMEOUT", "GONE"),
}
_ASK = """
export SLURM_TIME_FORMAT=standard LC_ALL=C
date +%Y-%m-%dT%H:%M:%S
tail -n 1 "$2" 2>/dev/null | head -c 300 | tr '\\n' ' '
echo
said=$(squeue -h -t all -j "$1" -o '%T|%r|%S|%N|%l' 2>&1)
case "$? $said" in
"0 "*"|"*) printf '%s\\n' "$said"; return ;;
"0 " | *"Invalid job id"*) unknown='GONE||||' ;;
*) unknown= ;;
esac
sacct -n -P -X -j "$1" -o State,Reason,Start,NodeList,Timelimit 2>/dev/null | grep '|' || echo "$unknown"
"""
_ASK_SECONDS = 25.0


def job_state(line: SshConnection, job: str, home: str, allocation: str) -> JobState | None:
    """Return the state of a job of the cluster, by squeue or sacct. None if neither answers."""
    try:
        said = run_script(line, _ASK, (job, f"{home}/allocations/{allocation}/output"), _ASK_SECONDS)
        now, output, row, *_ = said.text.split("\n")
        # "CANCELLED by 1000"
        state, reason, start, node, limit = row.split("|")
        seconds = _seconds_between(now, start)
        return JobState(
            state=state.split()[0], reason=reason, node=node, limit=limit, output=output, starts_in=seconds
        )
    except (ProblemError, ValueError, IndexError):
        return None


def _seconds_between(now: str, start: str) -> float | None:
    # the clocks of two machines are not compared
    with suppress(ValueError):
        return max(0.0, (datetime.fromisoformat(start) - datetime.fromisoformat(now)).total_seconds())
    return None


_REASONS = {
    "None": "in Slurm",
    "Resources": "for a free node",
    "Priority": "behind other jobs",
    "Dependency": "for a job that it depends on",
    "BeginTime": "for its start time",
    "JobHeldUser": "until you release it (`scontrol release`)",
    "JobHeldAdmin": "until an administrator releases it",
    "Reservation": "for its reservation",
    "ReqNodeNotAvail": "for a node that is not available",
    "PartitionConfig": "forever: its partition has no such nodes",
    "PartitionNodeLimit": "forever: its partition has no such nodes",
    "PartitionTimeLimit": "forever: its time limit is longer than its partition's",
    "PartitionDown": "for its partition, which is down",
    "BadConstraints": "forever: no node meets its options",
    "AccountNotAllowed": "forever: its account cannot use the partition",
    "InvalidAccount": "forever: its account is not valid",
    "AssocMaxJobsLimit": "until fewer of your jobs run",
    "QOSMaxJobsPerUserLimit": "until fewer of your jobs run",
    "QOSMaxGRESPerUser": "until you use fewer GPUs",
}
"""Descriptions of Slurm's reasons for a pending job. Other reasons are shown as they are."""


def waiting_words(job: JobState) -> str:
    """Describe why a worker waits: "waiting for a free node"."""
    if job.state in ("RUNNING", "CONFIGURING"):
        return f"waiting for {job.node or 'its node'} to start"
    told = job.reason if job.state == "PENDING" else job.state
    words = f"waiting {_REASONS.get(told.partition(',')[0], f'in Slurm ({told})')}"
    if job.starts_in is None:
        return words
    now = datetime.now()
    begins = now + timedelta(seconds=job.starts_in)
    when = f"{begins:%H:%M}" if begins.date() == now.date() else f"{begins:%Y-%m-%d %H:%M}"
    return f"{words}, expected to start about {when}"


def ending(job: JobState, machine: str) -> WorkerLost:
    """Return the loss of a worker whose Slurm job ended, with the reason and the node."""
    node = f" on {job.node}" if job.node else ""
    words, kind, has_failed = _ENDINGS.get(job.state, _ENDINGS[""])
    its, limit = job.node or "its node", job.limit or "its partition"
    why = words.format(node=node, its=its, limit=limit, name=machine)
    said = f" Its last output: {job.output.rstrip('.')}." if has_failed and job.output else ""
    return WorkerLost(f"{why}{said}", kind, has_failed)


_SHARED = "the folder of {name} must be on a file system shared by its nodes"
_DIED, _NODE = Kind.WORKER_DIED, Kind.NODE_LOST
_ENDINGS: dict[str, tuple[str, Kind, bool]] = {
    "": ("The process that supervises the run on {name} was ended{node}.", _DIED, False),
    "CANCELLED": ("The job was cancelled in Slurm{node}.", _DIED, False),
    "TIMEOUT": ("The job reached its time limit of {limit} in Slurm{node}.", _DIED, False),
    "DEADLINE": ("The job reached its deadline in Slurm{node}.", _DIED, False),
    "COMPLETED": (f"The job found no worker{{node}}: {_SHARED}.", Kind.REQUEST, True),
    "GONE": ("Slurm no longer has the job.", _DIED, False),
    "PREEMPTED": ("The job was preempted by another one{node}.", _NODE, False),
    "NODE_FAIL": ("Slurm lost {its}, where the run trained.", _NODE, False),
    "BOOT_FAIL": ("The node {its} did not start.", _NODE, False),
    "OUT_OF_MEMORY": ("The job used more memory than Slurm allows{node}.", _DIED, True),
    "FAILED": ("The job failed in Slurm{node}.", _DIED, True),
}
"""For each state of the job: a sentence, its kind, and whether the run failed. "" is a job still running."""
