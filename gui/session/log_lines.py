"""The log lines of the engine's events. No Qt."""

from __future__ import annotations

from engine.experiment.problem import Problem
from engine.limit.prober import ProbeEvent
from engine.limit.result import outcome
from engine.numerics.diagnoser import DiagnosisEvent
from engine.protocol.events import (
    Diagnosed,
    Event,
    Failed,
    Finished,
    Log,
    Phase,
    PhaseName,
    Profiled,
    Started,
)
from engine.protocol.numerics.diagnosis import DiagnosisStarted
from engine.protocol.timing.timing import SideFailed, SideStarted
from engine.protocol.trials import ProbeEnded, ProbeStarted, TrialEnded
from engine.sweep.events import SweepEvent, TurnEnded, TurnStarted
from engine.sweep.fastest.events import TrialStarted, TuningEvent
from engine.timing.profiler import TimingEvent
from engine.words.numbers import number

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
    return _common_lines(event)


def search_lines(event: ProbeEvent) -> tuple[Line, ...]:
    """The log lines of an event of a search for the largest batch."""
    match event:
        case ProbeStarted(experiment=experiment):
            return (("info", f"Searching for the largest batch of {experiment.model}."),)
        case TrialEnded(trial=trial, replaced_worker=why):
            text = f"Batch {trial.batch_size:,}: {outcome(trial)}."
            line = ("info", f"{text} {trial.note}" if trial.note else text)
            return (line,) if why is None else (line, ("warning", f"Its worker was replaced: {why}"))
        case ProbeEnded(result=result):
            proof = "proven" if result.verified else "not proven"
            return (("info", f"The largest batch that passed is {result.largest_batch:,}, {proof}."),)
    return _common_lines(event)


_PART_NAMES = {
    "map": "precision map",
    "range": "ranges",
    "nan": "search for the first NaN",
    "ladder": "ladder",
    "islands": "search for FP32 modules",
    "advice": "advice",
}


def diagnosis_lines(event: DiagnosisEvent) -> tuple[Line, ...]:
    """The log lines of an event of a diagnosis."""
    match event:
        case DiagnosisStarted(experiment=experiment):
            return (("info", f"Diagnosing {experiment.model} in {experiment.precision.label}."),)
        case Diagnosed(result=result):
            return (("info", f"Done: {_PART_NAMES[result.part]}."),)
    return _common_lines(event)


def timing_lines(event: TimingEvent, side: str) -> tuple[Line, ...]:
    """The log lines of an event of a timing; `side` is the name of the side in progress."""
    match event:
        case SideStarted():
            return (("info", f"Profiling {side}."),)
        case Profiled(profile=profile):
            step = f"A step of {side} takes {number(profile.step_ms)} ms."
            return (("info", step), *(("info", note) for note in profile.notes))
        case SideFailed(problem=problem):
            return (("problem", f"{side}: {problem.message} {problem.remedy}"),)
    return _common_lines(event)


def sweep_lines(event: SweepEvent, cell: str) -> tuple[Line, ...]:
    """The log lines of an event of a sweep; `cell` is the name of the cell in turn, empty for none."""
    match event:
        case TurnStarted(turn=turn):
            return (("info", f"Pilot of {cell}." if turn.kind == "pilot" else f"{cell}, run {turn.repeat}."),)
        case TurnEnded(problem=Problem() as problem):
            return (("problem", f"{cell}: {problem.message} {problem.remedy}"),)
    # a run's own events are logged with its name
    return () if cell else _common_lines(event)


def tuning_lines(event: TuningEvent) -> tuple[Line, ...]:
    """The log lines of an event of the search for the fastest settings."""
    match event:
        case TrialStarted(words=words, number=number):
            return (("info", f"Run {number:,}: {words}."),)
        case Finished() | Failed():
            # those of a trial tell nothing, and what became of the whole is shown
            return ()
    return _common_lines(event)


def _common_lines(event: object) -> tuple[Line, ...]:
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
