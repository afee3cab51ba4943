"""The program's fonts for a PDF, with quadratic outlines.

Inter comes with cubic outlines (CFF), which fpdf2 embeds under a type that readers warn of; TrueType outlines
of the same letters are read everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from fontTools.pens.cu2quPen import Cu2QuPen
from fontTools.pens.ttGlyphPen import TTGlyphPen
from fontTools.ttLib import TTFont, newTable

from engine.exports.drawing import font_file

_MOST_ERROR = 0.0005
"""How far an outline may move, in parts of the letters' height."""


def write_fonts(weights: Iterable[int], folder: Path) -> dict[int, Path]:
    """Writes the program's font in each weight as TrueType, with figures of one width; files by weight."""
    return {weight: _write_font(weight, folder / f"{weight}.ttf") for weight in weights}


def known_letters() -> set[str]:
    """The letters that the program's own font has."""
    with resources.as_file(resources.files("resources") / "fonts" / font_file(400)) as file:
        return letters_of(file)


def letters_of(file: Path) -> set[str]:
    """The letters that a font has."""
    with TTFont(file, lazy=True) as font:
        return {chr(code) for code in font.getBestCmap()}


def _write_font(weight: int, path: Path) -> Path:
    source = resources.files("resources") / "fonts" / font_file(weight)
    with resources.as_file(source) as file, TTFont(file) as font:
        _use_tabular_figures(font)
        _to_quadratic(font)
        font.save(path)
    return path


def _use_tabular_figures(font: TTFont) -> None:
    """Puts the figures of one width in the place of the others; nothing else chooses them in a PDF."""
    letters = font["GSUB"].table
    chosen = {
        index
        for record in letters.FeatureList.FeatureRecord
        if record.FeatureTag == "tnum"
        for index in record.Feature.LookupListIndex
    }
    swaps: dict[str, str] = {}
    for index in chosen:
        for table in letters.LookupList.Lookup[index].SubTable:
            swaps |= getattr(table, "ExtSubTable", table).mapping
    for table in font["cmap"].tables:
        table.cmap = {code: swaps.get(name, name) for code, name in table.cmap.items()}


def _to_quadratic(font: TTFont) -> None:
    glyphs, order = font.getGlyphSet(), font.getGlyphOrder()
    most_error = font["head"].unitsPerEm * _MOST_ERROR
    drawn = {}
    for name in order:
        pen = TTGlyphPen(glyphs)
        glyphs[name].draw(Cu2QuPen(pen, most_error, reverse_direction=True))
        drawn[name] = pen.glyph()
    font["loca"], font["glyf"] = newTable("loca"), newTable("glyf")
    font["glyf"].glyphOrder, font["glyf"].glyphs = order, drawn
    for name in ("CFF ", "VORG", "GSUB", "GPOS", "GDEF"):
        if name in font:
            del font[name]
    _fill_maxp(font)
    font["post"].formatType = 3.0
    font.sfntVersion = "\x00\x01\x00\x00"


def _fill_maxp(font: TTFont) -> None:
    maxp = font["maxp"] = newTable("maxp")
    maxp.tableVersion = 0x00010000
    for name in _MAXP_ZERO:
        setattr(maxp, name, 0)
    maxp.maxZones = 1
    maxp.numGlyphs = len(font.getGlyphOrder())


_MAXP_ZERO = (
    "maxTwilightPoints",
    "maxStorage",
    "maxFunctionDefs",
    "maxInstructionDefs",
    "maxStackElements",
    "maxSizeOfInstructions",
    "maxComponentElements",
    "maxPoints",
    "maxContours",
    "maxCompositePoints",
    "maxCompositeContours",
    "maxComponentDepth",
)
