"""An installation over a pipe: a line of JSON says what is wanted, and its events come back as such lines."""

from __future__ import annotations

import json
import threading
from typing import IO, Any

from pydantic import TypeAdapter, ValidationError

from engine.experiment.problem import Kind, Problem, ProblemError
from engine.installation.description import cleaned
from engine.installation.installer import Installer
from engine.installation.wanted import (
    Fetched,
    Installed,
    InstallEvent,
    Planned,
    StageBegan,
    Unpacked,
    Wanted,
)

PAUSE, GO_ON = "pause", "go on"
LONGEST_LINE = 4 * 2**20
"""In bytes: a plan of a few hundred wheels with their addresses takes a tenth of it."""
_EVENTS: dict[str, TypeAdapter[Any]] = {
    "began": TypeAdapter(StageBegan),
    "planned": TypeAdapter(Planned),
    "fetched": TypeAdapter(Fetched),
    "unpacked": TypeAdapter(Unpacked),
    "installed": TypeAdapter(Installed),
}
_NAMES = dict(zip((StageBegan, Planned, Fetched, Unpacked, Installed), _EVENTS, strict=True))
_WANTED = TypeAdapter(Wanted)


def wanted_line(wanted: Wanted, *, only_plans: bool = False) -> str:
    """What to install, or with `only_plans` to resolve."""
    return json.dumps({"wanted": _WANTED.dump_python(wanted, mode="json"), "only_plans": only_plans}) + "\n"


def read_wanted(line: str) -> tuple[Wanted, bool]:
    """What `wanted_line` wrote. Raises ProblemError."""
    try:
        value = json.loads(line)
        return _WANTED.validate_python(value["wanted"]), bool(value["only_plans"])
    except (ValueError, KeyError, TypeError):
        raise ProblemError(_unknown()) from None


def event_line(event: InstallEvent | Problem) -> str:
    """An event, or what went wrong."""
    if isinstance(event, Problem):
        return json.dumps({"problem": event.model_dump(mode="json")}) + "\n"
    name = _NAMES[type(event)]
    return json.dumps({name: _EVENTS[name].dump_python(event, mode="json")}) + "\n"


def read_event(line: bytes) -> InstallEvent:
    """What `event_line` wrote; it is untrusted. Raises ProblemError, also for a problem."""
    try:
        ((name, value),) = cleaned(json.loads(line)).items()
        if name == "problem":
            raise ProblemError(Problem.model_validate(value))
        event: InstallEvent = _EVENTS[name].validate_python(value)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, ValidationError):
        raise ProblemError(_unknown()) from None
    return event


def obey(installer: Installer, requests: IO[str]) -> None:
    """Has the installation pause and go on as the lines say, and stop where they end; in a thread."""

    def read() -> None:
        for line in requests:
            if line.strip() == PAUSE:
                installer.pause()
            elif line.strip() == GO_ON:
                installer.go_on()
        installer.stop()

    threading.Thread(target=read, daemon=True).start()


def _unknown() -> Problem:
    message = "The other machine answers in a way that this version does not understand."
    remedy = "Set the engine up there again, with `ammeter engine install --machine NAME`."
    return Problem(kind=Kind.PROTOCOL, message=message, remedy=remedy)
