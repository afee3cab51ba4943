"""A drawing as a list of shapes, which web page, PDF, bitmap and window each paint.

Lengths are in CSS pixels from the top left. An ink names a color of `resources.looks`: a token such as
"text", a precision such as "fp16" or its pale form such as "fp16-dim"; "fp16-low" and "fp16-high" are what
black and white of an image become in the precision's shades. "heat-0" to "heat-7" are the shades of a map,
and "on-heat-0" to "on-heat-7" what is written on them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from engine.drawing.blocks import BlockGrid
from resources.looks import MarkFill, Palette

if TYPE_CHECKING:
    from PIL import ImageFont

_INTER = {400: "Inter-Regular.otf", 500: "Inter-Medium.otf", 600: "Inter-SemiBold.otf", 700: "Inter-Bold.otf"}
_DEJAVU = {400: "DejaVuSans.ttf", 700: "DejaVuSans-Bold.ttf"}
_EMBEDDED = {400: "pdf/Inter-Regular.ttf", 600: "pdf/Inter-SemiBold.ttf"}
_MEASURED_AT = 64


def font_file(weight: int) -> Path:
    """Return the file of Inter in the weight nearest to `weight`, as in CSS."""
    return _font_path(_nearest_weight(_INTER, weight))


def embedded_file(weight: int) -> Path:
    """Return the file of Inter for a PDF, with TrueType outlines and tabular figures."""
    return _font_path(_nearest_weight(_EMBEDDED, weight))


def fallback_file(weight: int) -> Path:
    """Return the file of DejaVu Sans, which has most letters that Inter lacks, and a box for all others."""
    return _font_path(_nearest_weight(_DEJAVU, weight))


def _nearest_weight(names: dict[int, str], weight: int) -> str:
    return names[min(names, key=lambda known: math.fabs(known - weight))]


@lru_cache(maxsize=8)
def _font_path(name: str) -> Path:
    with resources.as_file(resources.files("resources") / "fonts" / name) as file:
        return file


@lru_cache(maxsize=64)
def font_at(file: Path, size: int) -> ImageFont.FreeTypeFont:
    """Return a font at a size in pixels. Inter is drawn letter by letter, other text is shaped, also RTL."""
    from PIL import ImageFont  # imported here, since the window draws markers but no text by these shapes

    layout = ImageFont.Layout.BASIC if file.name in _INTER.values() else None
    return ImageFont.truetype(str(file), size, layout_engine=layout)


# an animation asks for the same few words at every frame
@lru_cache(maxsize=4096)
def font_runs(text: str, weight: int) -> tuple[tuple[str, Path, float], ...]:
    """Return the parts of a text to draw at once, each with its font and its width relative to the font size.

    A letter of Inter is a part by itself. Adjacent letters that Inter lacks form one part.
    """
    own, other = font_file(weight), fallback_file(weight)
    lacking = "".join("x" if _is_lacking(letter, own) else " " if letter == " " else "o" for letter in text)
    split = [(text[slice(*match.span())], match[0][0] == "x") for match in re.finditer("x( *x)*|.", lacking)]
    return tuple(
        (part, file, _relative_width(part, file))
        for part, is_other in split
        for file in (other if is_other else own,)
    )


@lru_cache(maxsize=1024)
def _relative_width(part: str, file: Path) -> float:
    return float(font_at(file, _MEASURED_AT).getlength(part)) / _MEASURED_AT


@lru_cache(maxsize=1024)
def _is_lacking(letter: str, own: Path) -> bool:
    if letter.isascii() or letter.isspace():
        return False
    # Inter draws nothing for a letter that it lacks
    return not font_at(own, _MEASURED_AT).getmask(letter).size[1]


Point = tuple[float, float]
Anchor = Literal["start", "middle", "end"]


@dataclass(frozen=True)
class Stroke:
    """A line through points. `dash` alternates pixels on and off."""

    points: tuple[Point, ...]
    ink: str
    width: float = 1.0
    dash: tuple[float, ...] = ()


@dataclass(frozen=True)
class Fill:
    """A filled polygon. `ink` is its color inside, and `edge` the color of its outline, if it has one."""

    points: tuple[Point, ...]
    ink: str
    edge: str | None = None
    opacity: float = 1.0


@dataclass(frozen=True)
class Box:
    """A filled rectangle."""

    x: float
    y: float
    width: float
    height: float
    ink: str


@dataclass(frozen=True)
class Dot:
    """A filled circle. `ink` is its color inside, and `edge` the color of its outline, if it has one."""

    x: float
    y: float
    radius: float
    ink: str
    edge: str | None = None


@dataclass(frozen=True)
class TextLine:
    """A line of text whose baseline starts, is centered or ends at (x, y). `weight` is as in CSS."""

    x: float
    y: float
    text: str
    ink: str
    size: float
    weight: int = 400
    anchor: Anchor = "start"


Shape = Stroke | Fill | Box | Dot | TextLine | BlockGrid


@dataclass(frozen=True)
class Drawing:
    """A drawing: its size and shapes, independent of the format, and a sentence for screen readers.

    Shapes without a finite position are skipped, and those far outside are cut near the edge, so that every
    output format can draw them.
    """

    width: float
    height: float
    shapes: tuple[Shape, ...]
    description: str = ""

    def __post_init__(self) -> None:
        held = tuple(shape for shape in map(self._without_far_parts, self.shapes) if shape is not None)
        object.__setattr__(self, "shapes", held)

    def _without_far_parts(self, shape: Shape) -> Shape | None:
        if isinstance(shape, BlockGrid):
            return shape
        least, right, down = -_OUTSIDE, self.width + _OUTSIDE, self.height + _OUTSIDE
        if isinstance(shape, Stroke | Fill):
            across, along = zip(*shape.points, strict=True) if shape.points else ((0.0,), (0.0,))
            if not all(map(math.isfinite, (*across, *along))):
                return None
            if min(*across, *along) >= least and max(across) <= right and max(along) <= down:
                return shape
            points = tuple((max(least, min(x, right)), max(least, min(y, down))) for x, y in shape.points)
            return replace(shape, points=points)
        if isinstance(shape, Box):
            if not all(map(math.isfinite, (shape.x, shape.y, shape.width, shape.height))):
                return None
            x, y = max(least, min(shape.x, right)), max(least, min(shape.y, down))
            width, height = shape.x + shape.width - x, shape.y + shape.height - y
            return replace(
                shape, x=x, y=y, width=max(0.0, min(width, right - x)), height=max(0.0, min(height, down - y))
            )
        is_near = least <= shape.x <= right and least <= shape.y <= down
        return shape if is_near else None


_OUTSIDE = 10_000.0


def ink_color(palette: Palette, ink: str) -> str:
    """Return the color of an ink in a theme, as "#RRGGBB"."""
    kind, is_heat, step = ink.partition("heat-")
    if is_heat:
        return palette.on_heat(int(step)) if kind else palette.heat[int(step)]
    form = next((form for form in _FORMS if ink.endswith(form)), "")
    name = ink.removesuffix(form)
    look = palette.precisions.get(name)
    if look is None:
        return str(getattr(palette, ink))
    if form == "-tint":
        return look.tint
    # the strong form of a color is the brighter one in the dark theme, the darker one in the light theme
    is_dim = form == "-dim" or form == ("-low" if palette.is_dark else "-high")
    return look.dim if is_dim else look.color


_FORMS = ("-dim", "-low", "-high", "-tint")


def marker(
    symbol: str, x: float, y: float, size: float, ink: str, fill: MarkFill = "full"
) -> tuple[Shape, ...]:
    """Return the mark of a precision by its name in `resources.looks`, or "x" for a failure.

    A hollow mark is an outline, and a dotted one has a small copy of itself inside.
    """
    inside, edge = (ink, None) if fill == "full" else ("bg1", ink)
    outer = _mark_shape(symbol, x, y, size, inside, edge)
    return (outer, _mark_shape(symbol, x, y, DOT * size, ink, None)) if fill == "dotted" else (outer,)


def _mark_shape(symbol: str, x: float, y: float, size: float, ink: str, edge: str | None) -> Shape:
    if symbol == "o":
        return Dot(x, y, size / 2, ink, edge)
    return Fill(tuple((x + across, y + down) for across, down in mark_outline(symbol, size)), ink, edge)


def mark_outline(symbol: str, size: float) -> tuple[Point, ...]:
    """Return the corners of a mark other than the circle, about the origin."""
    return tuple((across * size, down * size) for across, down in _OUTLINES[symbol])


DOT = 0.45  # the size of the dot in a dotted mark, in sizes of the mark
_OUTLINES: dict[str, tuple[Point, ...]] = {
    "s": ((-0.45, -0.45), (0.45, -0.45), (0.45, 0.45), (-0.45, 0.45)),
    "t1": ((0.0, -0.55), (0.55, 0.45), (-0.55, 0.45)),
    "t": ((0.0, 0.55), (0.55, -0.45), (-0.55, -0.45)),
    "t2": ((0.55, 0.0), (-0.45, 0.55), (-0.45, -0.55)),
    "d": ((0.0, -0.6), (0.5, 0.0), (0.0, 0.6), (-0.5, 0.0)),
    "h": ((0.0, -0.58), (0.5, -0.29), (0.5, 0.29), (0.0, 0.58), (-0.5, 0.29), (-0.5, -0.29)),
    "x": tuple(
        (a / 16, b / 16)
        for a, b in (
            *((-3, -5.4), (0, -2.4), (3, -5.4), (5.4, -3), (2.4, 0), (5.4, 3)),
            *((3, 5.4), (0, 2.4), (-3, 5.4), (-5.4, 3), (-2.4, 0), (-5.4, -3)),
        )
    ),
    "+": tuple(
        (a / 6, b / 6)
        for a, b in (
            *((-1, -3), (1, -3), (1, -1), (3, -1), (3, 1), (1, 1)),
            *((1, 3), (-1, 3), (-1, 1), (-3, 1), (-3, -1), (-1, -1)),
        )
    ),
}


def shifted(shapes: Iterable[Shape], right: float, down: float) -> tuple[Shape, ...]:
    """Return the shapes, shifted by these distances."""
    return tuple(
        replace(shape, points=tuple((x + right, y + down) for x, y in shape.points))
        if isinstance(shape, Stroke | Fill)
        else replace(shape, x=shape.x + right, y=shape.y + down)
        for shape in shapes
    )


def rounded(
    x: float, y: float, width: float, height: float, radius: float, ink: str, edge: str | None = None
) -> Fill:
    """Return a filled rectangle with round corners."""
    radius = min(radius, width / 2, height / 2)
    corners = (
        (x + width - radius, y + radius, -90),
        (x + width - radius, y + height - radius, 0),
        (x + radius, y + height - radius, 90),
        (x + radius, y + radius, 180),
    )
    turns = [18 * part for part in range(6)]
    points = tuple(
        (across + radius * math.cos(angle), down + radius * math.sin(angle))
        for across, down, start in corners
        for angle in (math.radians(start + turn) for turn in turns)
    )
    return Fill(points, ink, edge)


def hatching(
    outline: Sequence[Point], begin: Point, ink: str, pitch: float, width: float = 1.0, *, rises: bool = True
) -> list[Stroke]:
    """Return lines at 45 degrees across a convex outline. One passes through `begin`, however it grows."""
    if not rises:
        mirrored = hatching([(-x, y) for x, y in outline], (-begin[0], begin[1]), ink, pitch, width)
        return [replace(line, points=tuple((-x, y) for x, y in line.points)) for line in mirrored]
    sums = [x + y for x, y in outline] or [0.0]
    first = math.ceil((min(sums) - sum(begin)) / pitch)
    totals = [
        sum(begin) + number * pitch
        for number in range(first, first + 1 + int((max(sums) - min(sums)) / pitch))
    ]
    ends: dict[float, list[Point]] = {total: [] for total in totals}
    for (x, y), (next_x, next_y) in pairwise([*outline, *outline[:1]]):
        run = next_x + next_y - x - y
        for total in totals:
            part = (total - x - y) / run if run else -1.0
            if 0 <= part <= 1:
                ends[total].append((x + part * (next_x - x), y + part * (next_y - y)))
    lines = ((min(points), max(points)) for points in ends.values() if len(points) > 1)
    return [Stroke(line, ink, width) for line in lines]


CAPITAL = 0.73  # how high capitals are, in sizes of type


Measure = Callable[[str, float, int], float]  # the width of a text in pixels, by its size and weight


def text_width(text: str, size: float, weight: int = 400) -> float:
    """Return the width of the text in the program's fonts, in pixels."""
    return size * sum(width for _part, _file, width in font_runs(text, weight))


