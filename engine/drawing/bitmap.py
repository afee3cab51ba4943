"""Drawings as bitmaps: PNG files by matplotlib's Agg, and frames of an animation by Pillow.

A PNG has two pixels for each of the drawing's, for sharp screens. Pillow is quick enough to draw every frame.
"""

from __future__ import annotations

import math
import warnings
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.artist import Artist
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, fontManager, get_font
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Patch, Polygon, Rectangle
from matplotlib.text import Text
from matplotlib.transforms import Affine2D, Transform
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont, ImageOps
from PIL.PngImagePlugin import PngInfo

from engine.drawing.blocks import UNLIT, Blocks
from engine.drawing.shapes import (
    Anchor,
    Box,
    Dot,
    Drawing,
    Fill,
    Point,
    Shape,
    Stroke,
    Words,
    colour,
    font_file,
    text_width,
)
from engine.experiment.text import printable
from engine.protocol.pictures import shades
from resources.looks import Palette

SCALE = 2
_PX_PER_INCH = 96.0
_POINT = 72.0 / _PX_PER_INCH


def write_bitmap(drawing: Drawing, palette: Palette, path: Path, facts: dict[str, str]) -> None:
    """Writes a PNG on the palette's panel colour; `facts` go into it as text."""
    size = (drawing.width / _PX_PER_INCH, drawing.height / _PX_PER_INCH)
    figure = Figure(figsize=size, dpi=SCALE * _PX_PER_INCH, facecolor=palette.bg1)
    # matplotlib says nothing of the types here
    canvas: Any = FigureCanvasAgg(figure)
    pixels = Affine2D().scale(1 / _PX_PER_INCH, -1 / _PX_PER_INCH).translate(0, size[1])
    for order, shape in enumerate(drawing.shapes):
        artist = _artist(shape, palette, pixels + figure.dpi_scale_trans)
        artist.set_zorder(order)
        figure.add_artist(artist)
    with warnings.catch_warnings():
        # a name may hold letters that no font here has: they are drawn as boxes
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        canvas.draw()
    _save(Image.fromarray(np.asarray(canvas.buffer_rgba())), path, facts)


def _save(image: Image.Image, path: Path, facts: dict[str, str]) -> None:
    told = PngInfo()
    for name, text in facts.items():
        told.add_itxt(name, text)
    density = round(SCALE * _PX_PER_INCH)
    image.convert("RGB").save(path, format="png", pnginfo=told, dpi=(density, density))


def _artist(shape: Shape, palette: Palette, place: Transform) -> Artist:
    if isinstance(shape, Stroke):
        return _line(shape, palette, place)
    if isinstance(shape, Words):
        return _text(shape, palette, place)
    if isinstance(shape, Box):
        corner, ink = (shape.x, shape.y), colour(palette, shape.ink)
        return Rectangle(corner, shape.width, shape.height, facecolor=ink, linewidth=0, transform=place)
    return _filled(shape, palette, place)


def _line(shape: Stroke, palette: Palette, place: Transform) -> Line2D:
    across, down = zip(*shape.points, strict=True)
    width, ink = shape.width * _POINT, colour(palette, shape.ink)
    line = Line2D(across, down, color=ink, linewidth=width, transform=place, solid_capstyle="butt")
    if shape.dash:
        # matplotlib counts them in line widths
        line.set_dashes([length / shape.width for length in shape.dash])
    return line


def _filled(shape: Fill | Dot, palette: Palette, place: Transform) -> Patch:
    ink = colour(palette, shape.ink)
    edge = "none" if shape.edge is None else colour(palette, shape.edge)
    width = 0.0 if shape.edge is None else 1.5 * _POINT
    patch: Patch
    if isinstance(shape, Dot):
        patch = Circle((shape.x, shape.y), shape.radius)
    else:
        patch = Polygon(shape.points)
        patch.set_alpha(shape.opacity if shape.opacity < 1 else None)
    patch.set(facecolor=ink, edgecolor=edge, linewidth=width, transform=place)
    return patch


def _text(shape: Words, palette: Palette, place: Transform) -> Text:
    text = Text(
        shape.x,
        shape.y,
        shape.text,
        color=colour(palette, shape.ink),
        fontproperties=_font_properties(shape.text, shape.weight),
        fontsize=shape.size * _POINT,
        horizontalalignment=_ALIGNED[shape.anchor],
        verticalalignment="baseline",
        # a dollar sign in a name begins no formula
        parse_math=False,
    )
    text.set_transform(place)
    return text


