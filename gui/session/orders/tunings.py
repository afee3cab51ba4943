"""The window's tunings, each the search for the fastest settings: running, waiting and saved."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from PySide6.QtCore import QObject

from engine.experiment.problem import Problem
from engine.protocol.tuning import Tuning
from engine.store.saved.tunings import TuningRecord
from engine.store.store import Store
from engine.sweep.fastest.events import TrialStarted, TuningEvent, TuningKnown, TuningStarted
from gui.session.engine_thread import EngineThread
from gui.session.log_lines import tuning_lines
from gui.session.orders.order import Order, TuningOrder
from gui.session.orders.work import SavedView, TrainingWork


@dataclass(frozen=True, kw_only=True)
class TuningView(SavedView):
    """A tuning as far as it has come; `trial` is what trains now."""

    tuning: Tuning
    trial: TrialStarted | None = None

    @classmethod
    def of_record(cls, record: TuningRecord) -> TuningView:
        """A saved tuning."""
        return cls(
            key=record.id,
            saved_id=record.id,
            created=record.created,
            device_name=record.device_name,
            problem=record.problem,
            tuning=record.tuning,
        )

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to do."""
        return self.tuning.phase == "over"

    def after(self, event: TuningEvent) -> TuningView:
        """The tuning after an event of it."""
        match event:
            case TuningStarted(tuning=tuning) | TuningKnown(tuning=tuning):
                return replace(self, tuning=tuning)
            case TrialStarted():
                return replace(self, trial=event, doing="", fraction=None)
        return self._during(event)


class Tunings(TrainingWork[TuningView, TuningRecord]):
    """The tunings by their ids."""

    def __init__(self, store: Store, thread: EngineThread, parent: QObject | None = None) -> None:
        super().__init__(store, thread, TuningOrder, store.tunings, parent)

    def carry_on(self, tuning_id: str) -> str:
        """Queues a saved tuning, which goes on where it stands; its id. Raises ProblemError."""
        view = self.view(tuning_id)
        if view is not None and not view.is_unfinished:
            self.submit_order(TuningOrder(tuning_id, view.tuning.experiment.model))
        return tuning_id

    def submit_again(self, order: Order[Any]) -> str:
        record = self._store.tunings.find(order.key)
        known = record.tuning
        begun = Tuning(
            experiment=known.experiment,
            plan=known.plan,
            memory_cap_gib=known.memory_cap_gib,
            candidates=known.candidates,
            not_tried=known.not_tried,
        )
        return self.carry_on(self._store.tunings.add(begun, device_name=record.device_name))

    def repeat(self, tuning_id: str) -> str:
        """Queues a new search with the same experiment and plan; its id. Raises ProblemError."""
        return self.submit_again(TuningOrder(tuning_id, ""))

    def _take(self, key: str, event: TuningEvent) -> None:
        view = self._views[key].after(event)
        for level, message in tuning_lines(event):
            self.logged.emit(level, message, f"Find the fastest, {view.tuning.experiment.model}")
        self._update(key, view)
        match event:
            case TrialStarted(run_id=run_id):
                self._follow(run_id)
            case TuningKnown():
                self._follow(None)
            case _:
                self._tell_run(event)

    def _kept(self, view: TuningView, problem: Problem | None) -> TuningView | None:
        return replace(view, trial=None, doing="", fraction=None, problem=view.problem or problem)

    def _ordered(self, order: TuningOrder) -> TuningView:
        view = TuningView.of_record(self._table.find(order.key))
        return replace(view, is_waiting=True, problem=None)

    def _shown(self, record: TuningRecord, key: str) -> TuningView:
        return TuningView.of_record(record)

    def _is_known(self, record: TuningRecord) -> bool:
        # one that was taken out of the queue before it began has nothing to show
        return bool(record.tuning.trials) or record.problem is not None
