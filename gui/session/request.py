"""The request of the form, and the trust in its code. Does not use Qt."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from engine.experiment.experiment import Experiment
from engine.experiment.own.code import Code
from engine.experiment.own.trust import Foreign, TrustedCode
from engine.experiment.problem import request_error
from engine.experiment.sweep import Grid, Plan


@dataclass(frozen=True)
class Request:
    """What the user wants to train: labeled experiments, each `repeats` times, in alternating order.

    `name` is the user's name for the runs, or None to number them. `title` is the title of the comparison or
    the name of a single run, "" for a numbered one. With a `grid` and a `plan` it is a sweep, and
    `experiments` have the first value of every setting except the precision.
    """

    title: str
    experiments: tuple[tuple[str, Experiment], ...]
    name: str | None = None
    repeats: int = 1
    grid: Grid | None = None
    plan: Plan | None = None


class CodeTrust:
    """Ensures that the user has agreed to run the code of a model file, or a command, before it trains.

    The window sets `ask`, which shows the code or command and returns whether it may run.
    """

    def __init__(self, code: TrustedCode) -> None:
        self.code = code
        self.ask: Callable[[Foreign], bool] = lambda _code: False

    def check(self, experiments: Iterable[Experiment]) -> None:
        """Ask about all code that is not trusted yet. Raises ProblemError if it may not run."""
        for experiment in experiments:
            while (code := self.code.untrusted(experiment)) is not None:
                if not self.ask(code):
                    what = f"the code of {code.file}" if isinstance(code, Code) else "the command"
                    message = f"Nothing was started, because you did not allow {what}."
                    raise request_error(message, "", key="code", value=code.sha256)
                self.code.add(code)
