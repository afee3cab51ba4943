"""The text of a PDF: its fonts, and letters that no font has replaced by a box that can be seen."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from fpdf import FPDF

from engine.exports.pdf_fonts import known_letters, letters_of, write_fonts
from engine.text import printable

_FAMILY, _OTHER = "Inter", "DejaVu"
_STYLES = {400: "", 600: "B"}
_BOX = "\N{WHITE SQUARE}"


class Letters:
    """Which letters can be shown; what cannot be is replaced, so that a reader sees that it is not there."""

    def __init__(self) -> None:
        self._own = known_letters()
        self._other = letters_of(_other_file())

    def shown(self, text: str) -> str:
        """The text with a box for every letter that no font has; line ends become spaces."""
        kept = printable(text).translate(_SPACES)
        return "".join(one if one in self._own or one in self._other else _BOX for one in kept)


_SPACES = str.maketrans({"\n": " ", "\r": " ", "\t": " "})


def use_fonts(pdf: FPDF, folder: Path) -> None:
    """Makes the fonts known to the document; they are read from `folder` until it is written."""
    for weight, file in write_fonts(_STYLES, folder).items():
        pdf.add_font(_FAMILY, _STYLES[weight], file)
    pdf.add_font(_OTHER, "", _other_file())
    pdf.set_fallback_fonts([_OTHER], exact_match=False)


def set_face(pdf: FPDF, weight: int, size: float, colour: str) -> None:
    """Chooses the font of what is written next: its weight as in CSS, its size in points, its colour."""
    nearest = min(_STYLES, key=lambda one: abs(one - weight))
    pdf.set_font(_FAMILY, _STYLES[nearest], size)
    pdf.set_text_color(colour)


def _other_file() -> Path:
    # found without loading matplotlib, which takes a second
    found = importlib.util.find_spec("matplotlib")
    assert found is not None and found.origin is not None
    return Path(found.origin).parent / "mpl-data" / "fonts" / "ttf" / "DejaVuSans.ttf"
