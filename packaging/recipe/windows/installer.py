"""The installer for Windows, made by NSIS: of the program's folder, its launchers and its icon."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from engine import __version__
from recipe.foreign import foreign_python, icon
from recipe.source import RecipeError, run, settle, size_of
from recipe.target import Target
from recipe.tree import build_tree
from recipe.windows.launchers import write_launchers
from recipe.windows.signing import sign

HERE = Path(__file__).parent
_ICON_SIZES = (16, 20, 24, 32, 40, 48, 64, 128, 256)
_LONGEST_PATH = 160
"""Below the folder of the program: Windows takes 259 letters in all, unless it was set up for more."""


def build_windows(out: Path, python: Path | None = None) -> Path:
    """Builds the installer in the folder `out` and returns its file. Raises RecipeError.

    `python` is the folder of an interpreter for Windows; by default uv fetches one.
    """
    with tempfile.TemporaryDirectory(prefix="ammeter-windows-") as folder:
        python = python or foreign_python("windows-x86_64", Path(folder) / "interpreters")
        target = Target("windows", "windows", "x86_64", python)
        tree = build_tree(target, Path(folder) / "program")
        complete_tree(tree)
        return build_installer(tree, out)


def complete_tree(tree: Path) -> None:
    """Adds to the program's folder what only Windows needs, signed. Raises RecipeError."""
    write_launchers(tree)
    icon(256).save(tree / "ammeter.ico", sizes=[(size, size) for size in _ICON_SIZES])
    shutil.copy(HERE / "user_path.py", tree)
    _check_paths(tree)
    sign(tree / "Ammeter.exe", tree / "bin" / "ammeter.exe")
    settle(tree)


def build_installer(tree: Path, out: Path) -> Path:
    """Makes the installer of a complete folder, signed. Raises RecipeError."""
    out.mkdir(parents=True, exist_ok=True)
    installer = out.resolve() / f"ammeter-{__version__}-windows-x86_64.exe"
    numbers = ".".join([*__version__.split(".")[:3], "0"])
    # fmt: off
    run(
        "makensis", "-V2", "-NOCD", f"-DVERSION={__version__}", f"-DNUMBERS={numbers}",
        f"-DTREE={tree.resolve()}", f"-DKIB={size_of(tree) // 1024}", f"-DOUT={installer}",
        HERE / "ammeter.nsi",
    )
    # fmt: on
    sign(installer)
    return installer


def _check_paths(tree: Path) -> None:
    names: dict[str, Path] = {}
    for path in tree.rglob("*"):
        place = path.relative_to(tree)
        if len(str(place)) > _LONGEST_PATH:
            raise RecipeError(f"{place} has more than {_LONGEST_PATH} letters, too many for Windows.")
        if (other := names.setdefault(str(place).casefold(), place)) != place:
            raise RecipeError(f"{place} and {other} are one file on Windows.")
