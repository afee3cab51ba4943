"""The fonts that come with the program."""

from __future__ import annotations

import logging
from importlib import resources

from PySide6.QtCore import QByteArray
from PySide6.QtGui import QFont, QFontDatabase

TEXT_FAMILIES = ("Inter", "Noto Sans", "DejaVu Sans")
DISPLAY_FAMILIES = ("Inter Display", *TEXT_FAMILIES)
MONO_FAMILIES = ("JetBrains Mono", "Noto Sans Mono", "DejaVu Sans Mono")

_log = logging.getLogger(__name__)


def load_fonts() -> tuple[str, ...]:
    """Register the shipped fonts with Qt and return their families. A missing file is only logged."""
    families: set[str] = set()
    folder = resources.files("resources") / "fonts"
    if not folder.is_dir():
        _log.warning("The program's fonts are missing. Using those of the system.")
        return ()
    for entry in sorted(folder.iterdir(), key=lambda item: item.name):
        if not entry.name.endswith((".otf", ".ttf")):
            continue
        number = QFontDatabase.addApplicationFontFromData(QByteArray(entry.read_bytes()))
        if number < 0:
            _log.warning("The font %s could not be loaded. Using another one.", entry.name)
            continue
        families.update(QFontDatabase.applicationFontFamilies(number))
    return tuple(sorted(families))


def font(size_px: int, weight: int = 400, *, display: bool = False, mono: bool = False) -> QFont:
    """Return a font with tabular numerals and no hinting. `weight` is as in CSS: 400 regular, 700 bold."""
    families = MONO_FAMILIES if mono else DISPLAY_FAMILIES if display else TEXT_FAMILIES
    result = QFont(list(families))
    result.setPixelSize(size_px)
    result.setWeight(QFont.Weight(weight))
    result.setHintingPreference(QFont.HintingPreference.PreferNoHinting)
    result.setFeature(QFont.Tag("tnum"), 1)
    return result
