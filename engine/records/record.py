"""One saved run, as a value."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from sqlite3 import Row
from typing import Any

from engine.events import Environment, Summary
from engine.experiment import Experiment
from engine.problem import Problem


class Status(StrEnum):
    """Where a run stands. `INTERRUPTED`: the program that ran it is gone, and its samples remain."""

    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    STOPPED = "stopped"
    FAILED = "failed"
    INTERRUPTED = "interrupted"

    @property
    def is_over(self) -> bool:
        return self not in (Status.QUEUED, Status.RUNNING)


@dataclass(frozen=True)
class RunRecord:
    """A run in the store; its samples and events are read apart.

    `number` is the 14 of "Run 14"; `label` is the run's side of `comparison`; times are in UTC.
    """

    id: str
    number: int
    name: str
    status: Status
    created: datetime
    started: datetime | None
    ended: datetime | None
    experiment: Experiment
    environment: Environment | None
    summary: Summary | None
    problem: Problem | None
    detail: str
    comparison: str | None
    label: str | None
    total_steps: int | None

    def to_dict(self) -> dict[str, Any]:
        """The run as plain JSON values; NaN and infinity as text."""
        return {
            "id": self.id,
            "name": self.name,
            "status": self.status.value,
            "label": self.label,
            "comparison": self.comparison,
            "created": self.created.isoformat(),
            "started": self.started.isoformat() if self.started else None,
            "ended": self.ended.isoformat() if self.ended else None,
            "experiment": json.loads(self.experiment.to_json()),
            "environment": json.loads(self.environment.model_dump_json()) if self.environment else None,
            "summary": json.loads(self.summary.model_dump_json()) if self.summary else None,
            "problem": json.loads(self.problem.model_dump_json()) if self.problem else None,
        }


@dataclass(frozen=True)
class ComparisonRecord:
    """Runs that were started together to be compared."""

    id: str
    title: str
    created: datetime


RUN_COLUMNS = (
    "id, number, name, status, created, started, ended, experiment, environment, summary, problem, detail,"
    " comparison, label, total_steps"
)


def run_from(row: Row) -> RunRecord:
    """The run in a row of `RUN_COLUMNS`."""
    environment, summary, problem = row["environment"], row["summary"], row["problem"]
    return RunRecord(
        id=row["id"],
        number=row["number"],
        name=row["name"],
        status=Status(row["status"]),
        created=_moment(row["created"]),
        started=_moment(row["started"]) if row["started"] is not None else None,
        ended=_moment(row["ended"]) if row["ended"] is not None else None,
        experiment=Experiment.from_json(row["experiment"]),
        environment=Environment.model_validate_json(environment) if environment else None,
        summary=Summary.model_validate_json(summary) if summary else None,
        problem=Problem.model_validate_json(problem) if problem else None,
        detail=row["detail"],
        comparison=row["comparison"],
        label=row["label"],
        total_steps=row["total_steps"],
    )


def comparison_from(row: Row) -> ComparisonRecord:
    return ComparisonRecord(id=row["id"], title=row["title"], created=_moment(row["created"]))


def _moment(unix_seconds: float) -> datetime:
    return datetime.fromtimestamp(unix_seconds, UTC)
