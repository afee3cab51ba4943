"""Drivers of studies: they run jobs in workers, and save the results as snapshots in the store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from threading import Event as Flag
from typing import ClassVar, Generic, TypeVar

from engine.experiment.checks import Catalog, DeviceEntry, resolve
from engine.experiment.command import refuse
from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind, Problem
from engine.protocol import jobs
from engine.protocol.answer import Answer
from engine.protocol.events import Event, Failed, Finished, Log, Summary
from engine.runner import Runner
from engine.store.record import Work
from engine.store.saved.studies import Study
from engine.store.store import Store
from engine.words.names import setting_text
from engine.worker.launcher import Launcher, Session, iterate

A = TypeVar("A", bound=Answer)


class Inspector:
    """The base class of studies and sweeps: runs jobs in workers, in the thread that reads the events.

    `catalog` lists the devices and models, by default of the launcher's machine.
    """

    on_one_device: ClassVar[str] = ""
    """The work that always uses one device, as a clause: "a profile is made"."""

    def __init__(self, store: Store, launcher: Launcher, catalog: Catalog | None = None) -> None:
        self._store = store
        self._launcher = launcher
        self._catalog = catalog
        self._session: Session | None = None
        self._stop_asked = Flag()
        self._skipped_devices = 1

    def stop(self) -> None:
        """Stop after the current step, and keep the results so far. Any thread may call it."""
        self._stop_asked.set()
        session = self._session
        if session is not None:
            session.stop()

    def _prepared(self, experiments: Iterable[Experiment]) -> list[tuple[Experiment, DeviceEntry]]:
        # raises ProblemError where one cannot be trained on this machine, or its code is not trusted
        wanted = tuple(experiments)
        if self.on_one_device:
            self._skipped_devices = next((each.devices for each in wanted if each.devices != 1), 1)
            wanted = tuple(each.model_copy(update={"devices": 1}) for each in wanted)
        for experiment in wanted:
            self._launcher.trusted_code.check(experiment)
        catalog = self._known_catalog()
        prepared = []
        for experiment in wanted:
            resolved = resolve(experiment, catalog)
            device = catalog.device(resolved.device)
            assert device is not None  # the experiment is resolved
            prepared.append((resolved, device))
        return prepared

    def _known_catalog(self) -> Catalog:
        if self._catalog is None:
            self._catalog = Runner(self._store, self._launcher).catalog()
        return self._catalog

    def _events(self, job: jobs.Job) -> Iterator[Event]:
        session = self._session = self._launcher.start(job)
        try:
            for event in iterate(session):
                if event is not None:
                    yield event
                if self._stop_asked.is_set() and not session.is_over:
                    # stop() may have come before there was a session; asking twice does no harm
                    session.stop()
        finally:
            self._session = None
            session.close()


class Driver(Inspector, ABC, Generic[A]):
    """Base class of the drivers that perform one kind of study (limit, numerics, profile or tune).

    The work is done in the thread that iterates over `follow`. Any thread may call `stop`.
    """

    keeps_place: ClassVar[bool] = False
    """True if a study stays in the queue until it is over, so that it resumes after a restart."""

    def execute(self, work: Work, should_yield: Callable[[], bool]) -> Iterator[Study[A] | Event]:
        """Follow the study of queued work. Raises ProblemError also for a request that cannot be read."""
        return self.follow(self._store.studies.of_work(work), should_yield)

    def follow(
        self, study: Study[A], should_yield: Callable[[], bool] = lambda: False
    ) -> Iterator[Study[A] | Event]:
        """Yield each saved snapshot of the study, and events between them. The last is Finished or Failed.

        Between its parts it ends early if `should_yield` returns True. A study without any result is deleted,
        unless it failed for another reason than a refused request. Raises ProblemError before any event if
        the study cannot be made on this machine, if its code is not trusted, or if another process works on
        it.
        """
        refuse(study.kind, (each.command for each in study.experiments))
        self._stop_asked.clear()
        study = replace(study, machine=self._launcher.site.name)
        study = self._store.studies.begin(self.prepare(study), keeps_place=self.keeps_place)
        has_yielded, problem = False, None

        def is_to_end() -> bool:
            nonlocal has_yielded
            has_yielded = has_yielded or should_yield()
            return has_yielded or self._stop_asked.is_set()

        last: Event = Finished(summary=Summary(), stopped=True)
        # what a resumed study lacked before stays missing
        not_done = dict.fromkeys(study.not_done)
        try:
            yield study
            for known in self._all_steps(study, is_to_end):
                if isinstance(known, Log) and known.level == "problem":
                    not_done[known.message] = None
                if isinstance(known, Study):
                    study = known = replace(known, not_done=tuple(not_done))
                    self._store.studies.save(study)
                elif isinstance(known, Finished | Failed):
                    last = known
                    problem = known.problem if isinstance(known, Failed) else None
                    continue
                yield known
        finally:
            is_put_off = has_yielded and problem is None and not self._stop_asked.is_set()
            study = replace(study, problem=problem, not_done=tuple(not_done))
            study = self._left(study, is_put_off=is_put_off)
        yield study
        yield last

    def _all_steps(self, study: Study[A], is_to_end: Callable[[], bool]) -> Iterator[Study[A] | Event]:
        if self._skipped_devices != 1:
            count = setting_text("devices", self._skipped_devices)
            message = f"Devices is {count}, but {self.on_one_device} on one device."
            yield Log(level="problem", message=message)
        yield from self.steps(study, is_to_end)

    def prepare(self, study: Study[A]) -> Study[A]:
        """Return the study with its experiments resolved here, and its device. Raises ProblemError."""
        return study

    @abstractmethod
    def steps(self, study: Study[A], is_to_end: Callable[[], bool]) -> Iterator[Study[A] | Event]:
        """Yield the study's snapshots, events between them, and Finished or Failed as the last one."""

    def _left(self, study: Study[A], *, is_put_off: bool) -> Study[A]:
        studies = self._store.studies
        if is_put_off:
            studies.release(study.id)
            return replace(study, doing="", trains=None)
        is_refused = study.problem is None or study.problem.kind is Kind.REQUEST
        if not study.answer.is_known and is_refused:
            studies.release(study.id)
            studies.delete(study.id)
            return replace(study, is_over=True, doing="", trains=None)
        return studies.end(study)

    def _end(self, problem: Problem | None) -> Finished | Failed:
        if problem is not None:
            return Failed(problem=problem)
        return Finished(summary=Summary(), stopped=self._stop_asked.is_set())
