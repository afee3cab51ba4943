"""The problems of workers that died, hung, or sent an invalid line, with the place in the user's code."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from pathlib import Path

from engine.experiment.own.code import Code
from engine.experiment.problem import Kind, Problem
from engine.protocol.trials import SPILLED

_FRAME = re.compile(r'  File "(?P<path>.+)", line (?P<line>\d+) in (?P<function>.+)')
_THREAD = re.compile(r"(?P<other>Thread 0x)?.*\(most recent call first\):")
"""The line before a thread's frames. For the thread that dumped, it starts with "Current thread" or
"Stack"."""
_MODULES = re.compile(r"Extension modules: |<truncated rest of")
_FIRST_CRASH = 0x80000000  # on Windows an exit status from here on is an NTSTATUS of an error
_CORRECT = {
    Kind.HANG: "Look there for an infinite loop.",
    Kind.WORKER_DIED: "Fix that line. It crashed outside Python, so it raised no error.",
}


@dataclass(frozen=True)
class Frame:
    """A frame of a traceback in the user's code: file, line and function."""

    file: str
    line: int
    function: str

    @property
    def place(self) -> str:
        """The place for a message: "net.py, line 12, in forward"."""
        function = "" if self.function.startswith("<") else f", in {self.function}"
        return f"{self.file}, line {self.line}{function}"


@dataclass(frozen=True)
class LastWords:
    """The stderr of a worker that crashed or hangs, split into the stack of the user's code and the rest.

    The innermost frame is first.
    """

    frames: tuple[Frame, ...]
    rest: str

    @property
    def frame(self) -> Frame | None:
        """The innermost line. None if no line of the user's code was running."""
        return self.frames[0] if self.frames else None

    @property
    def trace(self) -> str:
        """The user's frames as a traceback, and the rest."""
        lines = [f'  File "{frame.file}", line {frame.line}, in {frame.function}' for frame in self.frames]
        head = ["Traceback (most recent call first):", *lines] if lines else []
        return "\n".join([*head, *([self.rest] if self.rest else [])])


def last_words(stderr: str, code: Code) -> LastWords:
    """Read a dump by faulthandler from the end of a worker's stderr.

    The thread that dumped counts, or else the first one that ran the user's code.
    """
    paths = {str(Path(code.folder) / name): name for name in (code.file, *code.beside)}
    # as faulthandler writes them
    names = {path.encode("ascii", "backslashreplace").decode(): name for path, name in paths.items()}
    threads: list[list[Frame]] = []
    rest: list[str] = []
    frames: list[Frame] | None = None
    for line in stderr.splitlines():
        if thread := _THREAD.fullmatch(line):
            frames = []
            threads.insert(len(threads) if thread["other"] else 0, frames)
        elif frames is not None and (found := _FRAME.fullmatch(line)):
            if found["path"] in names:
                frames.append(Frame(names[found["path"]], int(found["line"]), found["function"]))
        elif not _MODULES.match(line):
            frames = None
            rest.append(line)
    return LastWords(tuple(next(filter(None, threads), [])), "\n".join(rest).strip("\n"))


def protocol_problem(sent: str) -> Problem:
    """Return the problem of a worker that `sent` something other than an event."""
    return Problem(
        kind=Kind.PROTOCOL,
        message=f"The training process sent {sent}.",
        remedy="Run it again. If it happens again, report it with the details below.",
    )


def spill_problem() -> Problem:
    """Return the problem of a trial that was ended because it spilled to system memory."""
    return Problem(kind=Kind.SPILLED, message=SPILLED, remedy="Try a smaller batch.")


def death_problem(status: int) -> Problem:
    """Return the problem of a worker that ended with this exit status."""
    remedy = "The details below show its last output."
    if status >= 0:
        # Windows' codes of crashes are known in hexadecimal: 0xC0000005
        how = f"with exit status {f'0x{status:08X}' if status >= _FIRST_CRASH else status}"
    else:
        known = -status in set(signal.Signals)
        how = f"by signal {-status}{f' ({signal.Signals(-status).name})' if known else ''}"
        if -status == getattr(signal, "SIGKILL", 9):
            remedy = "If you did not end it, the system probably ran out of memory. Try a smaller batch."
    return Problem(kind=Kind.WORKER_DIED, message=f"The training process ended mid-run {how}.", remedy=remedy)


def lost_problem(why: str, kind: Kind = Kind.WORKER_DIED) -> Problem:
    """Return the problem of a worker that a remote machine has lost."""
    remedy = "Its results until then are saved. Train the run again, or resume it from a checkpoint."
    return Problem(kind=kind, message=why, remedy=remedy)


def with_frame(problem: Problem, code: Code, words: LastWords) -> Problem:
    """Return the problem with the line of the user's code that was running, or at least the file."""
    if words.frame is not None and problem.kind in _CORRECT:
        message = f"{words.frame.place}: {problem.message}"
        update = {"message": message, "key": "model", "remedy": _CORRECT[problem.kind]}
        return problem.model_copy(update=update)
    if problem.kind is Kind.WORKER_DIED:
        message = f"{problem.message.removesuffix('.')} while running {code.file}."
        return problem.model_copy(update={"message": message})
    return problem
