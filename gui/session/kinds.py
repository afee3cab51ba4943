"""The kinds of work of the window: how each is read from the store, queued again, deleted and restored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Generic

from engine.experiment.checks import Catalog, problems, skip_lookup
from engine.experiment.command import refusal
from engine.experiment.experiment import Precision
from engine.experiment.problem import Problem, ProblemError
from engine.experiment.settings import PLAIN
from engine.experiment.sweep import check_seeds
from engine.protocol.answer import StudyKind
from engine.protocol.numerics import SKIPS_IN_A_ROW
from engine.protocol.profile import MOST_SIDES
from engine.store.record import RUN, RunRecord, Status, Work
from engine.store.saved.studies import ANSWERS, Study
from engine.store.saved.sweeps import SweepRecord
from engine.store.store import Store
from engine.sweep.order import TurnEnded
from gui.session.queue import SWEEP
from gui.session.saved_runs import SavedRuns
from gui.session.views import StudyView, SweepView, View, WorkView

MOST_SAVED = 30
"""The number of entries in a menu."""

Undo = Callable[[], object]


class WorkKind(ABC, Generic[View]):
    """A kind of work. Every method raises ProblemError if the store fails or the work does not exist."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @abstractmethod
    def queued(self, work: Work) -> View:
        """Return the view of work that waits. Raises ProblemError if it cannot be read."""

    @abstractmethod
    def find(self, key: str) -> View | None:
        """Return the view of saved work, or None."""

    @abstractmethod
    def saved(self) -> Sequence[str]:
        """Return the keys of the newest saved work, newest first."""

    @abstractmethod
    def resumed(self, view: View) -> Work:
        """Queue the stopped work of a view again and return it, to continue where it stopped."""

    @abstractmethod
    def again(self, view: View) -> Work:
        """Return new work that is the same."""

    def withdraw(self, key: str) -> Undo | None:
        """Delete the saved entry of work that was removed from the queue.

        Return a function that restores it, or None.
        """
        self._store.waiting.remove([key])
        return None

    @abstractmethod
    def delete(self, view: View) -> Undo | None:
        """Delete saved work. Return a function that restores it, if there is one."""

    def after(self, view: View, event: object) -> View:
        """Return the view after an event of the work in progress."""
        return view.with_event(event)

    def ended(self, view: View, problem: Problem | None) -> View | None:
        """Return the view of work that has ended, or None if there is nothing to show."""
        return None


class Runs(WorkKind[WorkView]):
    """Runs. Their records and curves are in `SavedRuns`."""

    def __init__(self, store: Store, runs: SavedRuns) -> None:
        super().__init__(store)
        self._runs = runs

    def queued(self, work: Work) -> WorkView:
        record = self._runs.record(work.key) or self._store.run(work.key)
        return replace(_view_of(record), is_waiting=True)

    def find(self, key: str) -> WorkView | None:
        record = self._runs.record(key)
        return None if record is None else _view_of(record)

    def saved(self) -> Sequence[str]:
        return [run.id for run in self._runs.records()]

    def resumed(self, view: WorkView) -> Work:
        record = self._store.requeue(view.key)
        if (live := self._runs.opened(view.key)) is not None:
            live.set_status(Status.QUEUED.value)
        self._runs.reload()
        return record.work

    def again(self, view: WorkView) -> Work:
        """Return the run with the next seed, so that both are repeats of one another in Compare."""
        record = self._store.run(view.key)
        experiment = record.experiment
        seed = max(run.experiment.seed for run in self._runs.records() if _are_repeats(run, record))
        check_seeds([("", experiment.model_copy(update={"seed": seed}))], 2)
        again = self._store.add(
            experiment.model_copy(update={"seed": seed + 1}),
            name=record.name if record.has_own_name else None,
            comparison=record.comparison,
            label=record.label,
            machine=record.machine,
        )
        self._runs.reload()
        return again.work

    def withdraw(self, key: str) -> Undo:
        record = self._runs.record(key)
        if record is not None and record.started is not None:
            self._runs.withdraw(key)
            return lambda: self._store.requeue(key)
        self._runs.delete([key])
        return lambda: self._runs.restore([key])

    def delete(self, view: WorkView) -> Undo | None:
        return partial(self._runs.restore, [view.key]) if self._runs.delete([view.key]) else None


