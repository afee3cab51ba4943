"""The design tokens of window and reports: every colour, dark and light, and how each precision looks.

Precisions go by their name in an experiment ("fp32"), since resources know nothing of the engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
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
class Hue:
    """A colour for a run of the user's choice, with the forms that a precision's colour has."""

    color: str
    tint: str
    dim: str


@dataclass(frozen=True)
class Palette:
    """All colours of one theme as "#RRGGBB", by their token's name.

    `own` are the colours that a user can give to a run, by `OWN_COLOURS`; `unlit` is a race's block to come,
    `spared` the hatching of what a race's tank leaves free.
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
    own: Mapping[str, Hue]

    @property
    def is_dark(self) -> bool:
        return self.name == "dark"

    def look(self, precision: str, colour: str | None = None) -> PrecisionLook:
        """How a run in the precision looks; `colour` is the run's own, None or an unknown one for none."""
        look, own = self.precisions[precision], self.own.get(colour or "")
        return look if own is None else replace(look, color=own.color, tint=own.tint, dim=own.dim)

    def on_heat(self, step: int) -> str:
        """The colour of words on a shade of `heat`: whichever of black and white stands out more."""
        red, green, blue = (int(self.heat[step][place : place + 2], 16) / 255 for place in (1, 3, 5))
        is_light = 0.21 * red**2.2 + 0.72 * green**2.2 + 0.07 * blue**2.2 > _MIDDLE
        return "#0D0F12" if is_light else "#FFFFFF"


_MIDDLE = 0.18
"""The luminance against which black and white stand out alike (WCAG 2)."""


_DASHES = {
    "fp32": (),
    "tf32": (2.0, 3.0),
    "fp16": (12.0, 3.0),
    "bf16": (10.0, 3.0, 2.0, 3.0),
    "default": (6.0, 3.0),
    "fp16-unscaled": (10.0, 3.0, 2.0, 3.0, 2.0, 3.0),
}
_SYMBOLS = {"fp32": "o", "tf32": "s", "fp16": "t1", "bf16": "d", "default": "+", "fp16-unscaled": "t"}


def _looks(colors: Mapping[str, tuple[str, str, str]]) -> Mapping[str, PrecisionLook]:
    return MappingProxyType(
        {
            precision: PrecisionLook(color, tint, dim, _DASHES[precision], _SYMBOLS[precision])
            for precision, (color, tint, dim) in colors.items()
        }
    )


OWN_COLOURS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "yellow": ("#F0E442", "#7D6600"),
        "lime": ("#A6D854", "#4B7A00"),
        "teal": ("#3FD0C9", "#00747A"),
        "indigo": ("#7C9CFF", "#2F4BC7"),
        "violet": ("#C4A6FF", "#6A35C9"),
        "rose": ("#FF8FA3", "#C2184B"),
        "brown": ("#C49A6C", "#7A4B1E"),
        "grey": ("#A7AEB8", "#4B535E"),
    }
)
"""The colours that a user can give to a run, dark and light."""


def _own(place: int, ground: str) -> Mapping[str, Hue]:
    hues = {name: colors[place] for name, colors in OWN_COLOURS.items()}
    return MappingProxyType(
        {
            name: Hue(color, _mixed(color, ground, 0.14), _mixed(color, ground, 0.38))
            for name, color in hues.items()
        }
    )


def _mixed(color: str, ground: str, share: float) -> str:
    pairs = zip(bytes.fromhex(color[1:]), bytes.fromhex(ground[1:]), strict=True)
    return f"#{bytes(round(low + (high - low) * share) for high, low in pairs).hex().upper()}"


_LIGHT_HEAT = ("#F0F1F6", "#DFE2EC", "#CBD0E0", "#B3BAD1", "#97A1BF", "#7A86A9", "#5C6890", "#424D75")
"""One hue, so that lightness alone orders the values; the highest stands out most from the ground."""

DARK = Palette(
    name="dark",
    bg0="#0D0F12",
    bg1="#14171B",
    bg2="#1B1F25",
    bg3="#2A3038",
    field="#1B1F25",
    selected="#2A3038",
    selected_line="#2A3038",
    line="#22272E",
    line2="#343B45",
    grid="#20252B",
    hatch="#2A3038",
    spared="#2A3038",
    shade="#1D2127",
    unlit="#1F242B",
    text="#E9EBEE",
    text2="#A7AEB8",
    text3="#8A929E",
    off="#5B636E",
    pri="#E9EBEE",
    pri_hover="#FFFFFF",
    pri_pressed="#CDD1D7",
    prifg="#14171B",
    heat=_LIGHT_HEAT[::-1],
    precisions=_looks(
        {
            "fp32": ("#56B4E9", "#1D2D38", "#2D5369"),
            "tf32": ("#009E73", "#112A27", "#0C4A3C"),
            "fp16": ("#E69F00", "#312A17", "#644B11"),
            "bf16": ("#CC79A7", "#2E252F", "#5A3C50"),
            "default": ("#8F6BFF", "#25233B", "#433772"),
            "fp16-unscaled": ("#D55E00", "#2F2117", "#5D3211"),
        }
    ),
    own=_own(0, "#14171B"),
)

LIGHT = Palette(
    name="light",
    bg0="#F1F3F5",
    bg1="#FFFFFF",
    bg2="#F4F5F7",
    bg3="#E3E6EA",
    field="#FFFFFF",
    selected="#FFFFFF",
    selected_line="#C6CCD4",
    line="#E0E4E8",
    line2="#C6CCD4",
    grid="#ECEEF1",
    hatch="#DFE3E8",
    spared="#C6CCD4",
    shade="#F1F3F5",
    unlit="#D9DEE4",
    text="#15181C",
    text2="#4B535E",
    text3="#666E7A",
    off="#A3AAB4",
    pri="#15181C",
    pri_hover="#343B45",
    pri_pressed="#4B535E",
    prifg="#FFFFFF",
    heat=_LIGHT_HEAT,
    precisions=_looks(
        {
            "fp32": ("#0064A6", "#DBE9F3", "#9EC4DD"),
            "tf32": ("#008561", "#DBEEE9", "#9ED1C3"),
            "fp16": ("#BF5700", "#F6E7DB", "#E7BF9E"),
            "bf16": ("#983878", "#F1E3EC", "#D8B3CC"),
            "default": ("#45107A", "#E5DEEC", "#B8A4CC"),
            "fp16-unscaled": ("#9C1200", "#F1DEDB", "#D9A59E"),
        }
    ),
    own=_own(1, "#FFFFFF"),
)
