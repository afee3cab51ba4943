"""The studies of one kind in the window: running, waiting and saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from PySide6.QtCore import QObject

from engine.experiment.checks import Catalog, problems, skip_lookup
from engine.experiment.experiment import Precision
from engine.experiment.problem import Problem, ProblemError
from engine.experiment.settings import PLAIN
from engine.protocol.answer import Answer, StudyKind
from engine.protocol.numerics import SKIPS_IN_A_ROW
from engine.protocol.profile import MOST_SIDES
from engine.store.record import RunRecord
from engine.store.saved.studies import NAMES, Study
from engine.store.store import Store
from gui.session.background import attempt
from gui.session.engine_thread import EngineThread
from gui.session.jobs import QueuedJob, renewed
from gui.session.live_run import common_lines
from gui.session.work import MOST_SAVED, Jobs, JobView

A = TypeVar("A", bound=Answer)


@dataclass(frozen=True, kw_only=True)
class StudyView(JobView, Generic[A]):
    """The state of a study for display: its progress, and later its answer.

    Until the worker reports a phase, the study's own progress is shown.
    """

    study: Study[A]

    @classmethod
    def of(cls, study: Study[A], *, is_waiting: bool = False) -> StudyView[A]:
        """Make the view of a saved study, or of one that was just queued."""
        view = cls(key=study.id, created=study.created, device_name=study.device_name, study=study)
        return replace(view, is_waiting=is_waiting, problem=None if is_waiting else study.problem)

    @property
    def answer(self) -> A:
        return self.study.answer

    @property
    def name(self) -> str:
        return self.study.title

    @property
    def is_complete(self) -> bool:
        """Return True if nothing is left to do."""
        return self.answer.is_complete

    @property
    def progress(self) -> float:
        """Return the progress of a study of several experiments, 0 to 1."""
        return (self.study.place + (self.fraction or 0.0)) / len(self.study.experiments)

    def with_study(self, study: Study[A]) -> StudyView[A]:
        """Return the view with a newer snapshot. A new part of it starts without a phase."""
        view = replace(self, study=study, device_name=study.device_name)
        is_same = study.doing == self.study.doing and study.place == self.study.place
        return view if is_same else replace(view, doing="", fraction=None)


class Studies(Jobs[StudyView[A]], Generic[A]):
    """All studies of one kind (such as profiles) by id: queued, running, ended and saved."""

    def __init__(
        self, kind: StudyKind, store: Store, thread: EngineThread, parent: QObject | None = None
    ) -> None:
        super().__init__(kind, store, thread, parent)
        self._study_kind = kind

    def submit(self, answer: A) -> str:
        """Queue a study, and return its id. Raises ProblemError if it could not be saved."""
        return self.submit_job(QueuedJob.of(Study(answer=answer, machine=self._thread.machine)))

    def resume(self, study_id: str) -> str:
        """Queue a study to resume where it stopped, and return its id. Raises ProblemError."""
        view = self.view(study_id)
        if view is not None and not view.is_unfinished:
            self.submit_job(QueuedJob.of(view.study))
        return study_id

    def submit_again(self, job: QueuedJob) -> str:
        return self.submit_job(renewed(job))

    def repeat(self, study_id: str) -> str:
        """Queue the same question again, and return the new id. Raises ProblemError."""
        return self.submit_again(QueuedJob.of(self._store.studies.find(study_id)))

    def saved(self) -> list[str]:
        newest = self._store.studies.newest(self._study_kind, MOST_SAVED)
        return [entry.id for entry in newest if entry.id != self.running]

    def progress(self, key: str) -> float | None:
        view = self._views.get(key)
        return view.progress if view is not None and self.kind == "profile" else None

    def _saved_view(self, key: str) -> StudyView[A] | None:
        try:
            study = self._store.studies.find(key)
        except ProblemError:
            # it was taken out of the queue before it was saved
            return None
        return StudyView.of(study) if study.kind == self.kind and study.is_known else None

    def restore(self, study: Study[A]) -> None:
        """Bring back a study that was deleted."""
        if attempt(lambda: self._store.studies.restore(study), self.problem):
            self.ended.emit(study.id)

    def _delete_saved(self, key: str) -> None:
        self._store.studies.delete(key, keeps_traces=True)

    def _queued_view(self, job: QueuedJob) -> StudyView[A]:
        assert job.study is not None
        return StudyView.of(job.study, is_waiting=True)

    def _on_event(self, key: str, event: object) -> None:
        view = self._views[key]
        if isinstance(event, Study):
            view = view.with_study(event)
        else:
            view = view.with_event(event)
            # a run's own events are logged with its name
            for level, message in () if self._run is not None else common_lines(event):
                experiment = view.study.experiments[view.study.place]
                self.logged.emit(level, message, f"{NAMES[self._study_kind]}, {experiment.model}")
        self._update(key, view)
        if isinstance(event, Study):
            self._follow(event.trains)
        else:
            self._report_run_event(event)

    def _ended_view(self, view: StudyView[A], problem: Problem | None) -> StudyView[A] | None:
        study = replace(view.study, problem=view.study.problem or problem, doing="", trains=None)
        if not study.is_known:
            # stopped before anything was known
            return None
        return replace(view, study=study, problem=study.problem, doing="", fraction=None)


def baseline_first(runs: Sequence[RunRecord]) -> tuple[RunRecord, ...]:
    """Return the runs in display order: plain ones in strict FP32 first, then the oldest."""

    def place(run: RunRecord) -> tuple[bool, bool, int]:
        experiment = run.experiment
        return experiment.precision is not Precision.FP32, experiment.step.recipe != PLAIN, run.number

    return tuple(sorted(runs, key=place))


def why_not_profiled(runs: Sequence[RunRecord], catalog: Catalog | None) -> str | None:
    """Return why these runs cannot be profiled together here. None if they can."""
    if catalog is None:
        return "Ammeter is still examining this machine."
    if not 1 <= len(runs) <= MOST_SIDES:
        return f"At most {MOST_SIDES} runs can be profiled together."
    return next(filter(None, (_obstacle(run, catalog) for run in runs)), None)


def _obstacle(run: RunRecord, catalog: Catalog) -> str | None:
    device, machine = catalog.device(run.experiment.device), run.environment
    if device is not None and machine is not None and device.title != machine.device_name:
        return f"“{run.title}” trained on {machine.device_name}, which is not in this machine."
    against = problems(run.experiment, catalog, skip_lookup)
    return f"“{run.title}” cannot be trained here: {against[0].message}" if against else None


def why_nothing_to_find(run: RunRecord) -> str | None:
    """Return why a run has no NaN or Inf to look for. None if it may have."""
    if not run.status.is_over:
        return "This run has not ended yet."
    summary = run.summary
    if summary is None:
        return "This run did not record whether a NaN occurred."
    if summary.first_nan_step is None and (summary.skipped_steps or 0) < SKIPS_IN_A_ROW:
        return "No NaN occurred, and the loss scaler did not skip many steps in a row."
    return None
