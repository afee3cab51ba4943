"""Which cells of a grid cannot be trained here, or will not fit into memory, and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from engine.experiment.checks import Catalog, problems
from engine.experiment.experiment import Experiment
from engine.experiment.sweep.grid import VARIANT, Cell, Grid
from engine.experiment.value import MIB_PER_GIB
from engine.protocol.memory_lines import needed_mib
from engine.store.saved.forecasts import Forecasts, forecast_key, may_change_memory
from engine.words.numbers import need_text

MOST_FORECASTS = 24
"""How many forecasts are made for a grid at most: one takes seconds."""


@dataclass(frozen=True)
class Fit:
    """Why cells are left out, by index; the memory in MiB that cells need as far as it is forecast.

    `unknown` are experiments whose forecasts would tell the rest.
    """

    why: dict[int, str] = field(default_factory=dict)
    needed_mib: dict[int, float] = field(default_factory=dict)
    unknown: tuple[Experiment, ...] = ()


def why_unfit(grid: Grid, catalog: Catalog, forecasts: Forecasts) -> dict[int, str]:
    """Why cells cannot be trained here or will not fit, by index; those without a forecast may fit."""
    return fit_of(grid, catalog, forecasts).why


def fit_of(grid: Grid, catalog: Catalog, forecasts: Forecasts | None) -> Fit:
    """What is known of the memory of the cells, and which of them cannot be trained here."""
    why: dict[int, str] = {}
    trainable: list[Cell] = []
    for cell in grid.cells:
        obstacle = next(iter(problems(cell.experiment, catalog)), None)
        if obstacle is None:
            trainable.append(cell)
        else:
            why[cell.index] = obstacle.message
    groups = _groups(grid, trainable)
    firsts = [group[0].experiment for group in groups]
    found = [None] * len(firsts) if forecasts is None else forecasts.find_all(firsts)
    needed: dict[int, float] = {}
    unknown: dict[str, Experiment] = {}
    for group, forecast in zip(groups, found, strict=True):
        if forecast is None:
            unknown.setdefault(forecast_key(group[0].experiment), group[0].experiment)
            continue
        for cell in group:
            needed[cell.index] = mib = needed_mib(forecast.lines, cell.experiment.batch_size)
            budget_mib = _budget_mib(cell.experiment, catalog)
            if mib > budget_mib:
                why[cell.index] = f"It needs {need_text(mib, budget_mib)}, and does not fit."
    return Fit(why, needed, tuple(islice(unknown.values(), MOST_FORECASTS)))


def _groups(grid: Grid, cells: Iterable[Cell]) -> list[list[Cell]]:
    """The cells, those that share a forecast together: a forecast holds for every batch."""
    deciding = [
        place
        for place, axis in enumerate(grid.axes)
        if axis.key == VARIANT or axis.overrides or may_change_memory(axis.key)
    ]
    groups: dict[tuple[int, ...], list[Cell]] = {}
    for cell in cells:
        groups.setdefault(tuple(cell.places[place] for place in deciding), []).append(cell)
    return list(groups.values())


def _budget_mib(experiment: Experiment, catalog: Catalog) -> float:
    if experiment.memory_cap_gib is not None:
        return experiment.memory_cap_gib * MIB_PER_GIB
    device = catalog.device(experiment.device)
    assert device is not None  # problems() would have named it
    return device.memory_mib
