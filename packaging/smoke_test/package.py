"""The package under test: built, unpacked, and raised to a higher version for the upgrade."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from recipe.linux import deb
from recipe.source import RecipeError
from smoke_test.steps import SmokeError, output_of

ROOT = Path(__file__).resolve().parents[2]
"""The checkout."""
FIRST_PAINT = Path(__file__).with_name("first_paint.py")
INSTALLED = Path("usr/lib/ammeter")
"""The program's folder in a root."""


def build_deb(into: Path, *, is_quick: bool) -> Path:
    """Builds the `.deb`; a quick one is compressed little."""
    try:
        return deb.build_deb(into, is_quick)
    except RecipeError as error:
        raise SmokeError(f"the package cannot be built: {error}") from None


def raised(package: Path, into: Path) -> Path:
    """The same package with a higher version."""
    folder = into / "raised"
    output_of(["dpkg-deb", "--raw-extract", package, folder])
    control = folder / "DEBIAN" / "control"
    old = output_of(["dpkg-deb", "--field", package, "Version"]).strip()
    control.write_text(control.read_text().replace(f"Version: {old}\n", f"Version: {old}+upgrade\n"))
    path = into / f"{package.stem}+upgrade.deb"
    output_of(["dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", folder, path])
    shutil.rmtree(folder)
    return path


@dataclass(frozen=True)
class Painted:
    """What `first_paint.py` told of a start."""

    seconds: float
    processor_seconds: float
    torch: bool
    libraries: list[str]
    modules: list[str]


def first_paint(interpreter: Path, environment: dict[str, str]) -> Painted:
    """Opens the program's window, waits for its first paint, and closes it. Raises SmokeError."""
    began = {"AMMETER_BEGAN": str(time.monotonic())}
    said = output_of([interpreter, "-P", FIRST_PAINT], environment | began, seconds=120)
    try:
        return Painted(**json.loads(said.splitlines()[-1]))
    except (IndexError, ValueError, TypeError):
        raise SmokeError(f"the window was never painted; the program said: {said.strip()}") from None
