"""Scaling efficiency in a sweep over `devices`: the speed per device relative to the fewest devices."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.compare.evidence import doubts_of, is_disturbed
from engine.compare.metrics import Metric, metric_row
from engine.compare.sides import Side
from engine.experiment.sweep import Grid
from engine.statistics import Interval
from engine.store.record import RunRecord

DEVICES = "devices"
WEAK = Metric("weak_efficiency", "Scaling efficiency", "%", 1, False, lambda run: None)
STRONG = Metric("strong_efficiency", "Efficiency at the same global batch", "%", 1, False, lambda run: None)
IDEAL = 100.0


def _exchange(run: RunRecord) -> float | None:
    ranks = () if run.summary is None else run.summary.ranks
    known = [
        100 * rank.communication_ms / rank.step_ms
        for rank in ranks
        if rank.communication_ms is not None and rank.step_ms
    ]
    # the rank that comes last waits for none: its time is the transfer's
    return min(known) if ranks and len(known) == len(ranks) else None


EXCHANGE = Metric(
    "exchange_percent", "Synchronizing gradients", "% of a step", 1, False, _exchange, is_mean=True
)
SCALING = (WEAK, STRONG, EXCHANGE)


@dataclass(frozen=True)
class Efficiency:
    """The scaling efficiency of several devices, in percent of ideal scaling, with its 95% interval.

    If it `is_disturbed` it is unreliable.
    """

    percent: float
    interval: Interval | None
    is_disturbed: bool


def efficiencies(
    grid: Grid, sides: Sequence[Side | None], speed: Metric, blocks: Mapping[str, NDArray[np.float64]]
) -> dict[int, dict[str, Efficiency]]:
    """Return the efficiencies of cells by index and name. There are none unless `devices` is an axis.

    Both relate the speed per device to that on the fewest devices. `WEAK`: all other settings are equal, so
    each device keeps its batch size. `STRONG`: batch sizes vary too, and the global batch is equal.
    """
    keys, found = [axis.key for axis in grid.axes], defaultdict[int, dict[str, Efficiency]](dict)
    for figure, varied in ((WEAK, {DEVICES}), (STRONG, {DEVICES, "batch_size"})):
        groups = defaultdict[tuple[object, ...], dict[int, Side]](dict)
        for index, side in enumerate(sides if varied <= set(keys) else ()):
            if side is not None:
                same = [
                    place for key, place in zip(keys, grid.places(index), strict=True) if key not in varied
                ]
                batch = side.runs[0].experiment.device_step_samples * _count(side)
                groups[(*same, batch if figure is STRONG else None)][index] = side
        for group in groups.values():
            base = min(group.values(), key=_count)
            if len(set(map(_count, group.values()))) < 2:
                continue
            for index, side in group.items():
                cell, share = (
                    metric_row(speed, (side,), base, blocks).cells[0],
                    IDEAL * _count(base) / _count(side),
                )
                if cell.ratio is not None:
                    low, high = cell.ratio_interval or (0.0, 0.0)
                    interval = None if cell.ratio_interval is None else (share * low, share * high)
                    doubtful = is_disturbed(doubts_of(side, base, {}))
                    found[index][figure.name] = Efficiency(share * cell.ratio, interval, doubtful)
    return found


def _count(side: Side) -> int:
    summary = side.runs[0].summary
    return max(1, len(summary.ranks) if summary is not None else 1)
