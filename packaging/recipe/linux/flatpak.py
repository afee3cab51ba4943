"""What `flatpak-builder` needs: the packed program, and the manifest that names it and its hash."""

from __future__ import annotations

import tempfile
from pathlib import Path

from engine import __version__
from recipe.icon import APP
from recipe.linux.desktop import LINUX, write_desktop
from recipe.linux.single_file import pack
from recipe.source import settle
from recipe.target import linux_here
from recipe.tree import build_tree


def build_flatpak(out: Path, is_quick: bool = False) -> Path:
    """Makes both in the folder `out`, and returns the manifest. Raises RecipeError."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ammeter-flatpak-") as folder:
        tree = build_tree(linux_here("flatpak"), Path(folder) / "ammeter")
        write_desktop(tree / "share")
        settle(tree)
        archive = out / f"ammeter-{__version__}-flatpak.tar.xz"
        digest = pack(tree, archive, level=0 if is_quick else 6)
    return write_manifest(out, archive.name, digest)


def write_manifest(out: Path, archive: str, digest: str) -> Path:
    """The manifest beside the archive."""
    text = (LINUX / f"{APP}.yml").read_text(encoding="utf-8")
    made = out / f"{APP}.yml"
    made.write_text(text.replace("@ARCHIVE@", archive).replace("@SUM@", digest), encoding="utf-8")
    return made
