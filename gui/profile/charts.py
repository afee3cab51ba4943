"""The charts of profiles: stacked bars of a step's parts, and the roofline of its kernels."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRectF, Signal

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
from engine.profile.verdict import PEAK_MEANING, PEAK_TITLE, peak_sentence
from engine.protocol.profile import Profiles
from engine.words.numbers import number, share_text
from gui.charts.painter import InteractiveDrawing
from gui.widgets import label
from gui.widgets.answer_page import AnswerPage, wrapped
from gui.widgets.messages import OfferedView
from gui.widgets.shortcuts import tab_after

_LARGEST = 3


class Bars(InteractiveDrawing[PartPlace]):
    """A chart with one bar per profile, divided into the parts of a step. Each part can be clicked."""

    def __init__(self, profiles: Profiles) -> None:
        super().__init__("Where a step's time goes")
        self._profiles = profiles
        self._names = side_names(profiles)
        self.redraw()

    def drawn(self, width: float) -> tuple[Drawing, Sequence[PartPlace]]:
        return bars_drawing(self._profiles, width), part_places(self._profiles, width)

    def stops(self) -> Sequence[PartPlace]:
        # the table repeats the parts of the bars
        return self.spots()[: len(self.spots()) // 2]

    def tip(self, spot: PartPlace) -> str:
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


class BarsView(OfferedView):
    """Shows where a step's time goes, as bars. `part_chosen` carries the `StepPart` that was clicked.

    `wanted` asks for a profile.
    """

    part_chosen = Signal(object)

    def __init__(self) -> None:
        super().__init__(
            "Where does a step's time go?",
            "Records a few steps after warm-up and splits their time into Tensor Core work, other compute, "
            "data movement and waiting, for all precisions on one scale.",
            "Profile",
            "Profile a few steps with the form's settings",
        )
        self.bars: Bars | None = None

    def show_profiles(self, profiles: Profiles | None) -> None:
        """Show the bars of profiles. For None, show the empty state."""
        old, self.bars = self.bars, None
        if profiles is not None and profiles.measured():
            self.bars = Bars(profiles)
            self.bars.chosen.connect(lambda place: self.part_chosen.emit(place.part))
            self.addWidget(self.bars)
            tab_after(self.empty, self.bars)
        self.setCurrentWidget(self.bars or self.empty)
        if old is not None:
            self.removeWidget(old)
            old.hide()
            old.deleteLater()


_HOW_TO_READ = (
    "Each point is a kernel, or an operation where kernels cannot be counted. Larger points take more of "
    "the step. Points further right have a higher arithmetic intensity (FLOP/byte). Higher points compute "
    "faster. The lines are measured limits: the sloped line is the memory roof, and the horizontal lines "
    "are the compute ceilings of matmuls and convolutions. A point just below a line cannot get much "
    "faster. A point far below all lines waits for something else, or is too small to fill the device."
)
_NO_LIMITS = "The limits of this device were not measured, so the chart has no roofline."
_NO_FLOPS = "The model's FLOPs cannot be counted{names}, so the % of measured peak is unknown."
_LOWEST, _HIGHEST, _PART = 300.0, 460.0, 0.5
"""The height of the chart: a part of its width, within limits."""


class Roofline(InteractiveDrawing[RooflinePoint]):
    """The roofline chart of profiles: the throughput of kernels over their arithmetic intensity."""

    def __init__(self, profiles: Profiles) -> None:
        super().__init__("Roofline")
        self._profiles = profiles
        self._names = side_names(profiles)
        self.redraw()

    def drawn(self, width: float) -> tuple[Drawing, Sequence[RooflinePoint]]:
        height = min(max(_PART * width, _LOWEST), _HIGHEST)
        marks = roofline_points(self._profiles, width, height)
        return roofline_drawing(self._profiles, width, height), marks[::-1]

    def stops(self) -> Sequence[RooflinePoint]:
        return self.spots()[::-1]

    def tip(self, spot: RooflinePoint) -> str:
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


class RooflineView(AnswerPage):
    """The roofline chart with a text that explains it."""

    def __init__(self) -> None:
        super().__init__(
            "Roofline",
            "How close do the kernels come to the limits of this device?",
            "Measures memory bandwidth and matmul throughput in each dtype within seconds, and compares "
            "every kernel with these limits.",
            "Profile",
            "Profile a few steps with the form's settings",
        )
        self.roofline: Roofline | None = None

    def show_profiles(self, profiles: Profiles | None) -> None:
        """Show the roofline of profiles. For None, show the empty state."""
        if profiles is None or not profiles.measured():
            self.roofline = None
            self.show_empty()
            return
        self.roofline = Roofline(profiles)
        texts = [wrapped(text, "body") for text in _utilization(profiles)]
        meaning = (label(f"What {PEAK_TITLE} means", "heading"), wrapped(PEAK_MEANING, "hint"))
        self.show_answer(_answer(profiles), self.roofline, wrapped(_HOW_TO_READ, "hint"), *texts, *meaning)


def _answer(profiles: Profiles) -> str:
    sides = zip(side_names(profiles), profiles.sides, strict=True)
    fractions = [
        (name, side.profile.fraction_of_measured_peak if side.profile is not None else None)
        for name, side in sides
    ]
    known = [
        f"{share_text(fraction)}{f' in {name}' if len(fractions) > 1 else ''}"
        for name, fraction in fractions
        if fraction is not None
    ]
    if not known:
        return "The % of measured peak is unknown."
    return f"Of the measured peak, the model reaches {', '.join(known)}."


def _utilization(profiles: Profiles) -> list[str]:
    several = len(profiles.sides) > 1
    sentences: list[str] = []
    uncounted = []
    for name, side in zip(side_names(profiles), profiles.sides, strict=True):
        if side.profile is None:
            continue
        sentence = peak_sentence(side.profile)
        if sentence is not None:
            sentences.append(f"{name}: {sentence}" if several else sentence)
        elif side.profile.flops is None:
            uncounted.append(name)
    if all(profile.limits is None for profile in profiles.measured()):
        sentences.append(_NO_LIMITS)
    if uncounted:
        sentences.append(_NO_FLOPS.format(names=f" in {', '.join(uncounted)}" if several else ""))
    return sentences
