"""The fonts of drawings: Inter, and DejaVu Sans for the letters that Inter lacks."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL import ImageFont

_INTER = {400: "Inter-Regular.otf", 500: "Inter-Medium.otf", 600: "Inter-SemiBold.otf", 700: "Inter-Bold.otf"}
_DEJAVU = {400: "DejaVuSans.ttf", 700: "DejaVuSans-Bold.ttf"}
_EMBEDDED = {400: "pdf/Inter-Regular.ttf", 600: "pdf/Inter-SemiBold.ttf"}
_MEASURED_AT = 64


def font_file(weight: int) -> Path:
    """Inter in the weight nearest to `weight`, as in CSS."""
    return _path(_nearest(_INTER, weight))


def embedded_file(weight: int) -> Path:
    """Inter for a PDF: with TrueType outlines and tabular figures."""
    return _path(_nearest(_EMBEDDED, weight))


def fallback_file(weight: int) -> Path:
    """DejaVu Sans, which has most of the letters that Inter lacks, and a box for all others."""
    return _path(_nearest(_DEJAVU, weight))


def _nearest(names: dict[int, str], weight: int) -> str:
    return names[min(names, key=lambda known: math.fabs(known - weight))]


@lru_cache(maxsize=8)
def _path(name: str) -> Path:
    with resources.as_file(resources.files("resources") / "fonts" / name) as file:
        return file


@lru_cache(maxsize=64)
def sized(file: Path, size: int) -> ImageFont.FreeTypeFont:
    """A font at a size in pixels. Letters of Inter are separate; others are shaped, also right to left."""
    from PIL import ImageFont  # imported here, since the window draws markers but no text by these shapes

    layout = ImageFont.Layout.BASIC if file.name in _INTER.values() else None
    return ImageFont.truetype(str(file), size, layout_engine=layout)


# an animation asks for the same few words at every frame
@lru_cache(maxsize=4096)
def parts(text: str, weight: int) -> tuple[tuple[str, Path, float], ...]:
    """The text in parts that are drawn at once, each with its font and its width in units of the font size.

    A letter of Inter is a part by itself; adjacent letters that Inter lacks form one part.
    """
    own, other = font_file(weight), fallback_file(weight)
    lacking = "".join("x" if _is_lacking(letter, own) else " " if letter == " " else "o" for letter in text)
    split = [(text[slice(*match.span())], match[0][0] == "x") for match in re.finditer("x( *x)*|.", lacking)]
    return tuple(
        (part, file, _width(part, file)) for part, is_other in split for file in (other if is_other else own,)
    )


@lru_cache(maxsize=1024)
def _width(part: str, file: Path) -> float:
    return float(sized(file, _MEASURED_AT).getlength(part)) / _MEASURED_AT


@lru_cache(maxsize=1024)
def _is_lacking(letter: str, own: Path) -> bool:
    if letter.isascii() or letter.isspace():
        return False
    # Inter draws nothing for a letter that it lacks
    return not sized(own, _MEASURED_AT).getmask(letter).size[1]