class Studies(WorkKind[StudyView[Any]]):
    """The studies of one kind, such as profiles."""

    def __init__(self, store: Store, kind: StudyKind) -> None:
        super().__init__(store)
        self._studies, self._kind = store.studies, kind

    def queued(self, work: Work) -> StudyView[Any]:
        return StudyView.of(self._studies.of_work(work), is_waiting=True)

    def find(self, key: str) -> StudyView[Any] | None:
        try:
            study = self._studies.find(key, self._kind)
        except ProblemError:
            # it was taken out of the queue before it was saved
            return None
        return StudyView.of(study) if study.is_known else None

    def saved(self) -> Sequence[str]:
        return [entry.id for entry in self._studies.newest(self._kind, MOST_SAVED)]

    def resumed(self, view: StudyView[Any]) -> Work:
        return view.study.work

    def again(self, view: StudyView[Any]) -> Work:
        return Study(answer=view.answer.afresh(), machine=view.study.machine).work

    def delete(self, view: StudyView[Any]) -> Undo | None:
        self._studies.delete(view.key, keeps_traces=True)
        return partial(self._studies.restore, view.study)

    def ended(self, view: StudyView[Any], problem: Problem | None) -> StudyView[Any] | None:
        study = replace(view.study, problem=view.study.problem or problem, doing="", trains=None)
        if not study.is_known:
            # stopped before anything was known
            return None
        return replace(view, study=study, problem=study.problem, doing="", fraction=None)


class Sweeps(WorkKind[SweepView]):
    """Sweeps. Their cells and runs, which can be thousands, are read elsewhere."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._bare = store.sweeps.bare

    def record(self, key: str) -> SweepRecord | None:
        """Return a saved sweep without its cells, or None."""
        try:
            return self._bare.find(key)
        except ProblemError:
            return None

    def work(self, key: str) -> Work:
        """Return a saved sweep as work."""
        record = self._bare.find(key)
        return Work(key, SWEEP, record.name, machine=record.machine)

    def queued(self, work: Work) -> SweepView:
        view = SweepView.of_record(self._bare.find(work.key))
        return replace(view, is_waiting=True, is_elsewhere=False, problem=None)

    def find(self, key: str) -> SweepView | None:
        record = self.record(key)
        return None if record is None else SweepView.of_record(record)

    def saved(self) -> Sequence[str]:
        return [record.id for record in self._bare.newest(MOST_SAVED)]

    def resumed(self, view: SweepView) -> Work:
        return self.work(view.key)

    def again(self, view: SweepView) -> Work:
        record = self._store.sweeps.find(view.key)
        left_out = {cell.index: cell.left_out for cell in record.cells if cell.left_out}
        where = {"device_name": record.device_name, "machine": record.machine}
        return self.work(
            self._store.sweeps.add(record.name, record.grid, record.plan, left_out=left_out, **where)
        )

    def delete(self, view: SweepView) -> None:
        self._store.sweeps.delete(view.key)

    def after(self, view: SweepView, event: object) -> SweepView:
        after = view.with_event(event)
        if isinstance(event, TurnEnded) and (record := self.record(view.key)) is not None:
            return replace(after, spent_seconds=record.spent_seconds)
        return after

    def ended(self, view: SweepView, problem: Problem | None) -> SweepView | None:
        if (kept := self.find(view.key)) is None:
            return None
        kept = replace(kept, estimate=view.estimate, revision=view.revision + 1)
        return replace(kept, problem=kept.problem or problem)


def kinds_of(store: Store, runs: SavedRuns) -> Mapping[str, WorkKind[Any]]:
    """Return all kinds of work by name."""
    return {RUN: Runs(store, runs), **{kind: Studies(store, kind) for kind in ANSWERS}, SWEEP: Sweeps(store)}


def _view_of(record: RunRecord) -> WorkView:
    return WorkView(key=record.id, created=record.created, title=record.title, problem=record.problem)


_SETTINGS = 6
"""The number of leading fields of a run's overview that are settings."""


def _are_repeats(run: RunRecord, other: RunRecord) -> bool:
    """Return True if the runs differ only in the seed. The overview is compared first, as it is fast."""
    return run.overview[:_SETTINGS] == other.overview[
        :_SETTINGS
    ] and run.experiment == other.experiment.model_copy(update={"seed": run.experiment.seed})


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
    if against := refusal("profile", (run.experiment.command for run in runs)):
        return against.message
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
    if against := refusal("numerics", [run.experiment.command]):
        return against.message
    summary = run.summary
    if summary is None:
        return "This run did not record whether a NaN occurred."
    if summary.first_nan_step is None and (summary.skipped_steps or 0) < SKIPS_IN_A_ROW:
        return "No NaN occurred, and the loss scaler did not skip many steps in a row."
    return None
