"""The program in one file for any Linux: a script followed by the packed folder.

Not an AppImage, whose runtime is a binary of others that must be fetched, and which mounts itself by FUSE,
where that is installed. This file unpacks the program once, and needs tar, xz and no administrator rights.
"""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from engine import __version__
from recipe.desktop import LINUX, write_desktop
from recipe.icon import APP
from recipe.source import epoch, linux_here, run, settle
from recipe.tree import build_tree


def build_run(out: Path, is_quick: bool = False) -> Path:
    """Build the file in the folder `out` and return it. Raises RecipeError."""
    target = linux_here("run")
    out.mkdir(parents=True, exist_ok=True)
    made = out / f"Ammeter-{__version__}-{target.machine}.run"
    with tempfile.TemporaryDirectory(prefix="ammeter-run-") as folder:
        tree = build_tree(target, Path(folder) / "ammeter")
        write_desktop(tree / "share")
        settle(tree)
        made.write_bytes(packed(tree, Path(folder) / "packed.tar.xz", level=0 if is_quick else 6))
    made.chmod(0o755)
    return made


def packed(tree: Path, archive: Path, level: int) -> bytes:
    """Return the bytes of the single file for a program's folder; write the packed folder to `archive`."""
    digest = pack(tree, archive, level)
    script = (LINUX / "run-header").read_text(encoding="utf-8")
    for name, value in (("VERSION", __version__), ("SHORT", digest[:8]), ("SUM", digest)):
        script = script.replace(f"@{name}@", value)
    mark = "@OFFSET@"
    # of ten digits, so that the script is as long whatever the number
    length = len(script.encode()) + script.count(mark) * (10 - len(mark))
    return script.replace(mark, f"{length + 1:010d}").encode() + archive.read_bytes()


def pack(tree: Path, archive: Path, level: int) -> str:
    """Pack a folder reproducibly as .tar.xz and return its SHA-256."""
    # fmt: off
    run(
        "tar", "--create", "--file", archive, "--sort=name", "--owner=0", "--group=0", "--numeric-owner",
        "--format=gnu", f"--mtime=@{epoch()}", f"--use-compress-program=xz -T2 -{level}",
        "--directory", tree, ".",
    )
    # fmt: on
    return hashlib.sha256(archive.read_bytes()).hexdigest()


def build_flatpak(out: Path, is_quick: bool = False) -> Path:
    """Build a Flatpak's archive and manifest in the folder `out`; return the manifest. Raises RecipeError."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ammeter-flatpak-") as folder:
        tree = build_tree(linux_here("flatpak"), Path(folder) / "ammeter")
        write_desktop(tree / "share")
        settle(tree)
        archive = out / f"ammeter-{__version__}-flatpak.tar.xz"
        digest = pack(tree, archive, level=0 if is_quick else 6)
    return write_manifest(out, archive.name, digest)


def write_manifest(out: Path, archive: str, digest: str) -> Path:
    """Write the Flatpak manifest next to the archive and return its path."""
    text = (LINUX / f"{APP}.yml").read_text(encoding="utf-8")
    made = out / f"{APP}.yml"
    made.write_text(text.replace("@ARCHIVE@", archive).replace("@SUM@", digest), encoding="utf-8")
    return made
