"""The window's diagnoses of numerics: running, waiting and saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from PySide6.QtCore import QObject

from engine.experiment.experiment import Experiment
from engine.experiment.problem import Problem
from engine.numerics.diagnoser import DiagnosisEvent
from engine.protocol.events import Diagnosed
from engine.protocol.numerics.diagnosis import Diagnosis, DiagnosisStarted, Part
from engine.protocol.numerics.nonfinite import SKIPS_IN_A_ROW
from engine.store.record import RunRecord
from engine.store.saved.diagnoses import DiagnosisRecord
from engine.store.saved.work import new_id
from engine.store.store import Store
from gui.session.engine_thread import EngineThread
from gui.session.log_lines import diagnosis_lines
from gui.session.orders.order import DiagnosisOrder
from gui.session.orders.work import SavedView, SavedWork


@dataclass(frozen=True, kw_only=True)
class DiagnosisView(SavedView):
    """A diagnosis."""

    experiment: Experiment
    parts: tuple[Part, ...]
    diagnosis: Diagnosis = field(default_factory=Diagnosis)
    run_id: str | None = None

    @classmethod
    def of_order(cls, order: DiagnosisOrder) -> DiagnosisView:
        """A diagnosis that was just queued."""
        return cls(
            key=order.key,
            experiment=order.experiment,
            parts=order.parts,
            created=datetime.now(UTC),
            run_id=order.run_id,
            is_waiting=True,
        )

    @classmethod
    def of_record(cls, record: DiagnosisRecord, key: str) -> DiagnosisView:
        """A saved diagnosis."""
        return cls(
            key=key,
            experiment=record.experiment,
            parts=record.parts,
            created=record.created,
            diagnosis=record.diagnosis,
            saved_id=record.id,
            device_name=record.device_name,
            run_id=record.run_id,
            problem=record.problem,
        )

    def after(self, event: DiagnosisEvent) -> DiagnosisView:
        """The diagnosis after an event of it."""
        match event:
            case DiagnosisStarted(diagnosis_id=saved_id, experiment=experiment):
                return replace(self, saved_id=saved_id, experiment=experiment)
            case Diagnosed(result=result):
                return replace(self, diagnosis=self.diagnosis.with_part(result))
        return self._during(event)

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


_FIRST_STEPS = 10


class Diagnoses(SavedWork[DiagnosisView, DiagnosisRecord]):
    """The diagnoses by their keys."""

    def __init__(self, store: Store, thread: EngineThread, parent: QObject | None = None) -> None:
        super().__init__(store, thread, DiagnosisOrder, store.diagnoses, parent)

    def submit(self, experiment: Experiment, parts: Sequence[Part], run_id: str | None = None) -> str:
        """Queues a diagnosis; its key. Raises ProblemError if it could not be saved.

        The search for the first NaN or Inf looks at the first steps only, but at all those of a run.
        """
        steps = _FIRST_STEPS if run_id is None else None
        order = DiagnosisOrder(new_id(), experiment, tuple(parts), run_id, steps)
        return self.submit_order(order)

    def _shown(self, record: DiagnosisRecord, key: str) -> DiagnosisView:
        return DiagnosisView.of_record(record, key)

    def _is_known(self, record: DiagnosisRecord) -> bool:
        return bool(record.results)

    def _ordered(self, order: DiagnosisOrder) -> DiagnosisView:
        return DiagnosisView.of_order(order)

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
