"""Saved runs and comparisons as values, read from their rows.

Fields saved as JSON are parsed on first use. A damaged run does not keep the others from being listed.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property, lru_cache
from sqlite3 import Row
from typing import Any, Generic, NamedTuple, Self, TypeVar, overload

from engine.experiment.command import Command
from engine.experiment.experiment import OF_SCRIPTS, Experiment, Precision
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.experiment.settings import PLAIN
from engine.experiment.value import Bounded, one_line, printable
from engine.protocol.events import Environment, Summary
from engine.store.schema import SEALED, is_intact

RUN = "run"
"""The kind of work that is a run."""

T = TypeVar("T")
_NUMBERED = re.compile(r"Run \d+")


@dataclass(frozen=True)
class Work:
    """Work in the queue, saved while it waits: a run, whose id is `key`, a study or a sweep.

    `request` is the answer of a study that is not saved yet, as JSON. `machine` is the remote machine that it
    runs on, "" for this one.
    """

    key: str
    kind: str
    title: str
    request: str = ""
    is_paused: bool = False
    machine: str = ""


class LazyField(Generic[T]):
    """A dataclass field that holds a value, or its JSON text, which `parse` converts on first use.

    A table of ten thousand runs shows thirty of them, and validating the settings of all would take a second.
    Two threads that read it at the same time may both parse, to the same value.
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
            # a dataclass asks for this to learn that the field has no default
            raise AttributeError(self._name)
        held: Any = run.__dict__[self._name]
        if isinstance(held, UnparsedJson):
            held = run.__dict__[self._name] = self._parse(held.json)
        value: T = held
        return value

    def __set__(self, run: object, value: T | UnparsedJson) -> None:
        run.__dict__[self._name] = value


class UnparsedJson(NamedTuple):
    """The JSON text of a `LazyField`, which is parsed when the field is first read."""

    json: str


class _Excerpt(Bounded, extra="ignore", from_attributes=True):
    """The fields of a record or of settings that a table of runs reads."""


class _Settings(_Excerpt):
    class Step(_Excerpt):
        recipe: str = PLAIN

    class Line(_Excerpt):
        line: str = ""
        shell: bool = False

    model: str
    dataset: str
    image_size: int | None = None
    precision: Precision
    batch_size: int
    seed: int = 0
    step: Step = Step()
    command: Line = Line()


class _Figures(_Excerpt):
    class Observations(_Excerpt):
        batch_size: int | None = None

    samples_per_second: float | None = None
    peak_allocated_mib: float | None = None
    peak_resident_mib: float | None = None
    final_validation_accuracy: float | None = None
    speed_note: str | None = None
    slowed_by: tuple[str, ...] = ()
    other_programs_mib: float | None = None
    spilled_mib: float | None = None
    observed: Observations | None = None


class Overview(NamedTuple):
    """The columns that a table of thousands of runs shows of each.

    `recipe` is the requested one. `peak_mib` counts memory allocated on a GPU, or resident on a CPU. The
    `model` of a script is its name, `dataset` and `recipe` are empty, and `batch_size` is 0 unless seen.
    """

    model: str
    dataset: str
    image_size: int | None
    precision: Precision
    batch_size: int
    recipe: str
    samples_per_second: float | None
    peak_mib: float | None
    accuracy: float | None
    speed_note: str | None
    slowed_by: tuple[str, ...]
    other_programs_mib: float | None
    spilled_mib: float | None
    seed: int = 0

    @property
    def is_script(self) -> bool:
        return not self.dataset


class Status(StrEnum):
    """The state of a run. `INTERRUPTED`: the program that ran it has ended, but its samples remain."""

    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    STOPPED = "stopped"
    FAILED = "failed"
    INTERRUPTED = "interrupted"

    @property
    def is_over(self) -> bool:
        return self not in (Status.QUEUED, Status.RUNNING)

    @property
    def clause(self) -> str:
        """The state as the end of a sentence about the run: "is still training"."""
        words = {"queued": "has not started", "running": "is still training", "finished": "ended"}
        return words.get(self, "failed" if self is Status.FAILED else f"was {self.value}")


def unreadable_error(what: str, why: str = "") -> ProblemError:
    """Return the error for an unreadable part of a saved run. `what` is in the plural."""
    message = f"The {what} of a saved run cannot be read{f': {why}' if why else '.'}"
    remedy = "A newer Ammeter may have written it. Read it with that version, or exclude it."
    return ProblemError(Problem(kind=Kind.STORE, message=message, remedy=remedy))


def checksum_error(connection: sqlite3.Connection, run_id: str, what: str) -> ProblemError:
    """Return the error for a part of a run whose checksum differs. `what` is in the plural."""
    row = connection.execute("SELECT id, name FROM runs WHERE id = ?", (run_id,)).fetchone()
    return _checksum_error(row, what)


