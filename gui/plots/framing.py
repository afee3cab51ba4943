"""How the frame of a live plot comes about: ranges, ticks and where a limit stands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from gui.plots.curves import Curve
from gui.plots.frame import Capacity
from gui.plots.scales import Scale, extent
from gui.plots.shown import Shown
from gui.plots.ticks import Tick, linear_ticks

XAxis = Literal["steps", "seconds"]
Range = tuple[float, float]

_ROOM_RIGHT = 1.065
_CAPACITY_IN_SCALE = 1.6
_CAPACITY_HEADROOM = 0.18


def whole_range(curves: Iterable[Curve], total: float | None) -> Range:
    """x from zero to the end of the longest curve, or to the `total` to come."""
    ends = [float(curve.x[-1]) for curve in curves if len(curve.x)]
    reach = max([*ends, total or 0.0])
    return (0.0, reach * _ROOM_RIGHT) if reach > 0 else (0.0, 1.0)


def visible_extent(shown: Iterable[Shown], x_range: Range) -> Range | None:
    """The least and the largest of what is in view, or None where that is nothing."""
    return extent(piece for one in shown for piece in one.visible(x_range))


def with_capacity(
    y_range: Range, scale: Scale, capacity: tuple[float, str] | None
) -> tuple[Range, Capacity | None]:
    """Makes room for a limit: in scale where it is near, else for its words under the top edge."""
    if capacity is None:
        return y_range, None
    value, text = capacity
    low, high = y_range
    place = float(scale.to_view(np.array([value]))[0])
    if place <= high * (_CAPACITY_IN_SCALE if scale is Scale.LINEAR else 1.0):
        return (low, max(high, place + (place - low) * 0.08)), Capacity(text, place)
    return (low, high + (high - low) * _CAPACITY_HEADROOM), Capacity(text)


def x_ticks(x_range: Range, most: int, x_axis: XAxis) -> tuple[Tick, ...]:
    """Ticks of which the last carries the unit."""
    return with_unit(linear_ticks(*x_range, most, whole=x_axis == "steps"), x_axis)


def with_unit(ticks: Sequence[Tick], x_axis: XAxis) -> tuple[Tick, ...]:
    """The ticks of an x axis, with its unit behind the last one."""
    if not ticks:
        return ()
    last = ticks[-1]
    unit = "s" if x_axis == "seconds" else "step" if last.text == "1" else "steps"
    return (*ticks[:-1], replace(last, text=f"{last.text} {unit}"))
