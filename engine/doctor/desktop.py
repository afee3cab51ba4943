"""The desktop: whether a window can be opened, on Wayland or X11, and at which scale."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from engine.doctor.display import display_problem, known_platforms
from engine.experiment.problem import Problem
from engine.protocol.events import Check

_SCALES = {
    "QT_SCALE_FACTOR": "it multiplies the desktop's own scaling",
    "QT_SCREEN_SCALE_FACTORS": "it replaces the desktop's own scaling",
    "QT_AUTO_SCREEN_SCALE_FACTOR": "it was for older versions of Qt and can switch scaling off",
    "QT_ENABLE_HIGHDPI_SCALING": "it can switch scaling off",
    "QT_SCALE_FACTOR_ROUNDING_POLICY": "a fractional scale, such as 150 %, may be rounded by it",
    "QT_FONT_DPI": "it changes the size of all text",
}
"""Variables that often stay set from another program or another screen, and what they do."""


def desktop_checks(
    environment: Mapping[str, str],
    system: str,
    platforms: Collection[str] | None = None,
    find_problem: Callable[[Mapping[str, str]], Problem | None] = display_problem,
) -> tuple[Check, ...]:
    """The display, and settings that spoil it. `platforms` are those that Qt has here, by default asked."""
    checks = []
    if system.startswith("linux"):
        problem = find_problem(environment)
        if problem is not None:
            status = "note" if problem.key == "display" else "problem"
            checks.append(Check(name="Display", status=status, detail=problem.message, remedy=problem.remedy))
        checks += _wayland(environment, known_platforms() if platforms is None else platforms)
    for name, effect in _SCALES.items():
        if value := environment.get(name):
            detail = f"{name} is set to {value}: {effect}."
            remedy = "Unset it if text or controls have the wrong size."
            checks.append(Check(name="Scaling", status="note", detail=detail, remedy=remedy))
    return tuple(checks) or (Check(name="Display", status="ok", detail="a window can be opened"),)


def _wayland(environment: Mapping[str, str], platforms: Collection[str]) -> list[Check]:
    is_wayland = environment.get("XDG_SESSION_TYPE") == "wayland" or bool(environment.get("WAYLAND_DISPLAY"))
    chosen = environment.get("QT_QPA_PLATFORM", "")
    if not is_wayland:
        return []
    if platforms and "wayland" not in platforms:
        detail = "This is a Wayland session, but this Qt has no plugin for Wayland."
        remedy = "Install it (Debian, Ubuntu: sudo apt install qt6-wayland), or log in to an X11 session."
        if environment.get("DISPLAY"):
            detail += " The window runs through XWayland, where a fractional scale looks blurred."
        status = "note" if environment.get("DISPLAY") else "problem"
        return [Check(name="Wayland", status=status, detail=detail, remedy=remedy)]
    if chosen.startswith("xcb") or (not chosen and not environment.get("WAYLAND_DISPLAY")):
        reason = f"QT_QPA_PLATFORM is {chosen}" if chosen else "WAYLAND_DISPLAY is not set"
        detail = (
            f"This is a Wayland session, but {reason}: the window runs through XWayland, where a fractional "
            "scale looks blurred."
        )
        remedy = (
            "Unset QT_QPA_PLATFORM." if chosen else "Start Ammeter from the desktop, or set WAYLAND_DISPLAY."
        )
        return [Check(name="Wayland", status="note", detail=detail, remedy=remedy)]
    return []