def _checksum_error(run: Row, what: str) -> ProblemError:
    name = f"{one_line(run['name'])} ({one_line(run['id'])})"
    message = f"The {what} of {name} cannot be read. They are damaged (checksum mismatch)."
    return ProblemError(Problem(kind=Kind.STORE, message=message, remedy=_DAMAGED))


_DAMAGED = (
    "Check the disk. Delete the run, then import it from an archive (.ammeter) or train it again. Other runs "
    "can still be read."
)


def _experiment(text: str) -> Experiment:
    try:
        return Experiment.from_json(text)
    except ProblemError as error:
        # the remedy of an experiment's own problem is for one that is being set up
        raise unreadable_error("settings", error.problem.message) from None


@lru_cache(maxsize=256)
def _environment(text: str) -> Environment | None:
    # the runs of one machine share their environment
    try:
        return Environment.model_validate_json(text)
    except ValueError:
        raise unreadable_error("facts of the machine") from None


def _summary(text: str) -> Summary | None:
    try:
        return Summary.model_validate_json(text)
    except ValueError:
        raise unreadable_error("figures") from None


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """A saved run: its settings, state, summary, and place in comparison and sweep. No samples and events.

    `number` is the 14 of "Run 14". `label` is the run's side of `comparison`. Times are in UTC. The user sets
    `tags`, `note` and `is_pinned`. A run of a `sweep` is the `repeat` (1-based) of a `cell`. `machine` is
    where it trains, "" for this one. If the run comes from the store, `experiment`, `environment` and
    `summary` are parsed on first use, which raises ProblemError on damage.
    """

    id: str
    number: int
    name: str
    status: Status
    created: datetime
    started: datetime | None
    ended: datetime | None
    experiment: LazyField[Experiment] = LazyField(_experiment)
    environment: LazyField[Environment | None] = LazyField(_environment)
    summary: LazyField[Summary | None] = LazyField(_summary)
    problem: Problem | None
    detail: str
    comparison: str | None
    label: str | None
    total_steps: int | None
    tags: tuple[str, ...] = ()
    note: str = ""
    sweep: str | None = None
    cell: int | None = None
    repeat: int | None = None
    sweep_name: str = ""
    is_pinned: bool = False
    machine: str = ""

    @cached_property
    def overview(self) -> Overview:
        """The run's columns in a list of runs. Raises ValueError if its JSON is damaged."""
        held, outcome = self.__dict__["experiment"], self.__dict__["summary"]
        settings = _excerpt(_Settings, held)
        figures = _NO_FIGURES if outcome is None else _excerpt(_Figures, outcome)
        allocated = figures.peak_allocated_mib
        facts = {name: getattr(settings, name) for name in _Settings.model_fields if name in Overview._fields}
        facts["recipe"] = settings.step.recipe
        if settings.command.line.strip():
            batch = figures.observed and figures.observed.batch_size
            facts |= {
                "model": Command(**dict(settings.command)).script,
                "dataset": "",
                "recipe": "",
                "batch_size": batch or 0,
            }
        return Overview(
            **facts,
            samples_per_second=figures.samples_per_second,
            peak_mib=figures.peak_resident_mib if allocated is None else allocated,
            accuracy=figures.final_validation_accuracy,
            speed_note=figures.speed_note,
            slowed_by=figures.slowed_by,
            other_programs_mib=figures.other_programs_mib,
            spilled_mib=figures.spilled_mib,
        )

    @property
    def has_own_name(self) -> bool:
        """True if the user named the run. "Run 14" is an automatic name."""
        return not _NUMBERED.fullmatch(self.name)

    @property
    def title(self) -> str:
        """The user's name of the run, or else "BF16 AMP, resnet50, batch 64", or "train.py --amp"."""
        if self.has_own_name:
            return self.name
        if self.overview.is_script:
            return self.side
        return f"{self.side}, {self.model_name}, batch {self.overview.batch_size:,}"

    @property
    def work(self) -> Work:
        """The run as work for the queue."""
        return Work(self.id, RUN, self.title, machine=self.machine)

    @property
    def side(self) -> str:
        """The name of the run's side of a comparison: "BF16 AMP", "train.py --amp"."""
        if self.label:
            return self.label
        return self.experiment.command.name if self.overview.is_script else self.overview.precision.label

    @property
    def model_name(self) -> str:
        """The name of the model without its folders or owner, or of the script: "train.py"."""
        return re.split(r"[/\\]", self.overview.model)[-1]

    @cached_property
    def settings_but_precision(self) -> str:
        """A key that is equal for runs whose settings differ only in precision."""
        held = self.__dict__["experiment"]
        text = _with_identity(held.json) if isinstance(held, UnparsedJson) else ""
        if text.count(_KEY_END) != _KEYS:
            # of another version, with other settings, only what is parsed compares
            text = _with_identity(self.experiment.to_json())
        return text.replace(f'"precision":"{self.overview.precision}"', "", 1)

    def to_dict(self) -> dict[str, Any]:
        """Return the run and its settings as plain JSON values, with NaN and infinity as text."""
        shown = set(OF_SCRIPTS) if self.experiment.is_script else None
        return {
            "id": self.id,
            "name": self.name,
            "status": self.status.value,
            "label": self.label,
            "comparison": self.comparison,
            "machine": self.machine,
            "tags": list(self.tags),
            "note": self.note,
            "created": self.created.isoformat(),
            "started": self.started.isoformat() if self.started else None,
            "ended": self.ended.isoformat() if self.ended else None,
            "experiment": json.loads(self.experiment.model_dump_json(include=shown)),
            "environment": json.loads(self.environment.model_dump_json()) if self.environment else None,
            "summary": json.loads(self.summary.model_dump_json()) if self.summary else None,
            "problem": json.loads(self.problem.model_dump_json()) if self.problem else None,
        }


