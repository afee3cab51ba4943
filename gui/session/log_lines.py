"""The log lines of the engine's events. No Qt."""

from __future__ import annotations

from engine.experiment.problem import Problem
from engine.protocol.events import (
    Event,
    Failed,
    Finished,
    Log,
    Phase,
    PhaseName,
    Started,
)
from engine.sweep.order import SweepEvent, TurnEnded, TurnStarted

Line = tuple[str, str]
"""A level and a message."""


def run_lines(event: Event) -> tuple[Line, ...]:
    """The log lines of a run's event; a failure is logged when the run ends."""
    match event:
        case Started(notes=notes, environment=machine):
            started = f"Started on {machine.device_name}, torch {machine.torch}."
            return (("info", started), *(("info", note) for note in notes))
        case Failed():
            return ()
    return common_lines(event)


def sweep_lines(event: SweepEvent, cell: str) -> tuple[Line, ...]:
    """The log lines of an event of a sweep; `cell` is the name of the cell in turn, empty for none."""
    match event:
        case TurnStarted(turn=turn):
            return (("info", f"Pilot of {cell}." if turn.kind == "pilot" else f"{cell}, run {turn.repeat}."),)
        case TurnEnded(problem=Problem() as problem):
            return (("problem", f"{cell}: {problem.message} {problem.remedy}"),)
    # a run's own events are logged with its name
    return () if cell else common_lines(event)


def common_lines(event: object) -> tuple[Line, ...]:
    """The log lines of an event that all work has."""
    match event:
        case Log(level=level, message=message):
            return ((level, message),)
        case Phase(name=PhaseName.DOWNLOADING, detail=detail, fraction=None):
            return (("info", detail),)
        case Finished(stopped=stopped):
            return (("info", "Stopped." if stopped else "Finished."),)
        case Failed(problem=problem, detail=detail):
            text = f"{problem.message} {problem.remedy}"
            return (("problem", f"{text}\n{detail}" if detail else text),)
    return ()
