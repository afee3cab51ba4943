"""Asks about code that came from elsewhere, before its first run."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from PySide6.QtCore import QObject, Signal

from engine.experiment.experiment import Experiment
from engine.experiment.own.code import Code
from engine.experiment.problem import ProblemError, request_problem
from engine.store.store import Store


class CodeTrust(QObject):
    """The window sets `ask`, which shows code and says whether it may run; `problem` is the store's."""

    problem = Signal(object)  # Problem

    def __init__(self, store: Store, parent: QObject) -> None:
        super().__init__(parent)
        self._store = store
        self.ask: Callable[[Code], bool] = lambda _code: False

    def add(self, code: Code) -> None:
        """Trusts code that the user chose as a file on this machine."""
        try:
            self._store.trusted_code.add(code)
        except ProblemError as error:
            self.problem.emit(error.problem)

    def check(self, experiments: Iterable[Experiment]) -> None:
        """Asks about every code that is not trusted yet. Raises ProblemError if it may not run."""
        for experiment in experiments:
            code = experiment.own_code
            if code is None or self._store.trusted_code.has(code):
                continue
            if not self.ask(code):
                message = f"Nothing was started: the code of {code.file} was not accepted."
                raise ProblemError(request_problem(message, "", key="code", value=code.short))
            self._store.trusted_code.add(code)
