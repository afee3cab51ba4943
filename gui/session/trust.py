"""Asks about code that came from elsewhere, before its first run; the launcher lets no other code pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from engine.experiment.experiment import Experiment
from engine.experiment.own.code import Code
from engine.experiment.own.trust import TrustedCode
from engine.experiment.problem import ProblemError, request_problem


class CodeTrust:
    """The window sets `ask`, which shows code and says whether it may run."""

    def __init__(self, code: TrustedCode) -> None:
        self.code = code
        self.ask: Callable[[Code], bool] = lambda _code: False

    def check(self, experiments: Iterable[Experiment]) -> None:
        """Asks about every code that is not trusted yet. Raises ProblemError if it may not run."""
        for experiment in experiments:
            code = experiment.own_code
            if code is None or self.code.has(code):
                continue
            if not self.ask(code):
                message = f"Nothing was started: the code of {code.file} was not accepted."
                raise ProblemError(request_problem(message, "", key="code", value=code.short))
            self.code.add(code)
