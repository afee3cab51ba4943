"""The program's own line icons: 16 px, stroke 1.4, in any color of the theme."""

from __future__ import annotations

from PySide6.QtCore import QByteArray, QRectF, QSize, Qt
from PySide6.QtGui import QGuiApplication, QIcon, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

_FRAME = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16" fill="none" stroke="{color}" '
    'stroke-width="{width}" stroke-linecap="round" stroke-linejoin="round">{body}</svg>'
)

_SHAPES = {
    "logo": '<path d="M2.6 12.4a6.3 6.3 0 1 1 10.8 0"/><path d="M8 9.4l2.7-3.6"/>'
    '<circle cx="8" cy="9.6" r="0.9" fill="{color}"/>',
    "chip": '<rect x="4" y="4" width="8" height="8" rx="1.5"/><path d="M6.5 7.2h3v1.6h-3z"/>'
    '<path d="M6 1.8V4M10 1.8V4M6 12v2.2M10 12v2.2M1.8 6H4M1.8 10H4M12 6h2.2M12 10h2.2"/>',
    "save": '<path d="M2.7 3.7a1 1 0 0 1 1-1h7l2.6 2.6v7a1 1 0 0 1-1 1H3.7a1 1 0 0 1-1-1z"/>'
    '<path d="M5 2.9v3h4.6v-3M4.9 13V9.3h6.2V13"/>',
    "reset": '<path d="M3.2 6.2a5.2 5.2 0 1 1-.4 3"/><path d="M2.7 2.9v3.5h3.5"/>',
    "chevron-down": '<path d="M4 6l4 4 4-4"/>',
    "chevron-up": '<path d="M4 10l4-4 4 4"/>',
    "chevron-right": '<path d="M6 4l4 4-4 4"/>',
    "chevron-left": '<path d="M10 4L6 8l4 4"/>',
    "search": '<circle cx="7" cy="7" r="4.2"/><path d="M10.2 10.2l3.2 3.2"/>',
    "check": '<path d="M3.2 8.4l3.2 3.2 6.4-7"/>',
    "cross": '<path d="M4.2 4.2l7.6 7.6M11.8 4.2l-7.6 7.6"/>',
    "cross-outline": '<path d="M5 2.6L8 5.6l3-3L13.4 5l-3 3 3 3L11 13.4l-3-3-3 3L2.6 11l3-3-3-3z"/>',
    "ring": '<circle cx="8" cy="8" r="4.4"/>',
    "stop": '<rect x="3.8" y="3.8" width="8.4" height="8.4" rx="1"/>',
    "play": '<path d="M5 3.2v9.6l7.6-4.8z"/>',
    "pause": '<path d="M5.2 3.4v9.2M10.8 3.4v9.2"/>',
    "moon": '<path d="M13 9.6A5.4 5.4 0 0 1 6.4 3a5.4 5.4 0 1 0 6.6 6.6z"/>',
    "sun": '<circle cx="8" cy="8" r="2.8"/><path d="M8 1.6v1.2M8 13.2v1.2M1.6 8h1.2M13.2 8h1.2'
    'M3.5 3.5l.8.8M11.7 11.7l.8.8M12.5 3.5l-.8.8M4.3 11.7l-.8.8"/>',
    "help": '<circle cx="8" cy="8" r="6"/><path d="M6.3 6.4a1.8 1.8 0 1 1 2.6 1.6c-.6.3-.9.7-.9 1.3"/>'
    '<path d="M8 11.4v.1"/>',
    "info": '<circle cx="8" cy="8" r="6"/><path d="M8 7.4v3.6M8 5v.1"/>',
    "folder": '<path d="M2.4 12.6V3.4h4l1.5 1.7h5.7v7.5z"/>',
    "trash": '<path d="M2.8 4.3h10.4M6.2 4.1V2.7h3.6v1.4M4.1 4.5l.6 8.8h6.6l.6-8.8M6.7 7v3.9M9.3 7v3.9"/>',
    "plus": '<path d="M8 3.2v9.6M3.2 8h9.6"/>',
    "log": '<rect x="2" y="2.8" width="12" height="10.4" rx="1.5"/>'
    '<path d="M4.8 6.2l2 1.8-2 1.8M8.4 10h2.8"/>',
    "expand": '<path d="M9.4 2.8h3.8v3.8M13 3L9.4 6.6M6.6 13.2H2.8V9.4M3 13l3.6-3.6"/>',
    "shrink": '<path d="M13.2 6.6H9.4V2.8M9.6 6.4L13.2 2.8M2.8 9.4h3.8v3.8M6.4 9.6l-3.6 3.6"/>',
    "swap": '<path d="M2.4 5.6h10.8M10.6 3l2.6 2.6M13.6 10.4H2.8M5.4 13l-2.6-2.6"/>',
    "export": '<path d="M8 2.4v7.4M5 7l3 3 3-3M2.8 11.6v1.8h10.4v-1.8"/>',
    "smooth": '<path d="M1.8 10c2.2-6.4 4-6.4 6.2-2s4 4.4 6.2-2"/>',
    "bolt": '<path d="M9 1.8L3.6 9H8l-1 5.2L12.4 7H8z"/>',
    "copy": '<rect x="5.4" y="5.4" width="8" height="8" rx="1.2"/>'
    '<path d="M10.6 5.2V3.6a1 1 0 0 0-1-1h-6a1 1 0 0 0-1 1v6a1 1 0 0 0 1 1h1.6"/>',
    "wrap": '<path d="M2.4 4h11.2M2.4 8h8.8a2.2 2.2 0 0 1 0 4.4H8.4M10 10.8l-1.7 1.6L10 14M2.4 12.4h2.8"/>',
    "note": '<path d="M3.4 2.6h9.2v7.2L9.4 13.4h-6z"/><path d="M9.4 13.2V9.8h3M5.8 5.6h4.4M5.8 8h2.4"/>',
    "pin": '<path d="M5.8 2.4h4.4M6.6 2.6v4.2L4.4 9.4h7.2L9.4 6.8V2.6M8 9.6v4"/>',
    "flag": '<path d="M4 13.6V2.6h8.2L10.4 5.4l1.8 2.8H4.2"/>',
    "columns": '<rect x="2.4" y="3" width="11.2" height="10" rx="1.2"/><path d="M6.1 3v10M9.9 3v10"/>',
    "pencil": '<path d="M3 13l.7-3L10.9 2.8l2.3 2.3L6 12.3z"/>',
    "download": '<path d="M8 2.4v7.4M4.9 6.9L8 10l3.1-3.1M2.8 13.4h10.4"/>',
    "code": '<path d="M5.4 4.4L1.8 8l3.6 3.6M10.6 4.4L14.2 8l-3.6 3.6"/>',
    "queue": '<path d="M2.8 4h10.4M2.8 8h10.4M2.8 12h5.4"/><path d="M11.4 10.4l2.6 1.6-2.6 1.6z"/>',
    "handle": '<path d="M6 4v.1M10 4v.1M6 8v.1M10 8v.1M6 12v.1M10 12v.1"/>',
    "first": '<path d="M3.4 2.8h9.2M8 13.2V6M4.8 9L8 5.8 11.2 9"/>',
    "clock": '<circle cx="8" cy="8" r="5.6"/><path d="M8 4.8V8l2.4 1.6"/>',
    "pulse": '<path d="M1.8 8.4h3L6.6 4l2.8 8 1.6-3.6h3.2"/>',
    "more": '<path d="M3.4 8v.1M8 8v.1M12.6 8v.1" stroke-width="2"/>',
    "compare": '<path d="M2.6 2v12"/><rect x="2.6" y="3" width="10.6" height="2.8" rx="0.6"/>'
    '<rect x="2.6" y="6.6" width="7.4" height="2.8" rx="0.6"/>'
    '<rect x="2.6" y="10.2" width="4.6" height="2.8" rx="0.6"/>',
    "limit": '<path d="M8 1.8v4.4M6 3.8l2-2 2 2M5.6 8.6h4.8M4 11.2h8M2.4 13.8h11.2"/>',
    "profile": '<path d="M2 4h7.2M11.6 4H14M2 8h3.2M7.6 8H14M2 12h5.2M9.6 12H14"/>',
    "sweep": '<rect x="2.4" y="2.4" width="4.6" height="4.6" rx="1"/>'
    '<rect x="9" y="2.4" width="4.6" height="4.6" rx="1"/>'
    '<rect x="2.4" y="9" width="4.6" height="4.6" rx="1"/>'
    '<rect x="9" y="9" width="4.6" height="4.6" rx="1" fill="{color}"/>',
    "tune": '<path d="M2 5h6.4M12 5h2M2 11h2M7.6 11H14"/><circle cx="10.2" cy="5" r="1.8"/>'
    '<circle cx="5.8" cy="11" r="1.8"/>',
    "table": '<rect x="2.4" y="3" width="11.2" height="10" rx="1.2"/><path d="M2.4 6.6h11.2M6.4 6.6V13"/>',
}


