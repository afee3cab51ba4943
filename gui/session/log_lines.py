"""What of an engine's event is worth a line of the log. No Qt."""

from __future__ import annotations

from engine.limit.prober import ProbeEvent
from engine.limit.result import outcome
from engine.protocol.events import Event, Failed, Finished, Log, Phase, PhaseName, Started
from engine.protocol.trials import ProbeEnded, ProbeStarted, TrialEnded

Line = tuple[str, str]
"""A level and a message."""


def run_lines(event: Event) -> tuple[Line, ...]:
    """What a run's event says to the log; how it failed is told by who knows it to be the last."""
    match event:
        case Log(level=level, message=message):
            return ((level, message),)
        case Started(notes=notes, environment=machine):
            began = f"Started on {machine.device_name}, torch {machine.torch}."
            return (("info", began), *(("info", note) for note in notes))
        case Phase(name=PhaseName.DOWNLOADING, detail=detail, fraction=None):
            return (("info", detail),)
        case Finished(stopped=stopped):
            return (("info", "Stopped." if stopped else "Finished."),)
    return ()


def search_lines(event: ProbeEvent) -> tuple[Line, ...]:
    """What an event of a search for the largest batch says to the log."""
    match event:
        case Log(level=level, message=message):
            return ((level, message),)
        case Phase(name=PhaseName.DOWNLOADING, detail=detail, fraction=None):
            return (("info", detail),)
        case ProbeStarted(experiment=experiment):
            return (("info", f"Searching for the largest batch of {experiment.model}."),)
        case TrialEnded(trial=trial, replaced_worker=why):
            said = f"Batch {trial.batch_size:,}: {outcome(trial)}."
            tried = ("info", f"{said} {trial.note}" if trial.note else said)
            return (tried,) if why is None else (tried, ("warning", f"Its worker was replaced: {why}"))
        case ProbeEnded(result=result):
            known = "proven" if result.verified else "not proven"
            return (("info", f"The largest batch that passed is {result.largest_batch:,}, {known}."),)
        case Failed(problem=problem, detail=detail):
            said = f"{problem.message} {problem.remedy}"
            return (("problem", f"{said}\n{detail}" if detail else said),)
    return ()
