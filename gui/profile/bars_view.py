"""The bars of profiles: the parts of a step, side above side."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRectF, Signal

from engine.drawing.shapes import Drawing
from engine.profile.bar_picture import PartPlace, bars_drawing, part_places
from engine.profile.names import part_meaning, part_title, side_names
from engine.protocol.profiles import Profiles
from engine.words.numbers import number, share_text
from gui.charts.painter import Picture
from gui.widgets.messages import OfferedView
from gui.widgets.shortcuts import tab_after

_NOTHING_YET = (
    "Where does a step's time go?",
    "A profile records some steps after the warm-up, and tells computing on Tensor Cores and elsewhere from "
    "moving data and from waiting, for every precision on one scale.",
    "Profile",
    "Profile some steps of what the form describes",
)
_LARGEST = 3


class Bars(Picture[PartPlace]):
    """The picture of profiles; its spots are the parts."""

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
    """The bars. `part_chosen` carries the `StepPart` that is clicked, `wanted` asks for a profile."""

    part_chosen = Signal(object)

    def __init__(self) -> None:
        super().__init__(*_NOTHING_YET)
        self.bars: Bars | None = None

    def show_profiles(self, profiles: Profiles | None) -> None:
        """Shows the bars of profiles; None for what they would answer."""
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
