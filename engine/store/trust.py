"""Whose code may run here: that of files the user chose on this machine, and what the user has accepted."""

from __future__ import annotations

import time

from engine.experiment.experiment import Experiment
from engine.experiment.own.code import Code
from engine.experiment.problem import Problem, ProblemError, request_problem
from engine.store.connection import Connection

_KEY = "trust_code"


class UntrustedCodeError(ProblemError):
    """Raised before code runs that came from elsewhere and was not accepted; `code` is that code."""

    def __init__(self, code: Code) -> None:
        shown = f"{code.file} ({code.sha256[:8]})"
        message = f"The code of {shown} came from elsewhere and has not been accepted on this machine."
        remedy = "Read it: `ammeter show RUN --code` prints a run's code. To run it, add --trust-code."
        super().__init__(request_problem(message, remedy, key=_KEY, value=code.short))
        self.code = code


def is_untrusted(problem: Problem) -> bool:
    """Whether the problem is that of an `UntrustedCodeError`, as an event or a saved run has it."""
    return problem.key == _KEY


class TrustedCode:
    """Code by its hash and folder: what it imports or reads there is not all kept with it.

    Every method raises ProblemError of kind STORE when the store's file fails.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, code: Code) -> None:
        """Trusts code that the user chose as a file on this machine, or has read and accepted."""
        with self._connection.changing() as connection:
            connection.execute(
                "INSERT OR IGNORE INTO trusted_code (sha256, folder, added) VALUES (?, ?, ?)",
                (code.sha256, code.folder, time.time()),
            )

    def has(self, code: Code) -> bool:
        """Whether the code may run."""
        statement = "SELECT 1 FROM trusted_code WHERE sha256 = ? AND folder = ?"
        return bool(self._connection.read(statement, (code.sha256, code.folder)))

    def check(self, experiment: Experiment) -> None:
        """Raises UntrustedCodeError where the experiment has code that may not run."""
        code = experiment.own_code
        if code is not None and not self.has(code):
            raise UntrustedCodeError(code)
