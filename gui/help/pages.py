"""The guide's pages and pictures, and the search in them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from PySide6.QtCore import QByteArray, QSizeF, Qt
from PySide6.QtGui import QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

from gui.theme.fonts import TEXT_FAMILIES
from gui.theme.stylesheet import LIGHT, Palette

_FAMILIES = re.compile(rb'font-family="[^"]*"')
_COLOR = re.compile(rb"#[0-9A-F]{6}")
_TOKENS = ("bg1", "bg2", "bg3", "line", "line2", "shade", "text", "text2", "text3")


def recoloured(svg: bytes, palette: Palette) -> bytes:
    """The picture, drawn in the light theme's colours, in those of `palette`."""
    exchanged = _exchanged(palette)
    # Qt takes a list of families for a single name
    svg = _FAMILIES.sub(f'font-family="{TEXT_FAMILIES[0]}"'.encode(), svg)
    return _COLOR.sub(lambda found: exchanged.get(found[0].decode(), found[0].decode()).encode(), svg)


def picture(svg: bytes, palette: Palette, pixel_ratio: float) -> QImage:
    """The picture at the screen's device pixel ratio."""
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
    """The light theme's colours, each with the palette's."""
    pairs = {getattr(LIGHT, name): getattr(palette, name) for name in _TOKENS}
    for name, look in LIGHT.precisions.items():
        other = palette.look(name)
        pairs |= {look.color: other.color, look.tint: other.tint, look.dim: other.dim}
    return pairs


FIRST_PAGE = "README"


@dataclass(frozen=True)
class GuidePage:
    """A page; links refer to its `name`, and `text` is Markdown with the title in its first line."""

    name: str
    section: str
    title: str
    text: str

    def has(self, words: str) -> bool:
        """True if the page contains each of the words, also as a part of a word, ignoring case."""
        text = self.text.casefold()
        return all(word in text for word in words.casefold().split())


_ORDER = (
    ("", (FIRST_PAGE,)),
    ("Number formats", ("fp32", "tf32", "fp16", "bf16")),
    ("Mixed precision", ("autocast", "loss-scaling", "when-it-helps")),
    (
        "What the figures mean",
        ("figures", "speed", "memory", "accuracy", "data-wait", "clean-comparison", "recipe"),
    ),
    (
        "Numerics",
        ("precision-map", "ranges", "first-nan", "ladder", "fp32-modules", "advice"),
    ),
    ("Time and energy", ("step-time", "kernels", "roofline", "energy")),
    ("Many runs", ("results", "sweeps", "queue", "tune")),
    ("This machine", ("engine",)),
    ("Your own work", ("own-model", "model-file", "own-step", "own-data", "library-models")),
)


@cache
def guide_pages() -> tuple[GuidePage, ...]:
    """The guide's pages, in the order of the list."""
    return tuple(_read(name, section) for section, names in _ORDER for name in names)


def _read(name: str, section: str) -> GuidePage:
    text = (resources.files("resources") / "guide" / f"{name}.md").read_text(encoding="utf-8")
    return GuidePage(name, section, text.partition("\n")[0].lstrip("# "), text)


def picture_bytes(name: str) -> bytes | None:
    """The SVG of that file name, in the light theme's colours; None if there is none."""
    entry = resources.files("resources") / "guide" / "pictures" / name
    return entry.read_bytes() if name.endswith(".svg") and "/" not in name and entry.is_file() else None


def matching(pages: Sequence[GuidePage], words: str) -> tuple[GuidePage, ...]:
    """The pages that contain all the words."""
    return tuple(page for page in pages if page.has(words))


def best_of(pages: Sequence[GuidePage], words: str, current: str | None) -> str | None:
    """The name of the page to open after a search: the first with the words in its title, else the open one.

    Otherwise the first page, or None if there is none.
    """
    titled = (
        page.name for page in pages if words.strip() and words.strip().casefold() in page.title.casefold()
    )
    names = [page.name for page in pages]
    return next(titled, current if current in names else next(iter(names), None))
