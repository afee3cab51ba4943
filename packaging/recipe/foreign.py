"""What the packages for Windows and macOS share: an interpreter that uv fetches, and the icon as a bitmap."""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image
from PySide6.QtGui import QImage

from recipe.icon import icon_image
from recipe.source import RecipeError, run


def foreign_python(system: str, into: Path) -> Path:
    """The folder of an interpreter of python-build-standalone for `system`, such as "windows-x86_64".

    Of this Python's version, which compiles the modules. Raises RecipeError.
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    name = f"cpython-{version}-{system}-none"
    run("uv", "python", "install", "--no-bin", "--install-dir", into, name)
    found = sorted(path for path in into.glob(f"cpython-{version}.*") if not path.is_symlink())
    if not found:
        raise RecipeError(f"uv has installed no {name} in {into}.")
    return found[0]


def icon(size: int) -> Image.Image:
    """The program's icon, `size` pixels wide."""
    image = icon_image(size).convertToFormat(QImage.Format.Format_RGBA8888)
    return Image.frombytes("RGBA", (size, size), bytes(image.constBits()))
