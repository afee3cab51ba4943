"""The problems of workers that died, hung, or sent what is no event."""

from __future__ import annotations

import signal

from engine.experiment.own.code import Code
from engine.experiment.problem import Kind, Problem
from engine.protocol.trials import SPILLED
from engine.worker.last_words import LastWords

_FIRST_CRASH = 0x80000000
"""On Windows an exit status from here on is an NTSTATUS of an error."""


def broken_protocol(sent: str) -> Problem:
    """The worker sent `sent`."""
    return Problem(
        kind=Kind.PROTOCOL,
        message=f"The training process sent {sent}.",
        remedy="Run it again; if it happens again, report it with the details below.",
    )


def spilled() -> Problem:
    """A trial that crawls in the host's memory, and was ended."""
    return Problem(kind=Kind.SPILLED, message=SPILLED, remedy="Try a smaller batch.")


def death(status: int) -> Problem:
    """A worker that ended with that exit status."""
    if status >= 0:
        # Windows' codes of crashes are known in hexadecimal: 0xC0000005
        number = f"0x{status:08X}" if status >= _FIRST_CRASH else f"{status}"
        how, remedy = f"with exit status {number}", "The details below show its last output."
    else:
        how = f"by signal {_signal_name(-status)}"
        remedy = "The details below show its last output."
        if -status == getattr(signal, "SIGKILL", 9):
            remedy = "If nobody ended it, the system ran out of memory: try a smaller batch."
    return Problem(kind=Kind.WORKER_DIED, message=f"The training process ended mid-run {how}.", remedy=remedy)


def at_line(problem: Problem, code: Code, words: LastWords) -> Problem:
    """The problem with the user's line that was being run, or at least the file."""
    if words.frame is not None and problem.kind in _CORRECT:
        message = f"{words.frame.place}: {problem.message}"
        return problem.model_copy(
            update={"message": message, "key": "model", "remedy": _CORRECT[problem.kind]}
        )
    if problem.kind is Kind.WORKER_DIED:
        message = f"{problem.message.removesuffix('.')} while it ran {code.file}."
        return problem.model_copy(update={"message": message})
    return problem


_CORRECT = {
    Kind.HANG: "Look there for a loop that never ends.",
    Kind.WORKER_DIED: "Correct that line, which crashed outside Python, where it raises no error.",
}


def _signal_name(number: int) -> str:
    try:
        return f"{number} ({signal.Signals(number).name})"
    except ValueError:
        return str(number)
