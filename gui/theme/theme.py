"""The application's theme: system, light or dark, and reduced motion."""

from __future__ import annotations

import ctypes
import sys
from importlib import resources
from typing import Literal, cast, get_args

import shiboken6
from PySide6.QtCore import QDir, QObject, Qt, Signal
from PySide6.QtGui import QColor, QGuiApplication, QPalette
from PySide6.QtWidgets import QApplication, QToolTip

from gui.theme.fonts import font, load_fonts
from gui.theme.stylesheet import DARK, LIGHT, Palette, PrecisionLook, style_sheet

__all__ = ["DARK", "LIGHT", "Mode", "Palette", "PrecisionLook", "Theme", "theme"]

Mode = Literal["system", "light", "dark"]
_SCHEMES = {"system": Qt.ColorScheme.Unknown, "light": Qt.ColorScheme.Light, "dark": Qt.ColorScheme.Dark}


class Theme(QObject):
    """The light or dark theme of the application.

    `changed` is emitted after every widget has the new style sheet. Widgets that paint themselves read
    `palette` while painting and call `update()` on `changed`.
    """

    changed = Signal()

    def __init__(self, application: QApplication) -> None:
        super().__init__(application)
        self._application = application
        self.mode: Mode = "system"
        self._palette: Palette | None = None
        load_fonts()
        with resources.as_file(resources.files("resources") / "icons") as folder:
            QDir.setSearchPaths("ammeter", [str(folder)])
        application.setStyle("Fusion")
        application.setFont(font(13))
        QToolTip.setFont(font(12))
        application.styleHints().colorSchemeChanged.connect(self._refresh)
        self._refresh()

    @property
    def palette(self) -> Palette:
        assert self._palette is not None  # set by the constructor
        return self._palette

    def set_mode(self, mode: str) -> None:
        """Set the mode: system, light or dark. Raises ValueError for an unknown mode."""
        if mode not in get_args(Mode):
            raise ValueError(f"Unknown theme '{mode}': choose system, light or dark.")
        self.mode = cast(Mode, mode)
        self._application.styleHints().setColorScheme(_SCHEMES[mode])
        self._refresh()

    def toggle(self) -> None:
        """Switch between light and dark."""
        self.set_mode("light" if self.palette.is_dark else "dark")

    def _refresh(self) -> None:
        wanted = self._wanted()
        if wanted is self._palette:
            return
        self._palette = wanted
        # from one style sheet to the next Qt takes five times as long as by way of none
        self._application.setStyleSheet("")
        self._application.setPalette(_qt_palette(wanted))
        self._application.setStyleSheet(style_sheet(wanted))
        self.changed.emit()

    def _wanted(self) -> Palette:
        # a platform that cannot switch (offscreen, some Linux desktops) keeps reporting its own scheme
        if self.mode != "system":
            return DARK if self.mode == "dark" else LIGHT
        return DARK if self._application.styleHints().colorScheme() == Qt.ColorScheme.Dark else LIGHT


_current: Theme | None = None


def theme() -> Theme:
    """Return the application's theme, made at the first call. Raises RuntimeError without a QApplication."""
    global _current
    application = QApplication.instance()
    if not isinstance(application, QApplication):
        raise RuntimeError("The theme needs a QApplication.")
    if _current is None or not shiboken6.isValid(_current) or _current.parent() is not application:
        _current = Theme(application)
    return _current


def _qt_palette(palette: Palette) -> QPalette:
    roles = {
        QPalette.ColorRole.Window: palette.bg0,
        QPalette.ColorRole.WindowText: palette.text,
        QPalette.ColorRole.Base: palette.field,
        QPalette.ColorRole.AlternateBase: palette.bg2,
        QPalette.ColorRole.Text: palette.text,
        QPalette.ColorRole.PlaceholderText: palette.text3,
        QPalette.ColorRole.Button: palette.field,
        QPalette.ColorRole.ButtonText: palette.text,
        QPalette.ColorRole.BrightText: palette.text,
        QPalette.ColorRole.Highlight: palette.pri,
        QPalette.ColorRole.HighlightedText: palette.prifg,
        QPalette.ColorRole.Accent: palette.pri,
        QPalette.ColorRole.ToolTipBase: palette.bg2,
        QPalette.ColorRole.ToolTipText: palette.text,
        QPalette.ColorRole.Link: palette.text,
        QPalette.ColorRole.LinkVisited: palette.text2,
        QPalette.ColorRole.Light: palette.bg3,
        QPalette.ColorRole.Midlight: palette.bg2,
        QPalette.ColorRole.Mid: palette.line2,
        QPalette.ColorRole.Dark: palette.line,
        QPalette.ColorRole.Shadow: palette.bg0,
    }
    result = QPalette()
    for role, color in roles.items():
        result.setColor(role, QColor(color))
    for role in (QPalette.ColorRole.WindowText, QPalette.ColorRole.Text, QPalette.ColorRole.ButtonText):
        result.setColor(QPalette.ColorGroup.Disabled, role, QColor(palette.off))
    return result


_GET_CLIENT_AREA_ANIMATION = 0x1042
_choice: bool | None = None


def reduces_motion() -> bool:
    """Return True if results are shown at once instead of animated.

    Without a choice in this program the desktop's setting counts, if Qt (6.12 or newer) or Windows has one.
    """
    return _desktop_reduces_motion() if _choice is None else _choice


def set_reduced_motion(choice: bool | None) -> None:
    """Set whether this program reduces motion. None follows the desktop."""
    global _choice
    _choice = choice


def reduced_motion_choice() -> bool | None:
    """Return the choice of reduced motion for this program. None follows the desktop."""
    return _choice


def _desktop_reduces_motion() -> bool:
    hints = QGuiApplication.styleHints()
    accessibility = getattr(hints, "accessibility", None)
    preference = getattr(accessibility() if accessibility else None, "motionPreference", None)
    if preference is not None:
        return "reduce" in str(preference().name).lower()
    return sys.platform == "win32" and not _windows_animates()


def _windows_animates() -> bool:
    animates = ctypes.c_int(1)
    user32 = getattr(ctypes, "windll").user32  # noqa: B009 - mypy knows the name on Windows only
    user32.SystemParametersInfoW(_GET_CLIENT_AREA_ANIMATION, 0, ctypes.byref(animates), 0)
    return bool(animates.value)