def shortened(
    text: str, room: float, size: float, weight: int = 400, *, width_of: Measure = text_width
) -> str:
    """Return the text, cut with an ellipsis if it is wider than `room` pixels."""
    if width_of(text, size, weight) <= room:
        return text
    return next(
        (
            f"{text[:length].rstrip()}…"
            for length in range(len(text) - 1, 0, -1)
            if width_of(f"{text[:length]}…", size, weight) <= room
        ),
        "…",
    )


def wrapped(
    text: str, room: float, size: float, weight: int = 400, most: int = 2, *, width_of: Measure = text_width
) -> tuple[str, ...]:
    """Return the text in at most `most` lines no wider than `room` pixels, with an ellipsis if cut."""
    lines = [""]
    words = text.split()
    for place, word in enumerate(words):
        longer = f"{lines[-1]} {word}".strip()
        if not lines[-1] or width_of(longer, size, weight) <= room:
            lines[-1] = longer
        elif len(lines) == most:
            lines[-1] = " ".join([lines[-1], *words[place:]])
            break
        else:
            lines.append(word)
    return tuple(shortened(line, room, size, weight, width_of=width_of) for line in lines)


def wrapped_evenly(text: str, room: float, size: float, most: int = 2) -> tuple[str, ...]:
    """Return the text in as few lines of about equal length, without a single word on the last."""
    lines = wrapped(text, room, size, most=most)
    for part in range(_PARTS - 1, 3 * _PARTS // 4, -1):
        narrower = wrapped(text, room * part / _PARTS, size, most=most)
        if len(narrower) > len(lines) or narrower[-1].endswith("…"):
            break
        lines = narrower
    return lines


_PARTS = 40
