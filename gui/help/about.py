"""The About dialog: description, license and versions."""

from __future__ import annotations

import platform

from PySide6.QtCore import Qt, QUrl, qVersion
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QDialog, QLabel, QWidget

from engine import __version__
from engine.installation.installed import torch_version
from gui.theme.icons import pixmap
from gui.theme.theme import theme
from gui.widgets import Button, label
from gui.widgets.boxes import Stretch, in_column, in_row

_ABOUT = "Measures what mixed-precision (AMP) training in PyTorch gains on your machine."
_LICENSE = "© The Ammeter developers. Free software under the MIT license."
_LINKS = (
    ("Mixed precision in PyTorch", "https://docs.pytorch.org/docs/stable/amp.html"),
    ("PyTorch", "https://pytorch.org"),
    ("Qt for Python", "https://doc.qt.io/qtforpython-6/"),
)


def versions() -> tuple[tuple[str, str], ...]:
    """Return the names and versions of Ammeter, Python, Qt and PyTorch."""
    return (
        ("Ammeter", __version__),
        ("Python", platform.python_version()),
        ("Qt", qVersion()),
        ("PyTorch", torch_version() or "not installed"),
    )


def show_about(parent: QWidget) -> AboutDialog:
    """Open the window's About, or bring it to the front."""
    dialog = parent.findChild(AboutDialog) or AboutDialog(parent)
    dialog.show()
    dialog.activateWindow()
    return dialog


class AboutDialog(QDialog):
    """The About dialog. It is not modal, and deleted when closed."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("About")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._logo = QLabel()
        title = label(f"Ammeter {__version__}", "title")
        rows = [
            in_row(_first(name), label(version, "strong"), Stretch(1)) for name, version in versions()[1:]
        ]
        links = [in_row(_link(*link), Stretch(1)) for link in _LINKS]
        copy = Button("Copy", "secondary", "Copy the versions", do=self.copy)
        close = Button("Close", "secondary", "Close", do=self.close)
        about, license_text = (label(text, "body", wraps=True) for text in (_ABOUT, _LICENSE))
        foot = in_row(Stretch(1), copy, close, spacing=8)
        words = in_column(title, about, 4, *rows, 4, *links, 4, license_text, 8, foot, spacing=6)
        side = in_column(self._logo, Stretch(1))
        in_row(side, words, parent=self, margins=24, spacing=20)
        self.setFixedWidth(_WIDTH)
        theme().changed.connect(self._recolor)
        self._recolor()

    def copy(self) -> None:
        """Put the versions on the clipboard."""
        QGuiApplication.clipboard().setText("\n".join(f"{name} {version}" for name, version in versions()))

    def _recolor(self) -> None:
        self._logo.setPixmap(pixmap("logo", theme().palette.text, 48, self.devicePixelRatioF()))


_WIDTH = 460
_NAMES = 80


def _first(name: str) -> QLabel:
    result = label(name, "body")
    result.setFixedWidth(_NAMES)
    return result


def _link(text: str, address: str) -> Button:
    return Button(text, "link", address, do=lambda: QDesktopServices.openUrl(QUrl(address)))
