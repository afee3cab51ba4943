"""All advice that a recording gives cause for; without evidence there is none."""

from __future__ import annotations

from engine.experiment.experiment import Experiment
from engine.protocol.numerics.advice import Advice
from engine.protocol.profile.profile import StepProfile
from engine.training.profile.patterns import waits, work
from engine.training.profile.patterns.case import Case
from engine.training.profile.traces.trace import Trace

_PATTERNS = (
    waits.starved,
    waits.pageable_copy,
    waits.synchronisation,
    waits.tiny_kernels,
    waits.idle_threads,
    work.could_be_tf32,
    work.odd_size,
    work.layout,
    work.unfused_optimizer,
    work.zeroed_gradients,
)
_LEAST_SHARE = 0.01
"""Advice that could save less of a step is kept back."""


def advise_on_time(trace: Trace, profile: StepProfile, experiment: Experiment) -> tuple[Advice, ...]:
    """The advice, what could save most first."""
    if not profile.step_ms:
        return ()
    case = Case(trace, profile, experiment)
    found = [found for pattern in _PATTERNS for found in pattern(case)]
    telling = [
        entry for entry in found if entry.saved_ms >= _LEAST_SHARE * profile.step_ms and entry.saved_ms
    ]
    telling.sort(key=lambda entry: entry.saved_ms, reverse=True)
    return tuple(entry.advice for entry in telling)