def svg(name: str, color: str, width: float = 1.4) -> str:
    """Return the icon as SVG text, stroked in `color`. Raises KeyError for an unknown name."""
    return _FRAME.format(color=color, width=width, body=shape(name, color))


def shape(name: str, color: str) -> str:
    """Return the body of the icon's SVG, in a square of 16. Raises KeyError for an unknown name."""
    return _SHAPES[name].replace("{color}", color)


def pixmap(name: str, color: str, size: int = 16, ratio: float = 1.0) -> QPixmap:
    """Return the icon `size` logical pixels wide, crisp on a screen of device pixel ratio `ratio`."""
    return _rendered(_renderer(name, color), size, ratio)


def _rendered(renderer: QSvgRenderer, size: int, ratio: float) -> QPixmap:
    picture = QPixmap(QSize(round(size * ratio), round(size * ratio)))
    picture.fill(Qt.GlobalColor.transparent)
    painter = QPainter(picture)
    renderer.render(painter, QRectF(picture.rect()))
    painter.end()
    picture.setDevicePixelRatio(ratio)
    return picture


def draw_icon(painter: QPainter, rect: QRectF, name: str, color: str) -> None:
    """Draw the icon into `rect`, in widgets and delegates that paint themselves."""
    _renderer(name, color).render(painter, rect)


def icon(name: str, color: str, size: int = 16, disabled: str | None = None) -> QIcon:
    """Return the icon in `color`, or in `disabled` when the control is, crisp on the present screens."""
    result = QIcon()
    for stroke, mode in ((color, QIcon.Mode.Normal), (disabled, QIcon.Mode.Disabled)):
        if stroke is not None:
            renderer = _renderer(name, stroke)
            for ratio in {1.0, *(screen.devicePixelRatio() for screen in QGuiApplication.screens())}:
                result.addPixmap(_rendered(renderer, size, ratio), mode)
    return result


def _renderer(name: str, color: str) -> QSvgRenderer:
    return QSvgRenderer(QByteArray(svg(name, color).encode()))