_ALIGNED: dict[Anchor, Literal["left", "center", "right"]] = {
    "start": "left",
    "middle": "center",
    "end": "right",
}


def _font_properties(text: str, weight: int) -> FontProperties:
    """The program's own font; beside it the one that matplotlib brings, for letters that ours lacks."""
    file = _file(weight)
    if all(ord(letter) in get_font(file).get_charmap() for letter in text):
        return FontProperties(fname=file)
    # the other font is there in these two weights
    both = 400 if weight < 600 else 700
    fontManager.addfont(_file(both))
    return FontProperties(family=[get_font(_file(both)).family_name, "DejaVu Sans"], weight=both)


@lru_cache(maxsize=8)
def _file(weight: int) -> str:
    with resources.as_file(resources.files("resources") / "fonts" / font_file(weight)) as file:
        return str(file)


_FINER = 4
"""Shapes are drawn so many times as large, for smooth edges."""

_EDGE = 1.5
_BEFORE: dict[Anchor, float] = {"start": 0.0, "middle": 0.5, "end": 1.0}
"""How much of a text is before its place."""


class Painter:
    """A bitmap of `scale` pixels for each of a drawing's."""

    def __init__(self, image: Image.Image, palette: Palette, scale: float) -> None:
        self.image, self._palette, self._scale = image, palette, scale

    @classmethod
    def blank(cls, drawing: Drawing, ground: str, palette: Palette, scale: float) -> Painter:
        """A painter on a ground of that ink, as large as the drawing."""
        size = (round(drawing.width * scale), round(drawing.height * scale))
        return cls(Image.new("RGB", size, colour(palette, ground)), palette, scale)

    def copy(self) -> Painter:
        """Another on a copy of the bitmap."""
        return Painter(self.image.copy(), self._palette, self._scale)

    def paint(self, drawing: Drawing) -> None:
        """Puts the drawing's shapes on the bitmap, the first of them undermost."""
        for shape in drawing.shapes:
            self._paint(shape)

    def paint_blocks(self, blocks: Blocks, first: int = 0, last: int | None = None) -> None:
        """Puts the blocks from number `first` to before `last` on the bitmap, lit or not."""
        sides = blocks.grid.block_width, blocks.grid.block_height
        width, height = (max(1, round(side * self._scale)) for side in sides)
        mask = _rounded_mask(width, height, max(1, round(blocks.radius * self._scale)))
        unlit = Image.new("RGB", (width, height), colour(self._palette, UNLIT))
        ends = (colour(self._palette, f"{blocks.ink}-{end}") for end in ("low", "high"))
        table = shades(*ends)
        for number in range(first, blocks.grid.count if last is None else last):
            x, y = blocks.corner(number)
            place = (round(x * self._scale), round(y * self._scale))
            is_lit = number < blocks.lit
            picture = _tinted(blocks.tile(number), table, (width, height)) if is_lit else unlit
            self.image.paste(picture, place, mask)

    def _paint(self, shape: Shape) -> None:
        ink = colour(self._palette, shape.ink)
        if isinstance(shape, Words):
            self._write(shape, ink)
        elif isinstance(shape, Box):
            left, top = shape.x * self._scale, shape.y * self._scale
            edges = (left, top, left + shape.width * self._scale, top + shape.height * self._scale)
            box = tuple(round(edge) for edge in edges)
            if box[2] > box[0] and box[3] > box[1]:
                self.image.paste(ink, (box[0], box[1], box[2], box[3]))
        elif isinstance(shape, Stroke):
            for piece in _dashes(shape):
                self._area(_thick(piece, shape.width), ink)
        else:
            self._fill(shape, ink)

    def _write(self, words: Words, ink: str) -> None:
        font = _font(words.weight, max(1, round(words.size * self._scale)))
        text = printable(words.text)
        share = _BEFORE[words.anchor]
        begin = words.x - (share * text_width(text, words.size, words.weight) if share else 0.0)
        draw = ImageDraw.Draw(self.image)
        # by itself each letter would take whole pixels, and a long line grow out of its room
        for letter, before in zip(text, _begins(text, words.weight), strict=True):
            if letter != " ":
                place = ((begin + before * words.size) * self._scale, words.y * self._scale)
                draw.text(place, letter, fill=ink, font=font, anchor="ls")

    def _fill(self, shape: Fill | Dot, ink: str) -> None:
        outline = _circle(shape) if isinstance(shape, Dot) else shape.points
        if shape.edge is not None:
            self._area(_moved_out(outline, _EDGE / 2), colour(self._palette, shape.edge))
            outline = _moved_out(outline, -_EDGE / 2)
        self._area(outline, ink)

    def _area(self, points: tuple[Point, ...], ink: str) -> None:
        """Fills a polygon with smooth edges."""
        across = [x * self._scale for x, _ in points]
        down = [y * self._scale for _, y in points]
        left, top = math.floor(min(across)), math.floor(min(down))
        width, height = math.ceil(max(across)) - left + 1, math.ceil(max(down)) - top + 1
        mask = Image.new("L", (width * _FINER, height * _FINER))
        fine = [((x - left) * _FINER, (y - top) * _FINER) for x, y in zip(across, down, strict=True)]
        ImageDraw.Draw(mask).polygon(fine, fill=255)
        self.image.paste(ink, (left, top), mask.reduce(_FINER))


