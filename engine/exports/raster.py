"""A drawing as a bitmap, by matplotlib's Agg: two pixels for each of the drawing's, for sharp screens."""

from __future__ import annotations

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
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from engine.exports.drawing import Anchor, Box, Dot, Drawing, Fill, Shape, Stroke, Words, colour, font_file
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
        fontproperties=_font(shape.text, shape.weight),
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


def _font(text: str, weight: int) -> FontProperties:
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
