"""The design tokens as the window uses them; reports and charts share them."""

from __future__ import annotations

from resources.looks import DARK, LIGHT, Palette, PrecisionLook

__all__ = ["DARK", "LIGHT", "Palette", "PrecisionLook"]
