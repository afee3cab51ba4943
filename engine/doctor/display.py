"""Checks that a window can be opened, before Qt loads: Qt would abort the process."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from engine.experiment.problem import Kind, Problem

_PLUGINS = "PySide6/Qt/plugins/platforms"
_ANSWER_SECONDS = 2.0
_PACKAGES = {
    "libxcb-cursor": ("libxcb-cursor0", "xcb-util-cursor"),
    "libxcb-icccm": ("libxcb-icccm4", "xcb-util-wm"),
    "libxcb-image": ("libxcb-image0", "xcb-util-image"),
    "libxcb-keysyms": ("libxcb-keysyms1", "xcb-util-keysyms"),
    "libxcb-render-util": ("libxcb-render-util0", "xcb-util-renderutil"),
    "libxcb-util": ("libxcb-util1", "xcb-util"),
    "libxkbcommon-x11": ("libxkbcommon-x11-0", "libxkbcommon-x11"),
    "libxkbcommon": ("libxkbcommon0", "libxkbcommon"),
    "libX11-xcb": ("libx11-xcb1", "libX11-xcb"),
    "libEGL": ("libegl1", "libglvnd-egl"),
    "libGL": ("libgl1", "libglvnd-glx"),
    "libOpenGL": ("libopengl0", "libglvnd-opengl"),
    "libfontconfig": ("libfontconfig1", "fontconfig"),
    "libfreetype": ("libfreetype6", "freetype"),
    "libdbus-1": ("libdbus-1-3", "dbus-libs"),
    "libglib-2.0": ("libglib2.0-0", "glib2"),
    "libwayland-client": ("libwayland-client0", "libwayland-client"),
    "libwayland-cursor": ("libwayland-cursor0", "libwayland-cursor"),
    "libwayland-egl": ("libwayland-egl1", "libwayland-egl"),
}
"""The packages for Debian and Ubuntu, and for Fedora, by the start of a library's file name."""


def display_problem(environment: Mapping[str, str] | None = None) -> Problem | None:
    """Return the reason why no window can be opened, or None. Checks Linux desktops only."""
    if not sys.platform.startswith("linux"):
        return None
    environment = os.environ if environment is None else environment
    platforms = _platforms(environment)
    if not platforms:
        return Problem(
            kind=Kind.REQUEST,
            message="No display was found, so no window can be opened.",
            remedy="Use a command instead, such as `ammeter run`. `ammeter --help` lists all commands.",
            key="display",
        )
    qt = _missing_libraries("PySide6/QtWidgets.abi3.so")
    if qt:
        # those of the platform as well, so that a second start reports no more
        return _missing_libraries_problem({*qt, *_missing_libraries(_library_of(platforms[0]))})
    problems = [_platform_problem(name, environment) for name in platforms]
    return None if None in problems else problems[-1]


def _platforms(environment: Mapping[str, str]) -> list[str]:
    chosen = environment.get("QT_QPA_PLATFORM", "")
    if chosen:
        return [name.partition(":")[0] for name in chosen.split(";")]
    by_display = {"WAYLAND_DISPLAY": "wayland", "DISPLAY": "xcb"}
    return [name for variable, name in by_display.items() if environment.get(variable)]


def _platform_problem(name: str, environment: Mapping[str, str]) -> Problem | None:
    plugin = _plugin(name)
    unknown = _unknown_platform(plugin)
    if unknown is not None:
        return unknown
    missing = _missing_libraries(_library_of(name))
    if missing:
        return _missing_libraries_problem(missing)
    if plugin == "xcb" and not _x_server_answers(environment.get("DISPLAY", "")):
        return _silent_display_problem(environment, "DISPLAY")
    if plugin == "wayland" and not _wayland_answers(environment):
        return _silent_display_problem(environment, "WAYLAND_DISPLAY")
    return None


def _plugin(platform: str) -> str:
    # a single library serves wayland-egl and wayland-brcm as well
    return "wayland" if platform.startswith("wayland") else platform


