"""What a desktop knows of the program: its entry, icons, file type, description and manual page."""

from __future__ import annotations

import gzip
import shutil
from datetime import UTC, datetime
from pathlib import Path

from PySide6.QtCore import QByteArray, QRectF
from PySide6.QtGui import QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

from engine import __version__
from gui.theme.icons import shape
from recipe.manual import manual_page
from recipe.source import ROOT, epoch
from resources.looks import DARK

APP = "org.ammeter.Ammeter"
"""The program's id; also Qt's desktop file name, by which a compositor finds the icon."""
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


def icon_svg() -> str:
    """The program's icon: its logo on a dark tile, which is seen on light and dark desktops alike."""
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" width="128" height="128" viewBox="0 0 24 24">'
        f'<rect x="1" y="1" width="22" height="22" rx="5" fill="{DARK.bg1}"/>'
        '<g transform="translate(4 4.4)" fill="none" stroke-width="1.4" stroke-linecap="round" '
        f'stroke-linejoin="round" stroke="{DARK.text}">{shape("logo", DARK.text)}</g></svg>\n'
    )


def icon_image(size: int) -> QImage:
    """The icon, `size` pixels wide."""
    image = QImage(size, size, QImage.Format.Format_ARGB32)
    image.fill(0)
    painter = QPainter(image)
    QSvgRenderer(QByteArray(icon_svg().encode())).render(painter, QRectF(0, 0, size, size))
    painter.end()
    return image


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
