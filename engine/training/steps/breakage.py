"""Why a part of the recipe broke, in one short clause."""

from __future__ import annotations

import re
from collections.abc import Iterator

from engine.problem import Kind
from engine.training.failures import problem_of

_LONGEST = 120
# "InductorError: InvalidCxxCompiler: No working compiler" says enough from "No working" on.
_CLASS_NAMES = re.compile(r"^(?:[\w.]*(?:Error|Exception|Failed|Compiler|Missing)\w*:\s*)+")
_SAYS_NOTHING = re.compile(r"raised:?$|^$")


def reason_of(error: Exception) -> str:
    """The first telling line of what went wrong. Raises the error itself where memory ran out."""
    for cause in _with_causes(error):
        if problem_of(cause).kind is Kind.OUT_OF_MEMORY:
            raise cause
    lines = (line.strip() for line in str(_first_of(error)).splitlines())
    text = next((line for line in lines if not _SAYS_NOTHING.search(line)), type(error).__name__)
    text = _CLASS_NAMES.sub("", text).rstrip(".") or type(error).__name__
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def _first_of(error: BaseException) -> BaseException:
    # What broke a capture comes first; ending the capture then fails as well, and says less.
    while error.__context__ is not None and not error.__suppress_context__:
        error = error.__context__
    return error


def _with_causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
