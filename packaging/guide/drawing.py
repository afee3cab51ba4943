"""SVG drawings of plain shapes and text in the light theme's colors, for the guide."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

from resources.looks import LIGHT

WIDTH, EDGE = 520, 20
FONTS = "Inter, Noto Sans, DejaVu Sans, sans-serif"


class Drawing:
    """A picture of the guide as SVG, from plain shapes and text, in pixels.

    `title` describes it for screen readers.
    """

    def __init__(self, height: int, title: str) -> None:
        self._height, self._title = height, title
        self._parts: list[str] = []
        self.box(0.5, 0.5, WIDTH - 1, height - 1, LIGHT.bg1, LIGHT.line, radius=8)

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        fill: str,
        edge: str = "none",
        radius: float = 3,
    ) -> None:
        shape = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius:g}"'
        self._parts.append(f'<rect {shape} fill="{fill}" stroke="{edge}"/>')

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        color: str = LIGHT.text2,
        size: int = 12,
        weight: int = 400,
        anchor: str = "start",
    ) -> None:
        look = f'fill="{color}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}"'
        self._parts.append(f'<text x="{x:g}" y="{y:g}" {look}>{escape(words)}</text>')

    def line(
        self, start: tuple[float, float], end: tuple[float, float], color: str = LIGHT.line2, width: float = 1
    ) -> None:
        ends = f'x1="{start[0]:g}" y1="{start[1]:g}" x2="{end[0]:g}" y2="{end[1]:g}"'
        self._parts.append(f'<line {ends} stroke="{color}" stroke-width="{width:g}"/>')

    def arrow(self, start: tuple[float, float], end: tuple[float, float], color: str = LIGHT.text3) -> None:
        """A straight line with a head at its end, along an axis."""
        right, down = (_sign(end[axis] - start[axis]) for axis in (0, 1))
        (x, y), head = end, 7
        self.line(start, (x - right * head, y - down * head), color, 1.5)
        back_x, back_y = x - right * head, y - down * head
        points = [
            (x, y),
            (back_x + down * head / 2, back_y + right * head / 2),
            (back_x - down * head / 2, back_y - right * head / 2),
        ]
        told = " ".join(f"{one:g},{other:g}" for one, other in points)
        self._parts.append(f'<polygon points="{told}" fill="{color}"/>')

    def dot(self, x: float, y: float, color: str, radius: float = 5) -> None:
        self._parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" fill="{color}"/>')

    def svg(self) -> str:
        head = f'width="{WIDTH}" height="{self._height}" viewBox="0 0 {WIDTH} {self._height}"'
        return "\n".join(
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" {head} font-family={quoteattr(FONTS)}>',
                f"<title>{escape(self._title)}</title>",
                *self._parts,
                "</svg>\n",
            )
        )


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)
