"""A search for the largest batch as it waits in the queue, and how it is carried out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.experiment.experiment import Experiment
from engine.experiment.problem import Problem, ProblemError
from engine.limit.prober import DEFAULT_MARGIN, ProbeEvent, Prober
from engine.protocol.events import Failed
from engine.protocol.trials import ProbeEnded


@dataclass(frozen=True)
class SearchOrder:
    """A search for each labelled side; `series` is their common name in the store."""

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
    """Searches side after side, passing the side's place and each event to `tell`; the first problem, if any.

    The other sides are searched even if one fails.
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
                    # asked again: the request may have come before the search had begun
                    prober.stop()
                if isinstance(event, Failed):
                    first = first or event.problem
        except ProblemError as error:
            tell(place, Failed(problem=error.problem))
            first = first or error.problem
    return first
