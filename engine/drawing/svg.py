"""A drawing as SVG, for a file or within a page."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping
from dataclasses import replace
from xml.sax.saxutils import escape, quoteattr

from engine.drawing.blocks import RADIUS, BlockGrid
from engine.drawing.shapes import (
    Box,
    Dot,
    Drawing,
    Fill,
    Point,
    Shape,
    Stroke,
    TextLine,
    ink_color,
    text_width,
)
from engine.experiment.value import printable
from resources.looks import Palette

FAMILY = "Inter, 'Noto Sans', 'DejaVu Sans', system-ui, sans-serif"


def svg(
    drawing: Drawing,
    css: Callable[[str], str],
    attributes: Mapping[str, str] | None = None,
    metadata: str = "",
    *,
    keeps_widths: bool = False,
) -> str:
    """Return the SVG element. `css` turns an ink into a CSS color.

    With `keeps_widths` text is as wide as in the program's font, whatever font the reader has.
    """
    more = "".join(f" {name}={quoteattr(value)}" for name, value in (attributes or {}).items())
    head = f"<metadata>{escape(printable(metadata))}</metadata>\n" if metadata else ""
    elements = [_shape_element(shape, css, keeps_widths) for shape in drawing.shapes]
    body = head + "\n".join(elements)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_n(drawing.width)} {_n(drawing.height)}"'
        f' role="img" aria-label={quoteattr(printable(drawing.description))} font-family="{FAMILY}"{more}>\n'
        f"{body}\n</svg>"
    )


def svg_file(
    drawing: Drawing,
    palette: Palette,
    metadata: str,
    ground: str = "bg1",
    *,
    keeps_widths: bool = False,
) -> str:
    """Return a drawing as the text of an SVG file.

    The background is the palette's color `ground`. `metadata` is embedded, and With `keeps_widths`, text
    keeps the width that it has in the program's font.
    """

    def css(ink: str) -> str:
        return ink_color(palette, ink)

    size = {"width": f"{drawing.width:.0f}", "height": f"{drawing.height:.0f}"}
    attributes = {"style": f"background: {css(ground)}", **size}
    text = svg(drawing, css, attributes, metadata, keeps_widths=keeps_widths)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _shape_element(shape: Shape, css: Callable[[str], str], keeps_widths: bool) -> str:
    if isinstance(shape, BlockGrid):
        return _blocks(shape, css)
    ink = css(shape.ink)
    if isinstance(shape, Stroke):
        dash = f' stroke-dasharray="{" ".join(map(_n, shape.dash))}"' if shape.dash else ""
        return (
            f'<path d="{_svg_path(shape.points)}" fill="none" stroke="{ink}" stroke-width="{_n(shape.width)}"'
            f' stroke-linejoin="round"{dash}/>'
        )
    if isinstance(shape, Fill):
        pale = "" if shape.opacity == 1 else f' fill-opacity="{shape.opacity:g}"'
        return f'<path d="{_svg_path(shape.points)}Z" fill="{ink}"{pale}{_edge(shape.edge, css)}/>'
    if isinstance(shape, Box):
        size = f'width="{_n(shape.width)}" height="{_n(shape.height)}"'
        return f'<rect x="{_n(shape.x)}" y="{_n(shape.y)}" {size} fill="{ink}"/>'
    if isinstance(shape, Dot):
        circle = f'cx="{_n(shape.x)}" cy="{_n(shape.y)}" r="{_n(shape.radius)}"'
        return f'<circle {circle} fill="{ink}"{_edge(shape.edge, css)}/>'
    return _text_element(shape, ink, keeps_widths)


def _text_element(words: TextLine, ink: str, keeps_widths: bool) -> str:
    anchor = "" if words.anchor == "start" else f' text-anchor="{words.anchor}"'
    weight = "" if words.weight == 400 else f' font-weight="{words.weight}"'
    text = escape(printable(words.text))
    if keeps_widths:
        width = text_width(words.text, words.size, words.weight)
        anchor += f' textLength="{_n(width)}" lengthAdjust="spacingAndGlyphs"'
    return (
        f'<text x="{_n(words.x)}" y="{_n(words.y)}" fill="{ink}" font-size="{_n(words.size)}"'
        f"{weight}{anchor}>{text}</text>"
    )


def _blocks(blocks: BlockGrid, css: Callable[[str], str]) -> str:
    # the images are a gray mask, so that the theme of a page colors them
    lit = int(blocks.lit)
    shown = f'<path d="{_squares(blocks, lit, blocks.count)}" fill="{css(blocks.unlit)}"/>'
    if not lit:
        return shown
    width, height = blocks.size
    name = f"blocks-{_n(blocks.x)}-{_n(blocks.y)}"
    place = f'x="{_n(blocks.x)}" y="{_n(blocks.y)}" width="{_n(width)}" height="{_n(height)}"'
    image = base64.b64encode(_mosaic(blocks, lit)).decode()
    squares = _squares(blocks, 0, lit)
    return (
        f'{shown}<mask id="{name}" maskUnits="userSpaceOnUse" {place}><image {place}'
        f' preserveAspectRatio="none" href="data:image/jpeg;base64,{image}"/></mask>'
        f'<path d="{squares}" fill="{css(f"{blocks.ink}-low")}"/>'
        f'<path d="{squares}" fill="{css(f"{blocks.ink}-high")}" mask="url(#{name})"/>'
    )


def _squares(blocks: BlockGrid, first: int, last: int) -> str:
    radius = RADIUS * min(blocks.width, blocks.height)
    across, down, r = (
        _n(length) for length in (blocks.width - 2 * radius, blocks.height - 2 * radius, radius)
    )
    turns = ((f"{r} {r}", f"v{down}"), (f"-{r} {r}", f"h-{across}"), (f"-{r} -{r}", f"v-{down}"))
    outline = f"h{across}" + "".join(f"a{r} {r} 0 0 1 {corner}{line}" for corner, line in turns)
    outline += f"a{r} {r} 0 0 1 {r} -{r}z"
    places = (blocks.corner(number) for number in range(first, last))
    return "".join(f"M{_n(x + radius)} {_n(y)}{outline}" for x, y in places)


_FINER, _QUALITY = 1.5, 78  # pixels of the images per pixel of the drawing, and JPEG's quality


def _mosaic(blocks: BlockGrid, lit: int) -> bytes:
    from PIL import Image, ImageOps

    width, height = (round(_FINER * length) for length in blocks.size)
    mosaic = Image.new("L", (width, height))
    at_corner = replace(blocks, x=0.0, y=0.0)
    for number in range(lit):
        left, top, *size = at_corner.rect(number, _FINER)
        tile = Image.fromarray(blocks.tiles.of_block(number))
        mosaic.paste(ImageOps.fit(tile, (size[0] + 1, size[1] + 1), Image.Resampling.BILINEAR), (left, top))
    packed = io.BytesIO()
    mosaic.save(packed, "JPEG", quality=_QUALITY, optimize=True)
    return packed.getvalue()


def _edge(ink: str | None, css: Callable[[str], str]) -> str:
    return "" if ink is None else f' stroke="{css(ink)}" stroke-width="1.5"'


def _svg_path(points: tuple[Point, ...]) -> str:
    return "M" + "L".join(f"{_n(x)} {_n(y)}" for x, y in points)


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
