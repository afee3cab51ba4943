"""The program's id and its icon, for every system."""

from __future__ import annotations

from PIL import Image
from PySide6.QtCore import QByteArray, QRectF
from PySide6.QtGui import QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

from gui.theme.icons import shape
from resources.looks import DARK

APP = "org.ammeter.Ammeter"
"""The program's id; also Qt's desktop file name, by which a compositor finds the icon."""


def icon_svg() -> str:
    """Return the icon as SVG: the logo on a dark tile, visible on light and dark desktops."""
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" width="128" height="128" viewBox="0 0 24 24">'
        f'<rect x="1" y="1" width="22" height="22" rx="5" fill="{DARK.bg1}"/>'
        '<g transform="translate(4 4.4)" fill="none" stroke-width="1.4" stroke-linecap="round" '
        f'stroke-linejoin="round" stroke="{DARK.text}">{shape("logo", DARK.text)}</g></svg>\n'
    )


def icon_image(size: int) -> QImage:
    """Return the icon as an image, `size` pixels wide."""
    image = QImage(size, size, QImage.Format.Format_ARGB32)
    image.fill(0)
    painter = QPainter(image)
    QSvgRenderer(QByteArray(icon_svg().encode())).render(painter, QRectF(0, 0, size, size))
    painter.end()
    return image


def icon_bitmap(size: int) -> Image.Image:
    """Return the icon as a bitmap, `size` pixels wide."""
    image = icon_image(size).convertToFormat(QImage.Format.Format_RGBA8888)
    return Image.frombytes("RGBA", (size, size), bytes(image.constBits()))
