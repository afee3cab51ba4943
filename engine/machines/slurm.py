"""Slurm in words: the wishes of a machine that is a cluster, why its job waits, and how it ended."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

from engine.experiment.bounded import Bounded
from engine.experiment.problem import Kind
from engine.experiment.value import Line, Seconds
from engine.worker.process import Lost

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
"""What would break the job, whose script, files, answer and one node are Ammeter's; `sbatch` also takes the
beginning of a name for it."""


def _allowed(option: str) -> str:
    found = _OPTION.fullmatch(option)
    if found is None:
        raise ValueError("is written as --name=value")
    if any(ours.startswith(found[1]) for ours in _OURS):
        raise ValueError("is set by Ammeter itself")
    if not found[2] and found[1] not in _FLAGS:
        # it would take our own next option for its value
        raise ValueError("needs its value: --name=value")
    return option


_Word = StringConstraints(pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.,@+-]{0,99})?$")


class Slurm(Bounded, frozen=True, extra="forbid"):
    """How jobs are submitted on a machine: each further option of sbatch is "--name=value"."""

    partition: Annotated[str, _Word] = ""
    account: Annotated[str, _Word] = ""
    time_limit: Annotated[str, StringConstraints(pattern=r"^((\d{1,4}-)?\d{1,6}(:\d{1,2}){0,2})?$")] = ""
    options: Annotated[tuple[Annotated[str, AfterValidator(_allowed)], ...], Field(max_length=40)] = ()

    @property
    def arguments(self) -> tuple[str, ...]:
        """For sbatch, each one an argument of its own."""
        named = {"partition": self.partition, "account": self.account, "time": self.time_limit}
        return (*(f"--{name}={value}" for name, value in named.items() if value), *self.options)


class JobState(Bounded, frozen=True):
    """What Slurm says of a job; untrusted. It is "KEPT" once its worker has begun."""

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
    "Dependency": "for another job, on which it depends",
    "BeginTime": "for the time at which it may begin",
    "JobHeldUser": "held: `scontrol release` lets it begin",
    "JobHeldAdmin": "held by an administrator",
    "Reservation": "for its reservation",
    "ReqNodeNotAvail": "for a node that is not available",
    "PartitionConfig": "in vain: its partition has no such nodes",
    "PartitionNodeLimit": "in vain: its partition has no such nodes",
    "PartitionTimeLimit": "in vain: its time limit is longer than its partition's",
    "PartitionDown": "for its partition, which is down",
    "BadConstraints": "in vain: no node has what its options ask for",
    "AccountNotAllowed": "in vain: its account may not use the partition",
    "InvalidAccount": "in vain: its account is not valid",
    "AssocMaxJobsLimit": "until fewer of your jobs run",
    "QOSMaxJobsPerUserLimit": "until fewer of your jobs run",
    "QOSMaxGRESPerUser": "until you use fewer cards",
}
"""By Slurm's reason for a job that is pending; others are shown as they are."""


def waiting_words(job: JobState) -> str:
    """What a worker without a node does: "waiting for a free node"."""
    if job.state in ("RUNNING", "CONFIGURING"):
        return f"waiting for {job.node or 'its node'} to begin"
    told = job.reason if job.state == "PENDING" else job.state
    words = f"waiting {_REASONS.get(told.partition(',')[0], f'in Slurm ({told})')}"
    if job.starts_in is None:
        return words
    now = datetime.now()
    begins = now + timedelta(seconds=job.starts_in)
    when = f"{begins:%H:%M}" if begins.date() == now.date() else f"{begins:%Y-%m-%d %H:%M}"
    return f"{words}, expected to begin about {when}"


def ending(job: JobState, machine: str) -> Lost:
    """What ended a worker whose job has ended, with the node."""
    node = f" on {job.node}" if job.node else ""
    words, kind, has_failed = _ENDINGS.get(job.state, _ENDINGS[""])
    its, limit = job.node or "its node", job.limit or "its partition"
    why = words.format(node=node, its=its, limit=limit, name=machine)
    said = f" It last said: {job.output.rstrip('.')}." if has_failed and job.output else ""
    return Lost(f"{why}{said}", kind, has_failed)


_SHARED = "the folder of {name} must be on a file system that its nodes share"
_DIED, _NODE = Kind.WORKER_DIED, Kind.NODE_LOST
_ENDINGS: dict[str, tuple[str, Kind, bool]] = {
    "": ("The process that keeps the run on {name} was ended{node}.", _DIED, False),
    "CANCELLED": ("The job was cancelled in Slurm{node}.", _DIED, False),
    "TIMEOUT": ("The job reached its time limit of {limit} in Slurm{node}.", _DIED, False),
    "DEADLINE": ("The job reached its deadline in Slurm{node}.", _DIED, False),
    "COMPLETED": (f"The job saw no worker{{node}}: {_SHARED}.", Kind.REQUEST, True),
    "GONE": ("Slurm knows nothing of the job any more.", _DIED, False),
    "PREEMPTED": ("The job had to make room for another one{node}.", _NODE, False),
    "NODE_FAIL": ("Slurm has lost {its}, on which it trained.", _NODE, False),
    "BOOT_FAIL": ("The node {its} did not start.", _NODE, False),
    "OUT_OF_MEMORY": ("The job took more memory than Slurm allows it{node}.", _DIED, True),
    "FAILED": ("The job failed in Slurm{node}.", _DIED, True),
}
"""By the state of the job, "" for one that runs on: a sentence, its kind, and whether the run has failed."""
