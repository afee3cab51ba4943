"""Drawings as bitmaps, painted by Pillow: PNG files, and frames of an animation.

A PNG has twice the drawing's pixels each way, for sharp screens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import groupby, pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont, ImageOps
from PIL.PngImagePlugin import PngInfo

from engine.drawing.blocks import RADIUS, BlockGrid
from engine.drawing.shapes import (
    Anchor,
    Box,
    Dot,
    Drawing,
    Point,
    Shape,
    Stroke,
    TextLine,
    font_at,
    font_runs,
    ink_color,
    text_width,
)
from engine.experiment.value import printable
from engine.protocol.pictures import shades
from resources.looks import Palette

SCALE = 2
_DOTS_PER_INCH = 96 * SCALE


def write_bitmap(drawing: Drawing, palette: Palette, path: Path, facts: dict[str, str]) -> None:
    """Write a PNG on the palette's panel color, with `facts` as text fields."""
    painter = Painter.blank(drawing, "bg1", palette, SCALE)
    painter.paint(drawing)
    painter.save(path, facts)


_FINER = 4  # shapes are drawn this many times as large, for smooth edges
_EDGE = 1.5
_CIRCLE = tuple((math.cos(turn), math.sin(turn)) for turn in (2 * math.pi * part / 48 for part in range(48)))
_BEFORE: dict[Anchor, float] = {"start": 0.0, "middle": 0.5, "end": 1.0}
"""The fraction of a text's width that is left of its position."""


class Painter:
    """Paints drawings on a bitmap, at `scale` bitmap pixels per pixel of the drawing."""

    def __init__(self, image: Image.Image, palette: Palette, scale: float) -> None:
        self.image, self._palette, self._scale = image, palette, scale

    @classmethod
    def blank(cls, drawing: Drawing, ground: str, palette: Palette, scale: float) -> Painter:
        """Return a painter on a bitmap of that ink, as large as the drawing."""
        size = (round(drawing.width * scale), round(drawing.height * scale))
        return cls(Image.new("RGB", size, ink_color(palette, ground)), palette, scale)

    def copy(self) -> Painter:
        """Return a painter on a copy of the bitmap."""
        return Painter(self.image.copy(), self._palette, self._scale)

    def save(self, path: Path, facts: dict[str, str]) -> None:
        """Write a PNG with `facts` as text fields."""
        info = PngInfo()
        for name, text in facts.items():
            info.add_itxt(name, text)
        self.image.save(path, format="png", pnginfo=info, dpi=(_DOTS_PER_INCH, _DOTS_PER_INCH))

    def paint(self, drawing: Drawing) -> None:
        """Paint the drawing's shapes, the first at the bottom."""
        for style, alike in groupby(drawing.shapes, _style):
            if style is None:
                for shape in alike:
                    self._paint(shape)
            else:
                lines = [shape for shape in alike if isinstance(shape, Stroke)]
                self._lines(
                    [piece for line in lines for piece in _dashes(line)],
                    ink_color(self._palette, lines[0].ink),
                    lines[0].width,
                )

    def paint_blocks(self, blocks: BlockGrid) -> None:
        """Paint all blocks, lit or not."""
        unlit = ink_color(self._palette, blocks.unlit)
        table = shades(*(ink_color(self._palette, f"{blocks.ink}-{end}") for end in ("low", "high")))
        lit = int(blocks.lit)
        for number in range(blocks.count):
            left, top, width, height = blocks.rect(number, self._scale)
            if number >= lit:
                self.image.paste(unlit, (left, top), _rounded_mask(width, height))
                continue
            rim = 0
            if blocks.fill != "full":
                rim = max(round(min(width, height) * _RIM), 1)
                self.image.paste(
                    ink_color(self._palette, blocks.ink), (left, top), _rounded_mask(width, height)
                )
            size = max(width - 2 * rim, 1), max(height - 2 * rim, 1)
            tile = _tinted(blocks.tiles.of_block(number), table, size)
            self.image.paste(tile, (left + rim, top + rim), _rounded_mask(*size))

    def _paint(self, shape: Shape) -> None:
        if isinstance(shape, BlockGrid):
            self.paint_blocks(shape)
            return
        ink = ink_color(self._palette, shape.ink)
        if isinstance(shape, TextLine):
            self._paint_text(shape, ink)
        elif isinstance(shape, Box):
            left, top = shape.x * self._scale, shape.y * self._scale
            edges = (left, top, left + shape.width * self._scale, top + shape.height * self._scale)
            box = tuple(round(edge) for edge in edges)
            if box[2] > box[0] and box[3] > box[1]:
                self.image.paste(ink, (box[0], box[1], box[2], box[3]))
        elif not isinstance(shape, Stroke):
            opacity = 1.0
            if isinstance(shape, Dot):
                x, y, radius = shape.x, shape.y, shape.radius
                outline = tuple((x + radius * across, y + radius * down) for across, down in _CIRCLE)
            else:
                outline, opacity = shape.points, shape.opacity
            self._paint_area(outline, ink, opacity)
            if shape.edge is not None:
                # round and one side further, so that the first corner is joined like the others
                self._lines([(*outline, *outline[:2])], ink_color(self._palette, shape.edge), _EDGE)

    def _paint_text(self, words: TextLine, ink: str) -> None:
        text = printable(words.text)
        share = _BEFORE[words.anchor]
        x = words.x - (share * text_width(text, words.size, words.weight) if share else 0.0)
        draw, size = ImageDraw.Draw(self.image), max(1, round(words.size * self._scale))
        # drawn at once, letters would take whole pixels, and a long line would outgrow its room
        for part, file, width in font_runs(text, words.weight):
            if not part.isspace():
                place, font = (x * self._scale, words.y * self._scale), font_at(file, size)
                # otherwise right-to-left words would reverse what is between them
                direction = "ltr" if font.layout_engine == ImageFont.Layout.RAQM else None
                draw.text(place, part, fill=ink, font=font, anchor="ls", direction=direction)
            x += width * words.size

    def _paint_area(self, points: Sequence[Point], ink: str, opacity: float = 1.0) -> None:
        stencil = _Stencil(points, 0.0, self._scale, self.image.size)
        stencil.draw.polygon(stencil.places(points), fill=round(255 * opacity))
        self.image.paste(ink, stencil.corner, stencil.mask())

    def _lines(self, lines: Sequence[Sequence[Point]], ink: str, width: float) -> None:
        stencil = _Stencil(
            [point for line in lines for point in line], width / 2, self._scale, self.image.size
        )
        thick = max(1, round(width * self._scale * _FINER))
        for line in lines:
            # Pillow draws lines a pixel too far to the right and down
            places = [(x - 1, y - 1) for x, y in stencil.places(line)]
            stencil.draw.line(places, fill=255, width=thick, joint="curve")
        self.image.paste(ink, stencil.corner, stencil.mask())


