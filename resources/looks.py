"""The design tokens of window and reports: every colour, dark and light, and how each precision looks.

Precisions go by their name in an experiment ("fp32"), since resources know nothing of the engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

MarkFill = Literal["full", "hollow", "dotted"]
"""How a precision's mark is filled: what tells several sides of one precision apart in a comparison."""
MARK_FILLS: tuple[MarkFill, ...] = ("full", "hollow", "dotted")


@dataclass(frozen=True)
class PrecisionLook:
    """How one precision looks in every view.

    `dash` is in pixels on and off, empty for a solid line; `symbol` is pyqtgraph's name of the marker;
    `tint` fills a selected chip and `dim` draws the raw trace under the smoothed one.
    """

    color: str
    tint: str
    dim: str
    dash: tuple[float, ...]
    symbol: str


@dataclass(frozen=True)
class Palette:
    """All colours of one theme as "#RRGGBB", by their token's name.

    `unlit` is a race's block to come, `spared` the hatching of what a race's gauge leaves free.
    `heat` are the shades of a map, from the lowest value to the highest.
    """

    name: str
    bg0: str
    bg1: str
    bg2: str
    bg3: str
    field: str
    selected: str
    selected_line: str
    line: str
    line2: str
    grid: str
    hatch: str
    spared: str
    shade: str
    unlit: str
    text: str
    text2: str
    text3: str
    off: str
    pri: str
    pri_hover: str
    pri_pressed: str
    prifg: str
    heat: tuple[str, ...]
    precisions: Mapping[str, PrecisionLook]

    @property
    def is_dark(self) -> bool:
        return self.name == "dark"

    def look(self, precision: str) -> PrecisionLook:
        """Return how a run in the precision looks."""
        return self.precisions[precision]

    def on_heat(self, step: int) -> str:
        """The colour of words on a shade of `heat`: whichever of black and white stands out more."""
        red, green, blue = (int(self.heat[step][place : place + 2], 16) / 255 for place in (1, 3, 5))
        is_light = 0.21 * red**2.2 + 0.72 * green**2.2 + 0.07 * blue**2.2 > _MIDDLE
        return "#0D0F12" if is_light else "#FFFFFF"


_MIDDLE = 0.18
"""The luminance against which black and white stand out alike (WCAG 2)."""


_PRECISIONS: Mapping[str, tuple[tuple[str, str], tuple[float, ...], str]] = {
    "fp32": (("#56B4E9", "#0064A6"), (), "o"),
    "tf32": (("#009E73", "#008561"), (2.0, 3.0), "s"),
    "fp16": (("#E69F00", "#BF5700"), (12.0, 3.0), "t1"),
    "bf16": (("#CC79A7", "#983878"), (10.0, 3.0, 2.0, 3.0), "d"),
    "fp8": (("#F4E922", "#4E5002"), (6.0, 6.0), "h"),
    "default": (("#936FFD", "#24047C"), (20.0, 8.0), "+"),
    "fp16-unscaled": (("#CF5E0D", "#835F3F"), (10.0, 3.0, 2.0, 3.0, 2.0, 3.0), "t"),
    "bf16-pure": (("#FBACCE", "#6F102D"), (14.0, 3.0, 5.0, 3.0), "t2"),
}
"""Color of each precision in the dark and in the light theme, its dash and its symbol.

Any two colors differ by 9.6 or more (CIEDE2000), also for people who do not see red, green or blue.
"""


def _mixed(color: str, ground: str, share: float) -> str:
    pairs = zip(bytes.fromhex(color[1:]), bytes.fromhex(ground[1:]), strict=True)
    return f"#{bytes(round(low + (high - low) * share) for high, low in pairs).hex().upper()}"


_LIGHT_HEAT = ("#F0F1F6", "#DFE2EC", "#CBD0E0", "#B3BAD1", "#97A1BF", "#7A86A9", "#5C6890", "#424D75")
_DARK_HEAT = ("#1E222B", "#272D3A", "#323A4C", "#3F4960", "#4F5A76", "#616D8D", "#7683A6", "#909CC0")
"""One hue, so that lightness alone orders the values; the highest stands out most from the ground."""

_COLOURS = {
    "bg0": ("#0D0F12", "#F1F3F5"),
    "bg1": ("#14171B", "#FFFFFF"),
    "bg2": ("#1B1F25", "#F4F5F7"),
    "bg3": ("#2A3038", "#E3E6EA"),
    "field": ("#1B1F25", "#FFFFFF"),
    "selected": ("#2A3038", "#FFFFFF"),
    "selected_line": ("#2A3038", "#C6CCD4"),
    "line": ("#22272E", "#E0E4E8"),
    "line2": ("#343B45", "#C6CCD4"),
    "grid": ("#20252B", "#ECEEF1"),
    "hatch": ("#2A3038", "#DFE3E8"),
    "spared": ("#2A3038", "#C6CCD4"),
    "shade": ("#1D2127", "#F1F3F5"),
    "unlit": ("#1F242B", "#D9DEE4"),
    "text": ("#E9EBEE", "#15181C"),
    "text2": ("#A7AEB8", "#4B535E"),
    "text3": ("#8A929E", "#666E7A"),
    "off": ("#5B636E", "#A3AAB4"),
    "pri": ("#E9EBEE", "#15181C"),
    "pri_hover": ("#FFFFFF", "#343B45"),
    "pri_pressed": ("#CDD1D7", "#4B535E"),
    "prifg": ("#14171B", "#FFFFFF"),
}
"""Dark and light."""


def _palette(place: int, name: str, heat: tuple[str, ...]) -> Palette:
    colours = {token: both[place] for token, both in _COLOURS.items()}
    precisions = {}
    for precision, (both, dash, symbol) in _PRECISIONS.items():
        tint, dim = (_mixed(both[place], colours["bg1"], share) for share in (0.14, 0.38))
        precisions[precision] = PrecisionLook(both[place], tint, dim, dash, symbol)
    return Palette(name=name, heat=heat, precisions=MappingProxyType(precisions), **colours)


DARK = _palette(0, "dark", _DARK_HEAT)
LIGHT = _palette(1, "light", _LIGHT_HEAT)
