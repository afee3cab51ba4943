"""An installation over a pipe: the request is a line of JSON, and each event comes back as one."""

from __future__ import annotations

from pydantic import TypeAdapter
from pydantic_core import from_json

from engine.experiment.problem import Kind, Problem, ProblemError
from engine.experiment.value import check_size
from engine.installation.description import cleaned
from engine.installation.request import InstallEvent, InstallRequest

PAUSE, RESUME = b"pause\n", b"resume\n"
LONGEST_LINE = 4 * 2**20  # in bytes: a plan of a few hundred wheels with their addresses takes a tenth of it
_REQUEST = TypeAdapter(InstallRequest)
_EVENT: TypeAdapter[InstallEvent | Problem] = TypeAdapter(InstallEvent | Problem)


def request_line(wanted: InstallRequest) -> bytes:
    """Return the request as a line of JSON."""
    return _REQUEST.dump_json(wanted) + b"\n"


def read_request(line: bytes) -> InstallRequest:
    """Parse the output of `request_line`. Raises ProblemError."""
    try:
        check_size(line)
        return _REQUEST.validate_json(line)
    except ValueError:
        raise ProblemError(_UNKNOWN) from None


def event_line(event: InstallEvent | Problem) -> bytes:
    """Return an event or a problem as a line of JSON."""
    return _EVENT.dump_json(event) + b"\n"


def read_event(line: bytes) -> InstallEvent:
    """Parse the untrusted output of `event_line`. Raises ProblemError, also if it is a problem."""
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
    message="The remote machine sent an answer that this version of Ammeter does not understand.",
    remedy="Install PyTorch there again with `ammeter engine install --machine NAME`.",
)
