"""A saved run or comparison as a value, and the reading of its row.

Fields stored as JSON are parsed when they are first asked for. A run that cannot be read, because it is
damaged or of another version, does not hide the others.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from sqlite3 import Row
from typing import Any, Generic, Self, TypeVar, overload

from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.experiment.text import one_line, printable, shortened
from engine.protocol.events import Environment, Summary

T = TypeVar("T")


class Parsed(Generic[T]):
    """For a dataclass's field: it is given a value, or the text that `parse` makes one of at first use.

    A table of ten thousand runs shows thirty of them; validating the settings of all would take it a second.
    Two threads that ask at the same time may both parse, to the same value.
    """

    def __init__(self, parse: Callable[[str], T]) -> None:
        self._parse = parse
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, run: None, owner: type) -> Self: ...
    @overload
    def __get__(self, run: object, owner: type) -> T: ...
    def __get__(self, run: object | None, owner: type) -> T | Self:
        if run is None:
            # what a dataclass asks for to learn that the field has no default
            raise AttributeError(self._name)
        held: Any = run.__dict__[self._name]
        if isinstance(held, Text):
            held = run.__dict__[self._name] = self._parse(held.json)
        value: T = held
        return value

    def __set__(self, run: object, value: T | Text) -> None:
        run.__dict__[self._name] = value


class Text:
    """The JSON text of a value that nobody has asked for yet."""

    __slots__ = ("json",)

    def __init__(self, json: str) -> None:
        self.json = json


def text_of(run: object, field: str) -> str | None:
    """The JSON text of a field that was not parsed yet; None where it is a value by now."""
    held = run.__dict__[field]
    return held.json if isinstance(held, Text) else None


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
    experiment: Parsed[Experiment] = Parsed(_experiment)
    environment: Parsed[Environment | None] = Parsed(_environment)
    summary: Parsed[Summary | None] = Parsed(_summary)
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


_MOST_SHAPES = 4_096
_DIGITS = b"0123456789"


@dataclass(frozen=True)
class UnreadableRun:
    """A saved run of which no more can be told; `why` is a sentence."""

    id: str
    name: str
    why: str


class Reader:
    """Makes records of rows. It remembers what it could read, since runs are much alike."""

    def __init__(self) -> None:
        self._sound: set[bytes] = set()

    def __call__(self, row: Row) -> RunRecord | UnreadableRun:
        """The run in a row of `RUN_COLUMNS`, or why it cannot be read."""
        try:
            record = run_from(row)
            self._check(row["experiment"], lambda: record.experiment)
            self._check(row["environment"], lambda: record.environment)
            self._check(row["summary"], lambda: record.summary)
        except ProblemError as error:
            return _unreadable(row, error.problem.message)
        except (ValueError, TypeError, OverflowError, OSError, RecursionError):
            return _unreadable(row, "What is saved of this run is damaged.")
        return record

    def _check(self, text: str | None, parse: Callable[[], object]) -> None:
        """Parses a text, unless one that differs in its digits alone was parsed before.

        To parse the settings of ten thousand runs takes longer than to show them, and their lines differ in
        seeds, sizes and figures. What other versions write differs in names.
        """
        if text is None:
            return
        shape = text.encode().translate(None, _DIGITS)
        if shape in self._sound:
            return
        parse()
        if len(self._sound) < _MOST_SHAPES:
            self._sound.add(shape)


def _unreadable(row: Row, why: str) -> UnreadableRun:
    return UnreadableRun(shortened(row["id"]), shortened(row["name"]), why)
