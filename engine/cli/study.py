"""Runs a study for a command: shows its progress, writes it to files, and prints it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from engine.cli import output
from engine.cli.session import (
    DONE,
    FAILED,
    INTERRUPTED,
    NOT_ALL_DONE,
    CommandSession,
    Interrupt,
    PhaseProgress,
)
from engine.driver import Driver
from engine.experiment.checks import Catalog
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.export import formats
from engine.export.document import Document
from engine.export.formats import ResultKind as Formats
from engine.export.kinds import limit, numerics, profile, tune
from engine.protocol.answer import Answer, StudyKind
from engine.protocol.events import Event, Failed, Finished, Summary
from engine.store.saved.studies import Study
from engine.store.store import Store
from engine.worker.launcher import Launcher

A = TypeVar("A", bound=Answer)

_ROWS_SHOWN = 8
_ALL_ROWS = 1_000_000


@dataclass(frozen=True)
class StudyOutput:
    """The output of one kind of study: file formats, the document to print, and values for --json."""

    formats: Formats[Any]
    document: Callable[[Any], Document]
    values: Callable[[Any], Mapping[str, Any]]
    most_rows: int = _ROWS_SHOWN


OUTPUTS: Mapping[StudyKind, StudyOutput] = {
    "limit": StudyOutput(
        formats.LIMIT,
        limit.document,
        limit.values,
        _ALL_ROWS,
    ),
    "numerics": StudyOutput(
        formats.NUMERICS,
        numerics.document,
        lambda study: study.answer.results.as_json(),
    ),
    "profile": StudyOutput(
        formats.PROFILE,
        partial(profile.document, brief=True),
        lambda study: profile.values(study.answer),
    ),
    "tune": StudyOutput(
        formats.TUNE,
        partial(tune.document, brief=True),
        lambda study: tune.values(study.answer) if study.answer.is_known else {},
    ),
}


@dataclass(frozen=True)
class StudyEnd(Generic[A]):
    """A study (limit, numerics, profile or tune) that a command has run, and its last event."""

    study: Study[A]
    last: Event
    was_interrupted: bool

    @property
    def answer(self) -> A:
        return self.study.answer

    @property
    def is_unfinished(self) -> bool:
        return isinstance(self.last, Finished) and self.last.stopped

    def report(self, *, as_json: bool, is_failure: bool = False, failed_part: Problem | None = None) -> int:
        """Print the results, and return the exit status of the command.

        With `is_failure` the status is that of a failure. `failed_part` is the problem of a part that has no
        results.
        """
        if not as_json and self.answer.is_known:
            _print(self.study)
        # a study without results is not kept and has no id
        saved_id = self.study.id if self.study.is_known else None
        head = {"id": saved_id, "machine": self.study.machine, "not_done": list(self.study.not_done)}
        whole = {**head, **OUTPUTS[self.study.kind].values(self.study)}
        has_failed = isinstance(self.last, Failed)
        problem = self.last.problem if isinstance(self.last, Failed) else failed_part
        if problem is not None and (as_json or has_failed):
            output.error(problem, as_json, **whole)
        elif as_json:
            output.json_object(whole)
        if self.was_interrupted:
            return INTERRUPTED
        if problem is not None or is_failure:
            return FAILED
        return NOT_ALL_DONE if self.study.not_done else DONE


def _print(study: Study[Any]) -> None:
    printed = OUTPUTS[study.kind]
    output.document(printed.document(study), printed.most_rows)


def show_study(study: Study[Any], *, as_json: bool) -> None:
    """Print a saved study as its command did."""
    if as_json:
        head = {"id": study.id, "kind": study.kind, "machine": study.machine}
        output.json_object({**head, "not_done": list(study.not_done), **OUTPUTS[study.kind].values(study)})
        return
    on = f" on {study.machine}" if study.machine else ""
    output.line(f"{study.name}: {study.title}{on}\n")
    if study.answer.is_known:
        _print(study)
    if study.problem is not None:
        output.line(f"\n{study.problem.message}\n{study.problem.remedy}")
    for sentence in study.not_done:
        output.line(f"\n{sentence}")


def run_study(
    session: CommandSession,
    driver_of: Callable[[Store, Launcher, Catalog], Driver[A]],
    study: Study[A],
    to: Iterable[str] | None,
    *,
    force: bool,
) -> StudyEnd[A]:
    """Run the study with a progress line until it ends or Ctrl+C, and write its results to the paths.

    Raises ProblemError for a request that was refused without any result.
    """
    driver = driver_of(session.store, session.launcher, session.catalog)
    last: Event = Finished(summary=Summary(), stopped=True)
    with Interrupt(driver.stop) as interrupt, PhaseProgress() as progress:
        for known in interrupt.watch(driver.follow(study)):
            if isinstance(known, Study):
                study = known
                progress.set_prefix(study.doing)
            else:
                last = known
                progress.show(known)
    if isinstance(last, Failed) and last.problem.kind is Kind.REQUEST and not study.answer.is_known:
        raise ProblemError(last.problem)
    for path in to or () if study.answer.is_known else ():
        OUTPUTS[study.kind].formats.export(study, path, force=force)
    return StudyEnd(study, last, interrupt.asked)
