"""All advice that the evidence gives cause for; without evidence there is none."""

from __future__ import annotations

from collections.abc import Generator

from engine.protocol.advice import Advice, Advices
from engine.protocol.events import Event
from engine.protocol.numerics.numerics import NumericsResults
from engine.training.numerics.advice.costs import cost_advice
from engine.training.numerics.advice.evidence import Evidence, gather
from engine.training.numerics.advice.losses import loss_advice
from engine.training.numerics.bench import Bench


def advise_on_numerics(bench: Bench, results: NumericsResults) -> Generator[Event, None, Advices | None]:
    """The advice on a bench's experiment, given the results of its numerics; None if it was stopped."""
    evidence = yield from gather(bench, results)
    return None if evidence is None else Advices(items=advice_on(evidence))


def advice_on(evidence: Evidence) -> tuple[Advice, ...]:
    """Advice on correct numbers first, then on time and memory."""
    return (*loss_advice(evidence), *cost_advice(evidence))
