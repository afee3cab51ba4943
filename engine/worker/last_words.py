"""The place in the user's code where its worker died or was ended, by the frames dumped on its stderr."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.experiment.own.code import Code

_FRAME = re.compile(r'  File "(?P<path>.+)", line (?P<line>\d+) in (?P<function>.+)')
_THREAD = re.compile(r"(?P<other>Thread 0x)?.*\(most recent call first\):")
"""The head of a thread's frames; those of the thread that dumped begin with "Current thread" or "Stack"."""
_MODULES = re.compile(r"Extension modules: |<truncated rest of")


@dataclass(frozen=True)
class Frame:
    """A line of the user's code that was being run."""

    file: str
    line: int
    function: str

    @property
    def place(self) -> str:
        """The place as errors of the user's code name it: "net.py, line 12, in forward"."""
        function = "" if self.function.startswith("<") else f", in {self.function}"
        return f"{self.file}, line {self.line}{function}"


@dataclass(frozen=True)
class LastWords:
    """The user's frames, the innermost first, and what else the worker wrote."""

    frames: tuple[Frame, ...]
    rest: str

    @property
    def frame(self) -> Frame | None:
        """The innermost line; None where no line of the user's was being run."""
        return self.frames[0] if self.frames else None

    @property
    def trace(self) -> str:
        """The user's frames as a traceback, and the rest."""
        lines = [f'  File "{frame.file}", line {frame.line}, in {frame.function}' for frame in self.frames]
        head = ["Traceback (most recent call first):", *lines] if lines else []
        return "\n".join([*head, *([self.rest] if self.rest else [])])


def last_words(stderr: str, code: Code) -> LastWords:
    """Reads a dump by faulthandler from the end of a worker's stderr.

    Of several threads the one that dumped counts, or else the first that ran the user's code.
    """
    names = _names(code)
    threads: list[list[Frame]] = []
    current: list[Frame] = []
    rest: list[str] = []
    frames: list[Frame] | None = None
    for line in stderr.splitlines():
        if thread := _THREAD.fullmatch(line):
            frames = []
            if thread["other"]:
                threads.append(frames)
            else:
                current = frames
        elif frames is not None and (found := _FRAME.fullmatch(line)):
            if found["path"] in names:
                frames.append(Frame(names[found["path"]], int(found["line"]), found["function"]))
        elif not _MODULES.match(line):
            frames = None
            rest.append(line)
    told = next(_not_empty([current, *threads]), [])
    return LastWords(tuple(told), "\n".join(rest).strip("\n"))


def _not_empty(threads: Iterable[list[Frame]]) -> Iterator[list[Frame]]:
    return (frames for frames in threads if frames)


def _names(code: Code) -> dict[str, str]:
    """The user's files by their paths as faulthandler writes these."""
    folder = Path(code.folder)
    paths = {name: str(folder / name) for name in (code.file, *code.beside)}
    return {path.encode("ascii", "backslashreplace").decode(): name for name, path in paths.items()}
