"""A study: a batch-size search, numerics study, profile or tuning with its results so far."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

from engine import __version__
from engine.experiment.experiment import Experiment
from engine.experiment.problem import Problem
from engine.protocol.answer import Answer, StudyKind
from engine.protocol.numerics.numerics import Numerics
from engine.protocol.profiles import Profiles
from engine.protocol.trials import Limit
from engine.protocol.tune import Tuning


def new_id() -> str:
    """Return an id that no other record has."""
    return secrets.token_hex(6)


ANSWERS: Mapping[StudyKind, type[Answer]] = {
    answer.kind: answer for answer in (Limit, Numerics, Profiles, Tuning)
}
NAMES: Mapping[StudyKind, str] = {
    "limit": "Limit",
    "numerics": "Numerics",
    "profile": "Profile",
    "tune": "Tuning",
}

A = TypeVar("A", bound=Answer)


@dataclass(frozen=True, kw_only=True)
class Study(Generic[A]):
    """The state of a study (limit, numerics, profile or tuning) with its results so far in `answer`.

    It `is_over` once it was finished, stopped or failed, but not if its program ended. `machine` is where it
    was made, "" for this one. `problem` is the reason of a failure. `not_done` are sentences on requested
    parts that are missing. Not saved are the current activity `doing`, as a clause, the `place` of the
    current experiment, the run in training (`trains`), and the `folder` of its traces.
    """

    answer: A
    id: str = field(default_factory=new_id)
    number: int = 0
    created: datetime = field(default_factory=lambda: datetime.now(UTC))
    device_name: str = ""
    problem: Problem | None = None
    is_over: bool = False
    ammeter: str | None = __version__
    machine: str = ""
    not_done: tuple[str, ...] = ()
    doing: str = ""
    place: int = 0
    trains: str | None = None
    folder: Path | None = field(default=None, compare=False)

    @property
    def kind(self) -> StudyKind:
        return self.answer.kind

    @property
    def name(self) -> str:
        return f"{NAMES[self.kind]} {self.number:,}"

    @property
    def title(self) -> str:
        return self.answer.title

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        return self.answer.experiments

    @property
    def is_known(self) -> bool:
        """True if the study has any result to show."""
        return self.answer.is_known or self.problem is not None

    def knowing(self, **changes: Any) -> Study[A]:
        """Return the study with `changes` to the fields of its answer."""
        return replace(self, answer=self.answer.model_copy(update=changes))


@dataclass(frozen=True)
class StudyEntry:
    """The entry of a saved study in a list, which is read without the study's results."""

    id: str
    kind: StudyKind
    number: int
    title: str
    digest: str
    created: datetime
    device_name: str
    is_over: bool
    machine: str
    run_ids: tuple[str | None, ...]


def columns_of(study: Study[Any]) -> dict[str, object]:
    """Return the columns of a row that change during the study."""
    return {
        "name": study.name,
        "title": study.title,
        "digest": study.answer.digest,
        "is_known": study.is_known,
        "runs": json.dumps(list(study.answer.run_ids)),
        "device_name": study.device_name,
        "machine": study.machine,
        "answer": study.answer.model_dump_json(),
        "not_done": json.dumps(study.not_done),
        "problem": None if study.problem is None else study.problem.model_dump_json(),
        "ended": time.time() if study.is_over else None,
    }
