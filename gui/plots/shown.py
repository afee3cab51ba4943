"""A curve made ready to be drawn: smoothed, and in the view's coordinates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gui.plots.curves import Curve
from gui.plots.scales import Scale
from gui.plots.smoothing import Values, extended, local_line

_ENOUGH_FOR_PERCENTILES = 100


@dataclass(frozen=True, eq=False)
class Shown:
    """`values` are read out; `line` and `dim` are drawn, NaN where there is no place for a value."""

    curve: Curve
    scale: Scale
    smooth: int
    values: Values
    line: Values
    dim: Values | None

    def row_at(self, place: float | None) -> int | None:
        """The row to read off: at `place`, or the last one for None."""
        if place is not None:
            return self.curve.index_at(place)
        return len(self.values) - 1 if len(self.values) else None

    def visible(self, x_range: tuple[float, float]) -> list[Values]:
        """What of the curve decides the y range while `x_range` is in view."""
        low, high = np.searchsorted(self.curve.x, x_range)
        window = slice(max(0, int(low) - 1), int(high) + 1)
        if self.dim is None:
            return [self.line[window]]
        dim = self.dim[window]
        finite = dim[np.isfinite(dim)]
        if self.curve.shadow is None and len(finite) > _ENOUGH_FOR_PERCENTILES:
            # a single slow or lucky step must not flatten the smoothed curve
            return [self.line[window], np.percentile(finite, (1, 99))]
        return [self.line[window], dim]


def prepared(curve: Curve, scale: Scale, smooth: int, before: Shown | None) -> Shown:
    """The curve smoothed over `smooth` steps (0 for not at all); `before` itself where nothing was added."""
    same = before is not None and (before.scale, before.smooth) == (scale, smooth)
    if before is not None and same and len(before.values) == len(curve.y):
        return before
    if not smooth:
        values = curve.y
    elif before is not None and same and len(before.values) < len(curve.y):
        values = extended(before.values, curve.y, smooth)
    else:
        values = local_line(curve.y, smooth)
    raw = curve.y if smooth else None
    dim = curve.shadow if curve.shadow is not None else raw
    return Shown(
        curve, scale, smooth, values, scale.to_view(values), scale.to_view(dim) if dim is not None else None
    )
