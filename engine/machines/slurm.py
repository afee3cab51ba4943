"""Slurm in words: the options of a cluster's jobs, why a job waits, and how it ended."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

from engine.experiment.problem import Kind
from engine.experiment.value import Bounded, Line, Seconds
from engine.worker.site import WorkerLost

_OPTION = re.compile(r"--([a-z][a-z0-9-]{1,40})(=[^\x00-\x1f\x7f]{1,200})?")
_FLAGS = ("contiguous", "get-user-env", "hold", "overcommit", "reboot", "spread-job", "use-min-nodes")
_OURS = (
    *(
        "wrap",
        "output",
        "error",
        "input",
        "export",
        "export-file",
        "chdir",
        "parsable",
        "array",
        "uid",
        "gid",
    ),
    *("clusters", "test-only", "wait", "usage", "help", "version", "open-mode", "nodes", "job-name"),
)
"""What would break the job, whose script, files, answer and one node are Ammeter's. `sbatch` also takes the
beginning of a name for it."""


def _allowed(option: str) -> str:
    found = _OPTION.fullmatch(option)
    if found is None:
        raise ValueError("it must have the form --name=value")
    if any(ours.startswith(found[1]) for ours in _OURS):
        raise ValueError("Ammeter sets it itself")
    if not found[2] and found[1] not in _FLAGS:
        # it would take our own next option for its value
        raise ValueError("its value is missing (--name=value)")
    return option


_Word = StringConstraints(pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.,@+-]{0,99})?$")


class Slurm(Bounded, frozen=True, extra="forbid"):
    """The sbatch options for the jobs of a cluster. Each of `options` has the form "--name=value"."""

    partition: Annotated[str, _Word] = ""
    account: Annotated[str, _Word] = ""
    time_limit: Annotated[str, StringConstraints(pattern=r"^((\d{1,4}-)?\d{1,6}(:\d{1,2}){0,2})?$")] = ""
    options: Annotated[tuple[Annotated[str, AfterValidator(_allowed)], ...], Field(max_length=40)] = ()

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments for sbatch."""
        named = {"partition": self.partition, "account": self.account, "time": self.time_limit}
        return (*(f"--{name}={value}" for name, value in named.items() if value), *self.options)


class JobState(Bounded, frozen=True):
    """The state of a Slurm job, in text from Slurm that is not trusted.

    The state "KEPT" is Ammeter's own: the worker in the job has started.
    """

    state: Line
    reason: Line = ""
    node: Line = ""
    limit: Line = ""
    output: Line = ""
    starts_in: Seconds | None = None


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
    """Return why a worker was lost whose job has ended, with the node."""
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
