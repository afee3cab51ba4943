"""Where a model of the user's own failed, read from a traceback."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePath

from engine.experiment.own.code import Code

_FRAME = re.compile(r'^\s*File "(.+)", line (\d+)(?:, in (\S+))?', re.MULTILINE)
"""A frame of a traceback, as Python writes it."""
BEFORE, AFTER = 6, 2
"""How many lines around the failing one are told."""


@dataclass(frozen=True)
class Place:
    """Where the user's own code failed: `lines` of the file around it, the first of which is line `first`."""

    path: Path
    line: int
    function: str
    first: int
    lines: tuple[str, ...]

    @property
    def short(self) -> str:
        """The file and the line: "net.py:14"."""
        return f"{self.path.name}:{self.line}"


def place_of(detail: str, code: Code | None) -> Place | None:
    """The innermost frame of a traceback that is in the user's own code; None where there is none."""
    if code is None:
        return None
    texts = {code.file: code.text, **code.beside}
    for path, number, function in reversed(_FRAME.findall(detail)):
        name = next((name for name in texts if PurePath(path).as_posix().endswith(f"/{name}")), None)
        name = path if name is None and path in texts else name
        if name is not None:
            lines, line = texts[name].splitlines(), int(number)
            first = max(1, line - BEFORE)
            return Place(
                Path(code.folder, name), line, function, first, tuple(lines[first - 1 : line + AFTER])
            )
    return None
