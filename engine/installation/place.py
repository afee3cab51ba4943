"""Paths of installations. These functions only compute; who writes makes the folders.

engines_folder()
    current.json               the id of the installation in use; replaced atomically
    installations/<id>/        packages, and installation.json, which is written last
    downloads/                 wheels, whole or in part, until they are installed
"""

from __future__ import annotations

from pathlib import Path

from engine.experiment.paths import from_environment, platform_data

CURRENT = "current.json"
MANIFEST = "installation.json"
PACKAGES = "packages"


def engines_folder() -> Path:
    """AMMETER_ENGINE, or `engine` beside the platform's user data. AMMETER_HOME does not move it."""
    return from_environment("AMMETER_ENGINE") or platform_data() / "engine"


def installation_folder(folder: Path, name: str) -> Path:
    """The folder of the installation `name` in the engines' folder."""
    return installations_folder(folder) / name


def installations_folder(folder: Path) -> Path:
    """The folder of all installations in the engines' folder."""
    return folder / "installations"


def downloads_folder(folder: Path) -> Path:
    """The folder of wheels in the engines' folder."""
    return folder / "downloads"
