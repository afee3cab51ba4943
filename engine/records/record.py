"""One saved run, as a value."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from sqlite3 import Row
from typing import Any

from engine.events import Environment, Summary
from engine.experiment import Experiment
from engine.problem import Kind, Problem, ProblemError
from engine.records.parsed import Parsed, Text
from engine.text import one_line, printable


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


def unreadable(what: str, why: str = "") -> ProblemError:
    """What to raise where a part of a saved run cannot be read; `what` is in the plural."""
    message = f"The {what} of a saved run cannot be read{f': {why}' if why else '.'}"
    remedy = "A newer Ammeter may have written it: read it with that one, or leave it out."
    return ProblemError(Problem(kind=Kind.STORE, message=message, remedy=remedy))


def _experiment(text: str) -> Experiment:
    try:
        return Experiment.from_json(text)
    except ProblemError as error:
        # the words of an experiment's own problem are for one that is being put together
        raise unreadable("settings", error.problem.message) from None


@lru_cache(maxsize=256)
def _environment(text: str) -> Environment | None:
    # the runs of one machine share theirs
    try:
        return Environment.model_validate_json(text)
    except ValueError:
        raise unreadable("facts of the machine") from None


def _summary(text: str) -> Summary | None:
    try:
        return Summary.model_validate_json(text)
    except ValueError:
        raise unreadable("figures") from None


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """A run in the store; its samples and events are read apart.

    `number` is the 14 of "Run 14"; `label` is the run's side of `comparison`; times are in UTC. `tags` and
    `note` are what its user wrote on it. Of a run from the store, `experiment`, `environment` and `summary`
    are parsed when they are asked for; a damaged one raises ProblemError then.
    """

    id: str
    number: int
    name: str
    status: Status
    created: datetime
    started: datetime | None
    ended: datetime | None
    experiment: Parsed[Experiment] = Parsed(_experiment)  # noqa: RUF009 - a descriptor, no default
    environment: Parsed[Environment | None] = Parsed(_environment)  # noqa: RUF009 - a descriptor, no default
    summary: Parsed[Summary | None] = Parsed(_summary)  # noqa: RUF009 - a descriptor, no default
    problem: Problem | None
    detail: str
    comparison: str | None
    label: str | None
    total_steps: int | None
    tags: tuple[str, ...] = ()
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The run as plain JSON values; NaN and infinity as text."""
        return {
            "id": self.id,
            "name": self.name,
            "status": self.status.value,
            "label": self.label,
            "comparison": self.comparison,
            "tags": list(self.tags),
            "note": self.note,
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
    " comparison, label, total_steps, tags, note"
)


_NO_TAGS = "[]"


def run_from(row: Row) -> RunRecord:
    """The run in a row of `RUN_COLUMNS`. Raises ValueError, TypeError or OverflowError for a damaged one."""
    environment, summary, problem = row["environment"], row["summary"], row["problem"]
    return RunRecord(
        id=_text(row["id"]),
        number=_whole(row["number"]),
        name=one_line(row["name"]),
        status=Status(row["status"]),
        created=_moment(row["created"]),
        started=_moment(row["started"]) if row["started"] is not None else None,
        ended=_moment(row["ended"]) if row["ended"] is not None else None,
        experiment=Text(_text(row["experiment"])),
        environment=Text(_text(environment)) if environment else None,
        summary=Text(_text(summary)) if summary else None,
        problem=Problem.model_validate_json(problem) if problem else None,
        detail=printable(row["detail"]),
        comparison=None if row["comparison"] is None else _text(row["comparison"]),
        label=None if row["label"] is None else one_line(row["label"]),
        total_steps=None if row["total_steps"] is None else _whole(row["total_steps"]),
        tags=_tags(row["tags"]) if row["tags"] != _NO_TAGS else (),
        note=printable(row["note"]),
    )


def _text(cell: object) -> str:
    # SQLite keeps a value of any type in any column
    if not isinstance(cell, str):
        raise TypeError(cell)
    return cell


def _whole(cell: object) -> int:
    if not isinstance(cell, int):
        raise TypeError(cell)
    return cell


def _tags(text: str) -> tuple[str, ...]:
    tags = json.loads(text)
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise ValueError(text)
    return tuple(map(one_line, tags))


def comparison_from(row: Row) -> ComparisonRecord:
    """The comparison in a row. Raises ValueError, TypeError or OverflowError for a damaged one."""
    return ComparisonRecord(_text(row["id"]), one_line(row["title"]), _moment(row["created"]))


def _moment(unix_seconds: float) -> datetime:
    return datetime.fromtimestamp(unix_seconds, UTC)
