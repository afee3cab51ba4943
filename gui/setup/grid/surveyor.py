"""Surveys the form's grid in a thread: thousands of cells take longer than a frame."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from PySide6.QtCore import QObject, Signal

from engine.experiment.checks import Catalog, look_at_nothing
from engine.experiment.experiment import Experiment
from engine.experiment.problem import Problem
from engine.experiment.repeats import Plan
from gui.session.background import Background
from gui.setup.check import Outcome, check
from gui.setup.draft import Draft
from gui.setup.grid.survey import Evidence, Question, Survey, size_of, survey


class Surveyor(QObject):
    """`changed` when there is a new survey. The last one stays until the next question is answered."""

    changed = Signal()

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._background = Background(self)
        self._evidence: Callable[[], Evidence] = Evidence
        self._question: Question | None = None
        self._answered: Question | None = None
        self._survey: Survey | None = None
        self._invalid: Mapping[str, Problem] = {}
        self.cells = 0
        """How many cells the draft has; 0 where it is no sweep."""

    def set_evidence(self, evidence: Callable[[], Evidence]) -> None:
        """Where forecasts and earlier runs are found."""
        self._evidence = evidence

    def follow(
        self,
        draft: Draft,
        catalog: Catalog | None,
        outcome: Outcome,
        refused: Mapping[Experiment, Problem],
        file_problem: Problem | None,
    ) -> None:
        """Surveys the draft's grid, if it is a sweep; `outcome` is that of its first values."""
        self.cells = size_of(draft, catalog, len(outcome.experiments))
        if self.cells and catalog is not None:
            first = check(
                draft, catalog, file_problem=file_problem, look=look_at_nothing, judges_machine=False
            )
            self._invalid = first.problems
            self._ask(Question(draft, catalog, dict(refused)))
        else:
            self._ask(None)

    def judged(self, outcome: Outcome) -> Outcome:
        """The outcome of the first values, with what is wrong with any of the cells."""
        found = {} if (survey := self.survey()) is None else survey.problems
        return replace(outcome, problems={**found, **self._invalid})

    def unknown(self) -> tuple[Experiment, ...]:
        """Experiments whose forecasts would tell the memory of cells."""
        return () if (survey := self.survey()) is None else survey.fit.unknown

    def knows_memory(self) -> bool:
        """Whether the memory of any cell is forecast."""
        return (survey := self.survey()) is not None and bool(survey.fit.needed_mib)

    def _ask(self, question: Question | None) -> None:
        if question != self._question:
            self._question = question
            self.look_again()

    def look_again(self) -> None:
        """Surveys the same grid once more, since more is known."""
        asked = self._question
        if asked is None:
            self._survey = self._answered = None
            return
        self._background.do(
            partial(self._work, asked, self._evidence()), partial(self._take, asked), self._refuse
        )

    def survey(self) -> Survey | None:
        """The survey of what was asked last; None while it is being made."""
        return self._survey if self._answered is self._question else None

    def stop(self) -> None:
        """Waits for the thread; a question that it was at is forgotten, and may be asked again."""
        if self._background.is_busy:
            self._background.stop()
            self._question = self._answered = self._survey = None

    def _work(self, asked: Question, evidence: Evidence) -> Survey | None:
        return survey(asked, evidence) if asked is self._question else None

    def _take(self, asked: Question, found: Survey | None) -> None:
        if found is not None and asked is self._question:
            self._answered, self._survey = asked, found
            self.changed.emit()

    def _refuse(self, problem: Problem) -> None:
        asked = self._question
        if asked is not None:
            self._take(asked, Survey(Plan(), {problem.key or "": problem}))
