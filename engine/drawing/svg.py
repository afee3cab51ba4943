"""A drawing as SVG, for a file or within a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from xml.sax.saxutils import escape, quoteattr

from engine.drawing.shapes import Box, Dot, Drawing, Fill, Point, Shape, Stroke, Words, ink_color, text_width
from engine.experiment.value import printable
from resources.looks import Palette

FAMILY = "Inter, 'Noto Sans', 'DejaVu Sans', system-ui, sans-serif"


def svg(
    drawing: Drawing,
    css: Callable[[str], str],
    attributes: Mapping[str, str] | None = None,
    metadata: str = "",
    *,
    inside: str = "",
    keeps_widths: bool = False,
) -> str:
    """Return the SVG element. `css` turns an ink into a CSS color. `inside` are elements on top of it.

    With `keeps_widths` text is as wide as in the program's font, whatever font the reader has.
    """
    more = "".join(f" {name}={quoteattr(value)}" for name, value in (attributes or {}).items())
    head = f"<metadata>{escape(printable(metadata))}</metadata>\n" if metadata else ""
    elements = [_element(shape, css, keeps_widths) for shape in drawing.shapes]
    body = head + "\n".join([*elements, inside] if inside else elements)
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
    inside: str = "",
    *,
    keeps_widths: bool = False,
) -> str:
    """Return the text of a file with the drawing on the palette's color of ink `ground`."""

    def css(ink: str) -> str:
        return ink_color(palette, ink)

    size = {"width": f"{drawing.width:.0f}", "height": f"{drawing.height:.0f}"}
    attributes = {"style": f"background: {css(ground)}", **size}
    text = svg(drawing, css, attributes, metadata, inside=inside, keeps_widths=keeps_widths)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _element(shape: Shape, css: Callable[[str], str], keeps_widths: bool) -> str:
    ink = css(shape.ink)
    if isinstance(shape, Stroke):
        dash = f' stroke-dasharray="{" ".join(map(_n, shape.dash))}"' if shape.dash else ""
        return (
            f'<path d="{_path(shape.points)}" fill="none" stroke="{ink}" stroke-width="{_n(shape.width)}"'
            f' stroke-linejoin="round"{dash}/>'
        )
    if isinstance(shape, Fill):
        pale = "" if shape.opacity == 1 else f' fill-opacity="{shape.opacity:g}"'
        return f'<path d="{_path(shape.points)}Z" fill="{ink}"{pale}{_edge(shape.edge, css)}/>'
    if isinstance(shape, Box):
        size = f'width="{_n(shape.width)}" height="{_n(shape.height)}"'
        return f'<rect x="{_n(shape.x)}" y="{_n(shape.y)}" {size} fill="{ink}"/>'
    if isinstance(shape, Dot):
        circle = f'cx="{_n(shape.x)}" cy="{_n(shape.y)}" r="{_n(shape.radius)}"'
        return f'<circle {circle} fill="{ink}"{_edge(shape.edge, css)}/>'
    return _text(shape, ink, keeps_widths)


def _text(words: Words, ink: str, keeps_widths: bool) -> str:
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


def _edge(ink: str | None, css: Callable[[str], str]) -> str:
    return "" if ink is None else f' stroke="{css(ink)}" stroke-width="1.5"'


def _path(points: tuple[Point, ...]) -> str:
    return "M" + "L".join(f"{_n(x)} {_n(y)}" for x, y in points)


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