_CODE, _DECODER = '"code":', json.JSONDecoder()


def _with_identity(settings: str) -> str:
    """The settings' JSON with a hash in place of the code, the same for code in another folder."""
    start = settings.find(f'{_CODE}"')
    if start < 0:
        return settings
    # reading it as `own_code` does is too slow for a list of thousands of runs
    text, end = _DECODER.raw_decode(settings, start + len(_CODE))
    code = {**json.loads(text), "folder": ""}
    identity = hashlib.sha256(json.dumps(code, sort_keys=True).encode()).hexdigest()
    return f'{settings[:start]}{_CODE}"{identity}"{settings[end:]}'


def _excerpt(kind: type[_Part], held: object) -> _Part:
    return (
        kind.model_validate_json(held.json) if isinstance(held, UnparsedJson) else kind.model_validate(held)
    )


_Part = TypeVar("_Part", bound=_Excerpt)
_NO_FIGURES = _Figures()
_KEY_END = '":'
_KEYS = Experiment().to_json().count(_KEY_END)


@dataclass(frozen=True)
class ComparisonRecord:
    """A saved group of runs that were started together to be compared.

    `ammeter` is the version that created it, if known.
    """

    id: str
    title: str
    created: datetime
    ammeter: str | None = None


RUN_COLUMNS = (
    "id, number, name, status, created, started, ended, experiment, environment, summary, problem, detail,"
    " comparison, label, total_steps, tags, note, sweep, cell, repeat, is_pinned, machine, checksum,"
    " (SELECT name FROM sweeps WHERE sweeps.id = runs.sweep) AS sweep_name"
)


_NO_TAGS = "[]"


def run_from(row: Row) -> RunRecord:
    """Return the run in a row of `RUN_COLUMNS`.

    Raises ValueError, TypeError or OverflowError for a damaged one, and ProblemError if its checksum differs.
    """
    if not is_intact(row, SEALED["runs"]):
        raise _checksum_error(row, "settings or results")
    environment, summary, problem = row["environment"], row["summary"], row["problem"]
    return RunRecord(
        id=_text(row["id"]),
        number=_whole(row["number"]),
        name=one_line(row["name"]),
        status=Status(row["status"]),
        created=moment(row["created"]),
        started=moment(row["started"]) if row["started"] is not None else None,
        ended=moment(row["ended"]) if row["ended"] is not None else None,
        experiment=UnparsedJson(_text(row["experiment"])),
        environment=UnparsedJson(_text(environment)) if environment else None,
        summary=UnparsedJson(_text(summary)) if summary else None,
        problem=Problem.model_validate_json(problem) if problem else None,
        detail=printable(row["detail"]),
        comparison=None if row["comparison"] is None else _text(row["comparison"]),
        label=None if row["label"] is None else one_line(row["label"]),
        total_steps=None if row["total_steps"] is None else _whole(row["total_steps"]),
        tags=_tags(row["tags"]) if row["tags"] != _NO_TAGS else (),
        note=printable(row["note"]),
        sweep=None if row["sweep"] is None else _text(row["sweep"]),
        cell=None if row["sweep"] is None else _whole(row["cell"]),
        repeat=None if row["sweep"] is None else _whole(row["repeat"]),
        sweep_name=one_line(row["sweep_name"] or ""),
        is_pinned=bool(row["is_pinned"]),
        machine=one_line(row["machine"]),
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
    """Return the comparison in a row. Raises ValueError, TypeError or OverflowError if it is damaged."""
    return ComparisonRecord(_text(row["id"]), one_line(row["title"]), moment(row["created"]), row["ammeter"])


def moment(unix_seconds: float) -> datetime:
    """Return a saved time."""
    return datetime.fromtimestamp(unix_seconds, UTC)


@dataclass(frozen=True)
class UnreadableRun:
    """A saved run that is damaged and cannot be read. `why` is the reason, as a sentence."""

    id: str
    name: str
    why: str