def _moved_out(points: tuple[Point, ...], by: float) -> tuple[Point, ...]:
    """The outline grown from its middle: exact for circles, and near enough for what is drawn here."""
    xs, ys = [x for x, _ in points], [y for _, y in points]
    middle_x, middle_y = (min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2
    half_width, half_height = (max(xs) - min(xs)) / 2, (max(ys) - min(ys)) / 2
    wider = 1 + by / half_width if half_width > abs(by) else 1.0
    higher = 1 + by / half_height if half_height > abs(by) else 1.0
    return tuple((middle_x + (x - middle_x) * wider, middle_y + (y - middle_y) * higher) for x, y in points)


def _circle(dot: Dot) -> tuple[Point, ...]:
    turns = [2 * math.pi * part / 48 for part in range(48)]
    return tuple((dot.x + dot.radius * math.cos(one), dot.y + dot.radius * math.sin(one)) for one in turns)


def _dashes(stroke: Stroke) -> list[tuple[Point, Point]]:
    """The straight pieces of a line, cut into its dashes."""
    pieces = list(zip(stroke.points, stroke.points[1:], strict=False))
    if not stroke.dash:
        return pieces
    on, period = stroke.dash[0], sum(stroke.dash)
    cut = []
    for start, end in pieces:
        length = math.dist(start, end)
        for number in range(math.ceil(length / period)):
            begins, ends = number * period, min(length, number * period + on)
            cut.append((_along(start, end, begins / length), _along(start, end, ends / length)))
    return cut


def _along(start: Point, end: Point, part: float) -> Point:
    return start[0] + part * (end[0] - start[0]), start[1] + part * (end[1] - start[1])


def _thick(piece: tuple[Point, Point], width: float) -> tuple[Point, ...]:
    (x, y), (end_x, end_y) = piece
    length = math.dist(*piece) or 1.0
    over, down = -(end_y - y) / length * width / 2, (end_x - x) / length * width / 2
    return (
        (x + over, y + down),
        (end_x + over, end_y + down),
        (end_x - over, end_y - down),
        (x - over, y - down),
    )


@lru_cache(maxsize=256)
def _begins(text: str, weight: int) -> tuple[float, ...]:
    """Where each letter begins, in sizes of type."""
    return tuple(text_width(text[:count], 1.0, weight) for count in range(len(text)))


def _tinted(tile: NDArray[np.uint8], table: NDArray[np.uint8], size: tuple[int, int]) -> Image.Image:
    grey = Image.fromarray(tile)
    if grey.size != size:
        # a smaller picture of a larger one keeps its edges; of a smaller one it is smooth
        grey = ImageOps.fit(grey, size, Image.Resampling.LANCZOS)
    return Image.fromarray(table[np.asarray(grey)])


@lru_cache(maxsize=16)
def _rounded_mask(width: int, height: int, radius: int) -> Image.Image:
    mask = Image.new("L", (width * _FINER, height * _FINER))
    edges = (0, 0, width * _FINER - 1, height * _FINER - 1)
    ImageDraw.Draw(mask).rounded_rectangle(edges, radius * _FINER, fill=255)
    return mask.reduce(_FINER)


@lru_cache(maxsize=64)
def _font(weight: int, size: int) -> ImageFont.FreeTypeFont:
    with resources.as_file(resources.files("resources") / "fonts" / font_file(weight)) as file:
        return ImageFont.truetype(str(file), size, layout_engine=ImageFont.Layout.BASIC)
