"""What a desktop knows of the program: its entry, icons, file type, description and manual page."""

from __future__ import annotations

import gzip
import shutil
from datetime import UTC, datetime
from pathlib import Path

from engine import __version__
from recipe.icon import APP, icon_image, icon_svg
from recipe.linux.manual import manual_page
from recipe.source import ROOT, epoch

LINUX = ROOT / "packaging" / "linux"
_SIZES = (16, 22, 24, 32, 48, 64, 128, 256, 512)


def write_desktop(share: Path) -> None:
    """Writes everything below `share`, such as /usr/share of a package."""
    _copy(f"{APP}.desktop", share / "applications")
    _copy(f"{APP}.xml", share / "mime" / "packages")
    _write(share / "metainfo" / f"{APP}.metainfo.xml", metainfo().encode())
    _write(share / "icons/hicolor/scalable/apps" / f"{APP}.svg", icon_svg().encode())
    for size in _SIZES:
        path = share / f"icons/hicolor/{size}x{size}/apps/{APP}.png"
        path.parent.mkdir(parents=True)
        icon_image(size).save(str(path))
    _write(share / "man/man1/ammeter.1.gz", gzip.compress(manual_page().encode(), mtime=0))


def metainfo() -> str:
    """The AppStream description of this version."""
    day = datetime.fromtimestamp(epoch(), UTC).date().isoformat()
    text = (LINUX / f"{APP}.metainfo.xml").read_text(encoding="utf-8")
    return text.replace("@VERSION@", __version__).replace("@DATE@", day)


def _copy(name: str, folder: Path) -> None:
    folder.mkdir(parents=True)
    shutil.copy(LINUX / name, folder / name)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