def _library_of(platform: str) -> str:
    return f"{_PLUGINS}/libq{_plugin(platform)}.so"


def _silent_display_problem(environment: Mapping[str, str], variable: str) -> Problem:
    display = environment.get(variable)
    return Problem(
        kind=Kind.REQUEST,
        message=f"The display '{display}' does not answer." if display else f"{variable} is not set.",
        remedy=f"Check {variable}, or use a command, such as `ammeter run`.",
        key="display",
    )


def _unknown_platform(plugin: str) -> Problem | None:
    known = known_platforms()
    if not known or plugin in known or "QT_QPA_PLATFORM_PLUGIN_PATH" in os.environ:
        return None
    return Problem(
        kind=Kind.REQUEST,
        message=f"Qt has no platform '{plugin}', which QT_QPA_PLATFORM names.",
        remedy=f"Unset QT_QPA_PLATFORM, or choose one of {', '.join(sorted(known))}.",
        key="display",
    )


def known_platforms() -> list[str]:
    """Return the platforms of the installed PySide6, such as "xcb". Empty if unknown."""
    folder = _pyside_entry(_PLUGINS)
    return [path.stem.removeprefix("libq") for path in folder.glob("libq*.so")] if folder else []


def _pyside_entry(path: str) -> Path | None:
    spec = importlib.util.find_spec("PySide6")
    if spec is None or spec.origin is None:
        return None
    entry = Path(spec.origin).parent.parent / path
    return entry if entry.exists() else None


def _missing_libraries(path: str) -> set[str]:
    library = _pyside_entry(path)
    if library is None:
        return set()
    try:
        ctypes.CDLL(str(library), mode=os.RTLD_LAZY | os.RTLD_LOCAL)
    except OSError as error:
        # "libfoo.so.0: cannot open shared object file": the loader names only the first
        first = re.search(r"(lib[\w.+-]+?)\.so", str(error))
        return set(_absent(library)) or {first.group(1) if first else str(error)}
    return set()


def _absent(library: Path) -> list[str]:
    try:
        listing = subprocess.run(
            ["ldd", library], capture_output=True, text=True, errors="replace", timeout=_ANSWER_SECONDS
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return re.findall(r"(lib[\w.+-]+?)\.so\S* => not found", listing.stdout)


def _missing_libraries_problem(libraries: set[str]) -> Problem:
    names = sorted(libraries)
    known = [_PACKAGES[name] for name in names if name in _PACKAGES]
    remedy = "Install the system packages with them, then start Ammeter again."
    if len(known) == len(names):
        debian, fedora = (" ".join(packages) for packages in zip(*known, strict=True))
        remedy = (
            f"Install with sudo apt install {debian} (Debian, Ubuntu) or sudo dnf install {fedora} (Fedora), "
            "then start Ammeter again."
        )
    return Problem(
        kind=Kind.INTERNAL,
        message="The window cannot be opened: Qt needs the system "
        f"{'library' if len(names) == 1 else 'libraries'} {', '.join(names)}.",
        remedy=remedy,
    )


def _wayland_answers(environment: Mapping[str, str]) -> bool:
    if "WAYLAND_SOCKET" in environment:  # an inherited connection
        return True
    display = environment.get("WAYLAND_DISPLAY") or "wayland-0"
    address = Path(environment.get("XDG_RUNTIME_DIR", "")) / display
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_ANSWER_SECONDS)
        try:
            connection.connect(str(address))
        except OSError:
            return False
    return True


def _x_server_answers(display: str) -> bool:
    xcb = ctypes.CDLL("libxcb.so.1")
    xcb.xcb_connect.restype = ctypes.c_void_p
    xcb.xcb_connect.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
    xcb.xcb_connection_has_error.argtypes = [ctypes.c_void_p]
    xcb.xcb_disconnect.argtypes = [ctypes.c_void_p]
    connection = xcb.xcb_connect(display.encode(), None)
    refused = bool(xcb.xcb_connection_has_error(connection))
    xcb.xcb_disconnect(connection)
    return not refused