def _style(shape: Shape) -> tuple[str, float] | None:
    # a stencil as large as the picture for each of a thousand lines would take seconds
    return (shape.ink, shape.width) if isinstance(shape, Stroke) else None


class _Stencil:
    """A mask of a shape that extends `around` beyond its points, supersampled for smooth edges.

    It is never larger than the image, however far outside the points are.
    """

    def __init__(
        self, points: Sequence[Point], around: float, scale: float, picture: tuple[int, int]
    ) -> None:
        across, down = zip(*points, strict=True)
        self._fine = scale * _FINER
        first = math.floor((min(across) - around) * scale), math.floor((min(down) - around) * scale)
        last = math.ceil((max(across) + around) * scale), math.ceil((max(down) + around) * scale)
        self.corner = max(0, first[0]), max(0, first[1])
        ends = (min(end, edge) for end, edge in zip(last, picture, strict=True))
        size = [max(1, end - begin + 1) * _FINER for begin, end in zip(self.corner, ends, strict=True)]
        self._large = Image.new("L", (size[0], size[1]))
        self.draw = ImageDraw.Draw(self._large)

    def places(self, points: Sequence[Point]) -> list[tuple[int, int]]:
        left, top = (edge * _FINER for edge in self.corner)
        return [(round(x * self._fine - left), round(y * self._fine - top)) for x, y in points]

    def mask(self) -> Image.Image:
        return self._large.reduce(_FINER)


def _dashes(stroke: Stroke) -> list[list[Point]]:
    if not stroke.dash:
        return [list(stroke.points)]
    dashes: list[list[Point]] = []
    number, rest, piece = 0, stroke.dash[0], [stroke.points[0]]
    for start, end in pairwise(stroke.points):
        length, done = math.dist(start, end), 0.0
        while done + rest < length:
            done += rest
            part = done / length
            piece.append((start[0] + part * (end[0] - start[0]), start[1] + part * (end[1] - start[1])))
            dashes.append(piece)
            number += 1
            rest, piece = stroke.dash[number % len(stroke.dash)], [piece[-1]]
        rest -= length - done
        piece.append(end)
    return [*dashes, piece][::2]


def blocks_bitmap(
    blocks: BlockGrid, palette: Palette, scale: float, ground: str | None = None
) -> Image.Image:
    """Return the blocks alone, on the ink `ground`, or transparent (RGBA, colors multiplied by alpha)."""
    width, height = (math.ceil(length * scale) + 1 for length in blocks.size)
    at_corner = replace(blocks, x=0.0, y=0.0)
    image = Image.new("RGB", (width, height), "black" if ground is None else ink_color(palette, ground))
    Painter(image, palette, scale).paint_blocks(at_corner)
    if ground is None:
        alpha = Image.new("L", image.size)
        for left, top, *size in (at_corner.rect(number, scale) for number in range(blocks.count)):
            alpha.paste(255, (left, top), _rounded_mask(size[0], size[1]))
        image.putalpha(alpha)
    return image


def _tinted(tile: NDArray[np.uint8], table: NDArray[np.uint8], size: tuple[int, int]) -> Image.Image:
    grey = Image.fromarray(tile)
    if grey.size != size:
        # Lanczos keeps edges when it shrinks, and is smooth when it enlarges
        grey = ImageOps.fit(grey, size, Image.Resampling.LANCZOS)
    return Image.fromarray(table[np.asarray(grey)])


_RIM = 1 / 12  # the width of a rim, as a fraction of a block's shorter side


@lru_cache(maxsize=16)
def _rounded_mask(width: int, height: int) -> Image.Image:
    mask = Image.new("L", (width * _FINER, height * _FINER))
    edges = (0, 0, width * _FINER - 1, height * _FINER - 1)
    radius = max(1, round(min(width, height) * RADIUS)) * _FINER
    ImageDraw.Draw(mask).rounded_rectangle(edges, radius, fill=255)
    return mask.reduce(_FINER)
