"""The charts of profiles: stacked bars of a step's parts, and the roofline of its kernels."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRectF

from engine.drawing.shapes import Drawing
from engine.profile.charts import (
    PartPlace,
    RooflinePoint,
    bars_drawing,
    part_places,
    roofline_drawing,
    roofline_points,
)
from engine.profile.names import part_meaning, part_title, side_names
from engine.protocol.profile import Profiles
from engine.words.numbers import number, share_text
from gui.charts.painter import InteractiveDrawing

_LARGEST = 3


class Bars(InteractiveDrawing[PartPlace]):
    """A chart with one bar per profile, divided into the parts of a step. Each part can be clicked."""

    def __init__(self) -> None:
        super().__init__("Where a step's time goes")
        self._profiles: Profiles | None = None
        self._names: Sequence[str] = ()

    def show_answer(self, answer: Profiles) -> None:
        """Show profiles, of which at least one is known."""
        self._profiles, self._names = answer, side_names(answer)
        self.redraw()

    def drawn(self, width: float) -> tuple[Drawing, Sequence[PartPlace]]:
        if self._profiles is None:
            return Drawing(width, 0, ()), ()
        return bars_drawing(self._profiles, width), part_places(self._profiles, width)

    def tip(self, spot: PartPlace) -> str:
        assert self._profiles is not None  # or there are no spots
        profile = self._profiles.sides[spot.side].profile
        assert profile is not None  # only profiles have parts
        ms, share = profile.bar.ms(spot.part), share_text(profile.bar.fraction(spot.part))
        name = f"{self._names[spot.side]}: " if len(self._names) > 1 else ""
        lines = [
            f"{name}{part_title(spot.part, profile)}, {number(ms)} ms, {share} of the step",
            f"{part_meaning(spot.part, profile)}.",
        ]
        rows = [row for row in profile.kernels if row.part is spot.part][:_LARGEST]
        return "\n".join([*lines, *(f"{number(row.ms)} ms  {row.name}" for row in rows)])

    def outline(self, spot: PartPlace) -> QRectF:
        return QRectF(spot.x, spot.y, spot.width, spot.height).adjusted(-1.5, -1.5, 0.5, 0.5)


_LOWEST, _HIGHEST, _PART = 300.0, 460.0, 0.5
"""The height of the chart: a part of its width, within limits."""


class Roofline(InteractiveDrawing[RooflinePoint]):
    """The roofline chart of profiles: the throughput of kernels over their arithmetic intensity."""

    def __init__(self) -> None:
        super().__init__("Roofline")
        self._profiles: Profiles | None = None
        self._names: Sequence[str] = ()

    def show_answer(self, answer: Profiles) -> None:
        """Show profiles, of which at least one is known."""
        self._profiles, self._names = answer, side_names(answer)
        self.redraw()

    def drawn(self, width: float) -> tuple[Drawing, Sequence[RooflinePoint]]:
        if self._profiles is None:
            return Drawing(width, 0, ()), ()
        height = min(max(_PART * width, _LOWEST), _HIGHEST)
        marks = roofline_points(self._profiles, width, height)
        return roofline_drawing(self._profiles, width, height), marks[::-1]

    def stops(self) -> Sequence[RooflinePoint]:
        return self.spots()[::-1]

    def tip(self, spot: RooflinePoint) -> str:
        assert self._profiles is not None  # or there are no spots
        row, profile = spot.row, self._profiles.sides[spot.place].profile
        assert profile is not None and row.flops and row.moved_bytes  # or there is no mark
        share = profile.share_of_step(row)
        name = f"{self._names[spot.place]}: " if len(self._names) > 1 else ""
        lines = (
            row.name,
            f"{name}{number(row.ms)} ms{'' if share is None else f', {share_text(share)} of the step'}",
            f"{number(row.tflops)} TFLOP/s, {number(row.gb_per_second)} GB/s, "
            f"{number(row.flops / row.moved_bytes)} FLOP/byte",
        )
        return "\n".join(lines)

    def outline(self, spot: RooflinePoint) -> QRectF:
        half = spot.size / 2 + 2
        return QRectF(spot.x - half, spot.y - half, 2 * half, 2 * half)
