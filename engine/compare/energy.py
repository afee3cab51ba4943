"""What may be claimed of the energy of two sides, and in which words.

The headline counts all that the device took, as a bill does; the energy above idle is in the table beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.compare.evidence import Doubt, is_disturbed
from engine.compare.figures import ENERGY, Cell, energy_of
from engine.compare.sides import Side
from engine.protocol.summary import Energy
from engine.words.numbers import number, number_text

_LEAST_SECONDS = 5.0
"""A counter of a graphics card moves some ten times a second: in less time its steps would show."""

_LEAST_DIFFERENCE = 0.03
"""Two repeats on the same card, one on a warmer card, differ by as much."""


def claimed_energy(
    side: Side, baseline: Side, cells: Mapping[str, Cell], doubts: Sequence[Doubt]
) -> float | None:
    """The energy of `side` over the baseline's for as many samples, if it may be claimed in a headline.

    Both are measured by the same counter of the same device over some seconds in every run, undisturbed, in
    the same training, and clearly apart.
    """
    cell = cells.get(ENERGY.name)
    ratio = None if cell is None else cell.ratio
    if cell is None or ratio is None or is_disturbed(doubts):
        return None
    if any(doubt.kind == "workload" for doubt in doubts):
        return None
    energies = [energy_of(run) for run in (*side.runs, *baseline.runs)]
    if any(energy is None or energy.seconds < _LEAST_SECONDS for energy in energies):
        return None
    low, high = cell.ratio_interval or (ratio, ratio)
    return None if low <= 1.0 <= high or abs(ratio - 1.0) < _LEAST_DIFFERENCE else ratio


def energy_words(ratio: float) -> str:
    """The energy against the baseline's: "41 % less energy"."""
    if ratio >= 2:
        return f"{number_text(ratio)} times the energy"
    return f"{100 * abs(1 - ratio):.0f} % {'less' if ratio < 1 else 'more'} energy"


def step_energy_text(energy: Energy) -> str:
    """What the measured steps took: "4.1 J a step, 273 W on average, 62 W of it idle"."""
    mean, idle = energy.mean_watts, energy.idle_watts
    parts = (
        f"{number(energy.per_step())} J a step",
        f"{number(mean, 0)} W on average" if mean is not None else "",
        f"{number(idle, 0)} W of it idle" if idle is not None else "",
    )
    return ", ".join(filter(None, parts))
