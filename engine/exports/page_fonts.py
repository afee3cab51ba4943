"""The program's fonts within a web page, where the widths of its charts' words were measured in them."""

from __future__ import annotations

import base64
import io
from importlib import resources

from fontTools.ttLib import TTFont

from engine.exports.drawing import font_file

_WEIGHTS = (400, 500, 600)


def font_faces() -> str:
    """Style rules that hold the fonts themselves, 130 KB in all; nothing is fetched."""
    return "\n".join(map(_font_face, _WEIGHTS))


def _font_face(weight: int) -> str:
    source = resources.files("resources") / "fonts" / font_file(weight)
    packed = io.BytesIO()
    with resources.as_file(source) as file, TTFont(file, lazy=True) as font:
        font.flavor = "woff"
        font.save(packed, reorderTables=None)
    data = base64.b64encode(packed.getvalue()).decode()
    return (
        f'@font-face {{ font-family: "Inter"; font-weight: {weight};'
        f' src: url("data:font/woff;base64,{data}") format("woff"); }}'
    )
