"""Tries an installation of the engine: a worker with its packages trains a step."""

from __future__ import annotations

import re
from pathlib import Path

from engine.experiment.problem import Kind, Problem, ProblemError
from engine.installation.installed import TRIED_PACKAGES
from engine.protocol import jobs
from engine.protocol.events import Examined, Failed
from engine.worker.launcher import Launcher, iterate
from engine.worker.process import COMMAND


def try_out(packages: Path, command: tuple[str, ...] = COMMAND) -> None:
    """Has a worker with these packages train a step. Raises ProblemError where it does not."""
    with Launcher(command=command, environment={TRIED_PACKAGES: str(packages)}) as launcher:
        session = launcher.start(jobs.Examine())
        try:
            for event in iterate(session):
                if isinstance(event, Failed):
                    raise ProblemError(_useless(_why(event)), detail=event.detail)
                if isinstance(event, Examined):
                    bad = [check for check in event.checks if check.status == "problem"]
                    if bad:
                        raise ProblemError(_useless(f"{bad[0].name}: {bad[0].detail}"))
        finally:
            session.close()


def _why(failed: Failed) -> str:
    """The error with which the worker's import of torch ended, or else the sentence of its problem."""
    error = _ERROR.search(failed.detail.rstrip())
    return error[1] if failed.problem.kind is Kind.WORKER_DIED and error else failed.problem.message


_ERROR = re.compile(r"^[\w.]+Error: (.+)\Z", re.MULTILINE)
"""The last line of a traceback."""


def _useless(why: str) -> Problem:
    return Problem(
        kind=Kind.NO_ENGINE,
        message=f"This build of PyTorch was installed, but it does not train here: {why.rstrip('.')}.",
        remedy="Choose another build. An engine that was in use still is, and what was fetched is kept.",
    )
