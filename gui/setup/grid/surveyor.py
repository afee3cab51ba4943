"""Surveys the form's grid in a thread: thousands of cells take longer than a frame."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QObject, Signal

from engine.experiment.problem import Problem
from engine.experiment.sweep.plan import Plan
from gui.session.background import Background
from gui.setup.grid.survey import Evidence, Question, Survey, survey


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

    def set_evidence(self, evidence: Callable[[], Evidence]) -> None:
        """Where forecasts and earlier runs are found."""
        self._evidence = evidence

    def ask(self, question: Question | None) -> None:
        """Surveys the grid of a draft in place of that asked about before; None for no grid."""
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
