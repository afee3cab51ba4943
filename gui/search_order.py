"""A search for the largest batch as the window asks for it, and how the engine's thread carries it out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.events import Failed
from engine.experiment import Experiment
from engine.probe_events import ProbeEnded
from engine.probing import DEFAULT_MARGIN, ProbeEvent, Prober
from engine.problem import Problem, ProblemError


@dataclass(frozen=True)
class SearchOrder:
    """One search a side, each with its label; `series` names them together in the store."""

    series: str
    sides: tuple[tuple[str, Experiment], ...]
    granularity: int = 1
    margin_fraction: float = DEFAULT_MARGIN


def carry_out(
    order: SearchOrder,
    prober: Prober,
    tell: Callable[[int, ProbeEvent], None],
    is_stopped: Callable[[], bool],
) -> Problem | None:
    """Searches side after side; `tell` gets the side's place and each event. The first problem, if any.

    A side that cannot be searched does not keep the next one from it.
    """
    first: Problem | None = None
    for place, (_, experiment) in enumerate(order.sides):
        if is_stopped():
            break
        try:
            for event in prober.probe(
                experiment,
                order.granularity,
                order.margin_fraction,
                series=order.series,
            ):
                tell(place, event)
                if is_stopped() and not isinstance(event, ProbeEnded):
                    # asked again, in case the wish came before the search was there
                    prober.stop()
                if isinstance(event, Failed):
                    first = first or event.problem
        except ProblemError as error:
            tell(place, Failed(problem=error.problem))
            first = first or error.problem
    return first
