"""The verbs' common way with a study: it is made with a progress line, written to files, and printed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from engine.busyness import Watch
from engine.cli import output
from engine.cli.session import DONE, FAILED, INTERRUPTED, Interrupt, PhaseProgress, read_catalog
from engine.driver import Driver
from engine.experiment.checks import Catalog
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.export.document import Section
from engine.export.formats import Kind as Formats
from engine.protocol.answer import Answer
from engine.protocol.events import Event, Failed, Finished, Summary
from engine.runner import Runner
from engine.store.saved.study import Study
from engine.store.store import Store
from engine.worker.awake import kept_awake
from engine.worker.launcher import Launcher, Target

A = TypeVar("A", bound=Answer)

_ROWS_SHOWN = 8


@dataclass(frozen=True)
class Desk:
    """What a verb works with; `watch` looks at the machine from before the catalog was read."""

    store: Store
    launcher: Launcher
    catalog: Catalog
    watch: Watch


@contextmanager
def open_desk(target: Target = Target.PROCESS) -> Iterator[Desk]:
    """Opens the store and reads the catalog. Raises ProblemError where nothing can be saved."""
    with Store() as store, Launcher(target) as launcher, kept_awake():
        store.recover()
        store.check_writable()
        # it imports torch while another worker reads the catalog
        launcher.prepare()
        watch = Watch()
        yield Desk(store, launcher, read_catalog(Runner(store, launcher)), watch)


@dataclass(frozen=True)
class Followed(Generic[A]):
    """A study as it was left, and how it ended."""

    study: Study[A]
    last: Event
    was_interrupted: bool

    @property
    def answer(self) -> A:
        return self.study.answer

    @property
    def problem(self) -> Problem | None:
        return self.last.problem if isinstance(self.last, Failed) else None

    @property
    def is_unfinished(self) -> bool:
        return isinstance(self.last, Finished) and self.last.stopped

    @property
    def saved_id(self) -> str | None:
        """Its id in the store; None where nothing of it is kept."""
        return self.study.id if self.study.is_known else None

    def export(self, formats: Formats[Study[A]], paths: Iterable[str], *, force: bool) -> None:
        """Writes what is known to the paths. Raises ProblemError."""
        for path in paths if self.answer.is_known else ():
            formats.export(self.study, path, force=force)

    def tell(
        self,
        sections: Sequence[Section],
        values: Mapping[str, Any],
        *,
        as_json: bool,
        most_rows: int = _ROWS_SHOWN,
        is_failure: bool = False,
        failed_part: Problem | None = None,
    ) -> int:
        """Prints what is known, and returns the exit status.

        Tables get at most `most_rows`. `is_failure` is an answer that counts as one; `failed_part` says why a
        part of it is missing.
        """
        if not as_json and self.answer.is_known:
            output.sections(sections, most_rows)
        whole = {"id": self.saved_id, **values}
        problem = self.problem or failed_part
        if problem is not None and (as_json or self.problem is not None):
            output.error(problem, as_json, **whole)
        elif as_json:
            output.json_object(whole)
        if self.was_interrupted:
            return INTERRUPTED
        return FAILED if problem is not None or is_failure else DONE


def follow(driver: Driver[A], study: Study[A]) -> Followed[A]:
    """Makes the study, with a progress line, until Ctrl+C stops it.

    Raises ProblemError for a request that was refused before anything was known.
    """
    last: Event = Finished(summary=Summary(), stopped=True)
    with Interrupt(driver.stop) as interrupt, PhaseProgress() as progress:
        for known in driver.follow(study):
            if isinstance(known, Study):
                study = known
                progress.set_prefix(study.doing)
            else:
                last = known
                progress.show(known)
            if interrupt.asked:
                # Ctrl+C may have come before the work began
                driver.stop()
    if isinstance(last, Failed) and last.problem.kind is Kind.REQUEST and not study.answer.is_known:
        raise ProblemError(last.problem)
    return Followed(study, last, interrupt.asked)
