"""The guide's pictures in the window's theme: the dark colours in place of the light ones."""

from __future__ import annotations

import re
from collections.abc import Mapping

from PySide6.QtCore import QByteArray, QSizeF, Qt
from PySide6.QtGui import QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

from gui.fonts import TEXT_FAMILIES
from gui.tokens import LIGHT, Palette

_FAMILIES = re.compile(rb'font-family="[^"]*"')
_COLOR = re.compile(rb"#[0-9A-F]{6}")
_TOKENS = ("bg1", "bg2", "bg3", "line", "line2", "shade", "text", "text2", "text3")


def recoloured(svg: bytes, palette: Palette) -> bytes:
    """The picture, which is drawn in the light theme's tokens, in those of `palette`."""
    exchanged = _exchanged(palette)
    # Qt takes a list of families for the name of one
    svg = _FAMILIES.sub(f'font-family="{TEXT_FAMILIES[0]}"'.encode(), svg)
    return _COLOR.sub(lambda found: exchanged.get(found[0].decode(), found[0].decode()).encode(), svg)


def picture(svg: bytes, palette: Palette, pixel_ratio: float) -> QImage:
    """The picture drawn for a screen of that many device pixels to one of its own."""
    renderer = QSvgRenderer(QByteArray(recoloured(svg, palette)))
    size = QSizeF(renderer.defaultSize()) * pixel_ratio
    image = QImage(size.toSize(), QImage.Format.Format_ARGB32_Premultiplied)
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    renderer.render(painter)
    painter.end()
    image.setDevicePixelRatio(pixel_ratio)
    return image


def _exchanged(palette: Palette) -> Mapping[str, str]:
    """Every light colour that a picture may use, and what it becomes."""
    pairs = {getattr(LIGHT, name): getattr(palette, name) for name in _TOKENS}
    for name, look in LIGHT.precisions.items():
        other = palette.look(name)
        pairs |= {look.color: other.color, look.tint: other.tint, look.dim: other.dim}
    return pairs
