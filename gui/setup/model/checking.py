"""Checks the form's model when that is asked, and shows the answer in a window of its own."""

from __future__ import annotations

from functools import cached_property

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from engine.experiment.experiment import Experiment
from engine.experiment.problem import Problem, ProblemError
from engine.protocol.advice import Checked
from gui.session.experiments import Experiments
from gui.setup.model.report import CheckReport
from gui.setup.panel import SetupPanel


class CheckController(QObject):
    """`problem` carries why nothing was checked, where no window opens."""

    problem = Signal(object)  # Problem

    def __init__(self, setup: SetupPanel, experiments: Experiments, window: QWidget) -> None:
        super().__init__(window)
        self._setup, self._experiments, self._window = setup, experiments, window
        self._wanted: Experiment | None = None
        setup.check_requested.connect(self._check)
        experiments.checked.connect(self._take)

    @cached_property
    def report(self) -> CheckReport:
        """The window of the checks."""
        report = CheckReport(self._window)
        report.again.connect(self._setup.check_action.trigger)
        report.finished.connect(self._cancel)
        return report

    def _check(self, experiment: Experiment) -> None:
        try:
            self._experiments.check_model(experiment)
        except ProblemError as error:
            self.problem.emit(error.problem)
            return
        self._wanted = experiment
        self.report.show_checking(experiment)
        self.report.show()
        self.report.activateWindow()

    def _take(self, experiment: Experiment, answer: Checked | Problem) -> None:
        if experiment is self._wanted:
            self._wanted = None
            self.report.show_answer(experiment, answer)

    def _cancel(self) -> None:
        if self._wanted is not None:
            self._wanted = None
            self._experiments.cancel_check()
