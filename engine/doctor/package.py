"""The program's package: how it was installed, its version, and its interpreter."""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path

import engine
from engine.installation.installed import operating_system
from engine.protocol.events import Check

_PACKAGES = {
    "deb": "the .deb package",
    "run": "the single file",
    "flatpak": "the Flatpak",
    "windows": "the Windows installer",
    "macos": "the macOS application",
}
"""The kinds of package, as `package.json` beside the interpreter names them."""


def package_here(folder: Path = Path(engine.__file__).parents[1], prefix: Path = Path(sys.prefix)) -> str:
    """The installation of the program in `folder`, in the user's words; `prefix` is its interpreter's."""
    if (folder / "pyproject.toml").exists():
        return "a checkout of its source"
    try:
        name = str(json.loads((prefix / "package.json").read_text(encoding="utf-8"))["package"])
    except (OSError, ValueError, KeyError, TypeError):
        is_tool = any((prefix / receipt).exists() for receipt in ("uv-receipt.toml", "pipx_metadata.json"))
        return "a Python package installed by uv or pipx" if is_tool else "a Python package"
    return _PACKAGES.get(name, f"a package for {name}")


def package_checks() -> tuple[Check, ...]:
    """The package, the interpreter and the system."""
    python = f"Python {platform.python_version()}"
    return (
        Check(name="Ammeter", status="ok", detail=f"{engine.__version__}, from {package_here()}"),
        Check(name="System", status="ok", detail=f"{operating_system()}, {platform.machine()}, {python}"),
    )
