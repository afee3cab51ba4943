"""Reduced motion: the user's choice in this program, else the desktop's setting."""

from __future__ import annotations

import ctypes
import sys

from PySide6.QtGui import QGuiApplication

_GET_CLIENT_AREA_ANIMATION = 0x1042
_choice: bool | None = None


def reduces_motion() -> bool:
    """True if results are shown at once instead of animated.

    Without a choice in this program the desktop's setting counts, if Qt (6.12 or newer) or Windows has one.
    """
    return _desktop_reduces_motion() if _choice is None else _choice


def set_reduced_motion(choice: bool | None) -> None:
    """Sets the choice for this program; None follows the desktop."""
    global _choice
    _choice = choice


def reduced_motion_choice() -> bool | None:
    """The choice for this program; None if none was made."""
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
