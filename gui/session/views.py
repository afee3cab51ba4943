"""Work as the window shows it: its progress while it runs, and later its answer. Does not use Qt."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Generic, Self, TypeVar

from engine.experiment.problem import Problem
from engine.experiment.sweep import Grid, Plan
from engine.protocol.answer import Answer
from engine.protocol.events import Failed, Phase
from engine.store.record import RUN
from engine.store.saved.studies import NAMES, Study
from engine.store.saved.sweeps import SweepRecord
from engine.sweep.order import Estimate, SweepStarted, Turn, TurnEnded, TurnStarted
from engine.words.numbers import share_text
from gui.session.live_run import Line, common_lines, sweep_lines
from gui.session.queue import SWEEP


@dataclass(frozen=True, kw_only=True)
class WorkView:
    """The state of work for display. It `is_waiting` while queued, and `is_live` while it runs.

    `doing` is the current phase of the worker, and `fraction` its progress (0 to 1), None if unknown.
    """

    key: str
    created: datetime
    kind: str = RUN
    title: str = ""
    device_name: str = ""
    problem: Problem | None = None
    doing: str = ""
    fraction: float | None = None
    is_live: bool = False
    is_waiting: bool = False

    @property
    def is_unfinished(self) -> bool:
        return self.is_live or self.is_waiting

    @property
    def name(self) -> str:
        """Return the title in a menu and in the log."""
        return self.title

    @property
    def subject(self) -> str:
        """Return the name in the log."""
        return self.name

    @property
    def progress(self) -> float | None:
        """Return the progress of the work, 0 to 1. None if unknown."""
        return None

    @property
    def trains(self) -> str | None:
        """Return the id of the run that the work trains now, if any."""
        return self.key if self.is_live else None

    def with_event(self, event: object) -> Self:
        """Return the view after an event of the work."""
        match event:
            case Phase(name=name, detail=detail, fraction=fraction):
                return replace(self, doing=detail or name.value, fraction=fraction)
            case Failed(problem=problem):
                return replace(self, problem=problem)
        return self

    def log_lines(self, event: object) -> tuple[Line, ...]:
        """Return the log lines of an event that has just come. Those of a run are logged with its name."""
        return () if self.trains else common_lines(event)


View = TypeVar("View", bound=WorkView)
A = TypeVar("A", bound=Answer)


@dataclass(frozen=True, kw_only=True)
class StudyView(WorkView, Generic[A]):
    """The state of a study for display. Until the worker reports a phase, its own progress is shown."""

    study: Study[A]

    @classmethod
    def of(cls, study: Study[A], *, is_waiting: bool = False) -> StudyView[A]:
        """Make the view of a saved study, or of one that was just queued."""
        view = cls(key=study.id, created=study.created, kind=study.kind, study=study)
        problem = None if is_waiting else study.problem
        return replace(view, device_name=study.device_name, is_waiting=is_waiting, problem=problem)

    @property
    def answer(self) -> A:
        return self.study.answer

    @property
    def name(self) -> str:
        return self.study.title

    @property
    def subject(self) -> str:
        return f"{NAMES[self.study.kind]}, {self.study.experiments[self.study.place].model}"

    @property
    def is_complete(self) -> bool:
        """Return True if nothing is left to do."""
        return self.answer.is_complete

    @property
    def progress(self) -> float:
        """Return the progress of a study of several experiments, 0 to 1."""
        return (self.study.place + (self.fraction or 0.0)) / len(self.study.experiments)

    @property
    def trains(self) -> str | None:
        return self.study.trains

    def with_event(self, event: object) -> StudyView[A]:
        if not isinstance(event, Study):
            return super().with_event(event)
        view = replace(self, study=event, device_name=event.device_name)
        is_same = event.doing == self.study.doing and event.place == self.study.place
        # a new part of it starts without a phase
        return view if is_same else replace(view, doing="", fraction=None)


@dataclass(frozen=True, kw_only=True)
class SweepView(WorkView):
    """The state of a sweep for display. `turn` is the current pilot (a short trial run) or run.

    `estimate` is the remaining time, None if unknown. `is_elsewhere` is True while another program runs the
    sweep. `revision` is another once a run of it has started or ended, or its plan has changed.
    """

    grid: Grid
    plan: Plan
    is_over: bool = False
    is_elsewhere: bool = False
    spent_seconds: float = 0.0
    turn: Turn | None = None
    estimate: Estimate | None = None
    revision: int = 0

    @classmethod
    def of_record(cls, record: SweepRecord) -> SweepView:
        """Make the view of a saved sweep."""
        same = ("created", "device_name", "problem", "grid", "plan", "spent_seconds")
        values = {name: getattr(record, name) for name in same}
        view = cls(key=record.id, kind=SWEEP, title=record.name, **values)
        return replace(view, is_over=record.ended is not None, is_elsewhere=record.is_claimed)

    @property
    def progress(self) -> float | None:
        if self.estimate is None:
            return None
        return self.spent_seconds / ((self.spent_seconds + self.estimate.seconds_left) or 1.0)

    @property
    def trains(self) -> str | None:
        return None if self.turn is None else self.turn.run_id

    def with_event(self, event: Any) -> SweepView:
        match event:
            case SweepStarted(estimate=estimate):
                return replace(self, estimate=estimate)
            case TurnStarted(turn=turn):
                return replace(self, turn=turn, doing="", fraction=None, revision=self.revision + 1)
            case TurnEnded(estimate=estimate):
                ended = replace(self, turn=None, doing="", fraction=None, estimate=estimate)
                return replace(ended, revision=self.revision + 1)
        if isinstance(event, Failed) and self.turn is not None:
            # it ends only the turn, as TurnEnded reports
            return self
        return super().with_event(event)

    def log_lines(self, event: Any) -> tuple[Line, ...]:
        turn = event.turn if isinstance(event, TurnStarted) else self.turn
        return sweep_lines(event, "" if turn is None else self.cell_name(turn.cell))

    def pilot_words(self) -> str:
        """Return the current pilot and its phase, or "" if none is running."""
        if self.turn is None or self.turn.kind != "pilot":
            return ""
        share = f" {share_text(self.fraction)}" if self.fraction is not None else ""
        return f"Pilot of {self.cell_name(self.turn.cell)}{': ' + self.doing if self.doing else ''}{share}"

    def cell_name(self, index: int) -> str:
        return self.grid.name(self.grid.places(index))
