"""The program's package: how it was installed, its version, and its interpreter."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

import engine
from engine.installation.installed import operating_system
from engine.protocol.events import Check


class Package(StrEnum):
    """How this program was installed, in the user's words."""

    CHECKOUT = "a checkout of its source"
    FLATPAK = "the Flatpak"
    DEB = "the .deb package"
    SINGLE_FILE = "the single file"
    WINDOWS = "the Windows installer"
    MAC = "the macOS application"
    TOOL = "a Python package, installed by uv or pipx"
    PIP = "a Python package"


def package_here(
    folder: Path = Path(engine.__file__).parents[1],
    environment: Mapping[str, str] = os.environ,
    system: str = sys.platform,
    prefix: Path = Path(sys.prefix),
    root: Path = Path("/"),
) -> Package:
    """How the program in `folder` was installed; `prefix` is its interpreter's."""
    if (folder / "pyproject.toml").exists():
        return Package.CHECKOUT
    if "FLATPAK_ID" in environment or (root / ".flatpak-info").exists():
        return Package.FLATPAK
    if system == "darwin" and any(parent.suffix == ".app" for parent in folder.parents):
        return Package.MAC
    if any((prefix / name).exists() for name in ("uv-receipt.toml", "pipx_metadata.json")):
        return Package.TOOL
    if (prefix / "pyvenv.cfg").exists():
        return Package.PIP
    if system == "win32":
        return Package.WINDOWS
    own = folder.is_relative_to(root / "usr") or folder.is_relative_to(root / "opt")
    if own and (root / "var/lib/dpkg/info/ammeter.list").exists():
        return Package.DEB
    return Package.SINGLE_FILE if folder.is_relative_to(prefix) and prefix.name == "ammeter" else Package.PIP


def package_checks() -> tuple[Check, ...]:
    """The package, the interpreter and the system."""
    python = f"Python {platform.python_version()}"
    return (
        Check(name="Ammeter", status="ok", detail=f"{engine.__version__}, from {package_here()}"),
        Check(name="System", status="ok", detail=f"{operating_system()}, {platform.machine()}, {python}"),
    )
