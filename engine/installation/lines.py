"""An installation over a pipe: a line of JSON says what is wanted, and its events come back as such lines."""

from __future__ import annotations

from pydantic import TypeAdapter
from pydantic_core import from_json

from engine.experiment.bounded import check_size
from engine.experiment.problem import Kind, Problem, ProblemError
from engine.installation.description import cleaned
from engine.installation.wanted import InstallEvent, Wanted

PAUSE, GO_ON = b"pause\n", b"go on\n"
LONGEST_LINE = 4 * 2**20  # in bytes: a plan of a few hundred wheels with their addresses takes a tenth of it
_WANTED = TypeAdapter(Wanted)
_EVENT: TypeAdapter[InstallEvent | Problem] = TypeAdapter(InstallEvent | Problem)


def wanted_line(wanted: Wanted) -> bytes:
    return _WANTED.dump_json(wanted) + b"\n"


def read_wanted(line: bytes) -> Wanted:
    """What `wanted_line` wrote. Raises ProblemError."""
    try:
        check_size(line)
        return _WANTED.validate_json(line)
    except ValueError:
        raise ProblemError(_UNKNOWN) from None


def event_line(event: InstallEvent | Problem) -> bytes:
    """An event, or what went wrong."""
    return _EVENT.dump_json(event) + b"\n"


def read_event(line: bytes) -> InstallEvent:
    """What `event_line` wrote; it is untrusted. Raises ProblemError, also for a problem."""
    try:
        check_size(line)
        event = _EVENT.validate_python(cleaned(from_json(line)))
    except ValueError:
        raise ProblemError(_UNKNOWN) from None
    if isinstance(event, Problem):
        raise ProblemError(event)
    return event


_UNKNOWN = Problem(
    kind=Kind.PROTOCOL,
    message="The other machine answers in a way that this version does not understand.",
    remedy="Set the engine up there again, with `ammeter engine install --machine NAME`.",
)
