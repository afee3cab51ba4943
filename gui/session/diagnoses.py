"""The window's diagnoses of numerics: running, waiting and saved."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from PySide6.QtCore import QObject

from engine.experiment.experiment import Experiment
from engine.experiment.problem import Problem, ProblemError
from engine.numerics.diagnoser import DiagnosisEvent
from engine.protocol.events import Diagnosed, Failed, Phase
from engine.protocol.numerics.diagnosis import Diagnosis, DiagnosisStarted, Part
from engine.protocol.numerics.nonfinite import SKIPS_IN_A_ROW
from engine.store.diagnoses import DiagnosisRecord
from engine.store.record import RunRecord
from engine.store.store import Store
from gui.session.engine_thread import EngineThread
from gui.session.log_lines import diagnosis_lines
from gui.session.ordered import OrderedWork, OrderView
from gui.session.orders import DiagnosisOrder


@dataclass(frozen=True)
class DiagnosisView(OrderView):
    """A diagnosis.

    `doing` is its worker's phase and `fraction` how far that is, None if unknown. `saved_id` is its id in the
    store, once it has begun.
    """

    key: str
    experiment: Experiment
    parts: tuple[Part, ...]
    created: datetime
    diagnosis: Diagnosis = field(default_factory=Diagnosis)
    saved_id: str | None = None
    device_name: str = ""
    run_id: str | None = None
    doing: str = ""
    fraction: float | None = None
    problem: Problem | None = None

    @classmethod
    def of_order(cls, order: DiagnosisOrder) -> DiagnosisView:
        """A diagnosis that was just queued."""
        return cls(
            order.key,
            order.experiment,
            order.parts,
            datetime.now(UTC),
            run_id=order.run_id,
            is_waiting=True,
        )

    @classmethod
    def of_record(cls, record: DiagnosisRecord, key: str) -> DiagnosisView:
        """A saved diagnosis."""
        return cls(
            key,
            record.experiment,
            record.parts,
            record.created,
            record.diagnosis,
            record.id,
            record.device_name,
            record.run_id,
            problem=record.problem,
        )

    def after(self, event: DiagnosisEvent) -> DiagnosisView:
        """The diagnosis after an event of it."""
        match event:
            case DiagnosisStarted(diagnosis_id=saved_id, experiment=experiment):
                return replace(self, saved_id=saved_id, experiment=experiment)
            case Phase(name=name, detail=detail, fraction=fraction):
                return replace(self, doing=detail or name.value, fraction=fraction)
            case Diagnosed(result=result):
                return replace(self, diagnosis=self.diagnosis.with_part(result))
            case Failed(problem=problem):
                return replace(self, problem=problem)
        return self

    def is_awaited(self, part: str) -> bool:
        """Whether a part is still to come; advice comes with the others."""
        return self.is_unfinished and part in (*self.parts, "advice") and not self.has(part)

    def has(self, part: str) -> bool:
        return getattr(self.diagnosis, part) is not None


def why_nothing_to_find(run: RunRecord) -> str | None:
    """Why there is no NaN or Inf of a run to look for, in a sentence; None if there is."""
    if not run.status.is_over:
        return "It has not ended yet."
    summary = run.summary
    if summary is None:
        return "It was not recorded whether it met a NaN."
    if summary.first_nan_step is None and (summary.skipped_steps or 0) < SKIPS_IN_A_ROW:
        return "It met no NaN, and its loss scaler did not skip step after step."
    return None


_MOST_SAVED, _FIRST_STEPS = 30, 10


class Diagnoses(OrderedWork[DiagnosisView]):
    """The diagnoses by their keys."""

    def __init__(self, store: Store, thread: EngineThread, parent: QObject | None = None) -> None:
        super().__init__(store, thread, DiagnosisOrder, parent)

    def submit(self, experiment: Experiment, parts: Sequence[Part], run_id: str | None = None) -> str:
        """Queues a diagnosis; its key. Raises ProblemError if it could not be saved.

        The search for the first NaN or Inf looks at the first steps only, but at all those of a run.
        """
        self._store.check_writable()
        steps = _FIRST_STEPS if run_id is None else None
        order = DiagnosisOrder(secrets.token_hex(6), experiment, tuple(parts), run_id, steps)
        return self._enqueue(order, DiagnosisView.of_order(order))

    def view(self, key: str) -> DiagnosisView | None:
        """A diagnosis of this session, or a saved one; None for an unknown key."""
        if key not in self._views:
            try:
                record = self._store.diagnoses.find(key)
            except ProblemError:
                # it was taken out of the queue before it was saved
                return None
            if record.results:
                self._views[key] = DiagnosisView.of_record(record, key)
        return self._views.get(key)

    def saved(self) -> dict[str, DiagnosisRecord]:
        """The saved diagnoses that have a part by key, newest first, without the one in progress."""
        keys = {view.saved_id: view.key for view in self._views.values()}
        records = {
            keys.get(record.id, record.id): record
            for record in self._store.diagnoses.newest(_MOST_SAVED)
            if record.results
        }
        return {key: record for key, record in records.items() if key != self._running}

    def record(self, key: str) -> DiagnosisRecord | None:
        """A diagnosis as it is in the store; None for one that is not there."""
        view = self._views.get(key)
        try:
            return (
                None if view is None or view.saved_id is None else self._store.diagnoses.find(view.saved_id)
            )
        except ProblemError as error:
            self.problem.emit(error.problem)
            return None

    def newest(self) -> str | None:
        """The key of the newest saved diagnosis."""
        return next(iter(self.saved()), None)

    def delete(self, key: str) -> None:
        """Deletes a saved diagnosis, unless it is in progress."""
        view = self.view(key)
        if key == self._running or view is None or view.saved_id is None:
            return
        try:
            self._store.diagnoses.delete(view.saved_id)
        except ProblemError as error:
            self.problem.emit(error.problem)
            return
        del self._views[key]
        self.deleted.emit(key)

    def _take(self, key: str, event: DiagnosisEvent) -> None:
        view = self._views[key]
        for level, message in diagnosis_lines(event):
            self.logged.emit(level, message, f"Numerics, {view.experiment.model}")
        view = view.after(event)
        self._update(key, view)
        if isinstance(event, DiagnosisStarted) and (record := self.record(key)) is not None:
            self._update(key, replace(view, device_name=record.device_name))

    def _kept(self, view: DiagnosisView, problem: Problem | None) -> DiagnosisView | None:
        if view.diagnosis == Diagnosis() and problem is None:
            # stopped before there was any part
            return None
        return replace(view, fraction=None, problem=problem)
