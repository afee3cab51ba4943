"""The guide's window: the list of pages, and the open page.

Two pages follow the guide's own: the shortcuts, and this machine's folders with the version.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Sequence
from dataclasses import replace

from PySide6.QtCore import QEvent, QObject, QSignalBlocker, QSize, Qt, QUrl, Signal, qVersion
from PySide6.QtGui import QDesktopServices, QGuiApplication, QKeyEvent, QKeySequence, QShortcut
from PySide6.QtWidgets import QDialog, QLabel, QLineEdit, QListWidget, QListWidgetItem, QWidget

from engine import __version__
from engine.experiment.paths import (
    checkpoints_folder,
    config_folder,
    datasets_folder,
    store_path,
    traces_folder,
    trust_path,
)
from engine.installation.installed import engines_folder, torch_version
from gui.help.browser import GuideBrowser, GuidePage, best_match, guide_pages, matching_pages
from gui.theme.fonts import font
from gui.theme.icons import pixmap
from gui.theme.theme import theme
from gui.widgets import Button, label
from gui.widgets.actions import ACTIONS
from gui.widgets.boxes import Stretch, Surface, in_column, in_row, wide

_IN_THE_TABLE = (
    ("F2", "Rename the highlighted run"),
    ("Space", "Select the highlighted runs"),
    ("P", "Pin the highlighted runs to the top, or unpin them"),
    ("Ctrl+A", "Highlight all runs shown"),
    ("Return", "Show the curves of the highlighted run"),
    ("Delete", "Delete the highlighted runs"),
)
_IN_THE_GUIDE = (
    ("Ctrl+F or /", "Find a page"),
    ("Alt+Left", "Go back to the previous page"),
    ("Tab", "Go to the next link"),
    ("Escape", "Close the guide"),
)
_SECTION = "This program"
_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]")


def show_help(parent: QWidget, page: str | None = None) -> GuideDialog:
    """Open the window's guide, at a page such as "loss-scaling", or bring it to the front.

    Raises KeyError for an unknown page.
    """
    dialog = parent.findChild(GuideDialog) or make_help(parent)
    if page is not None:
        dialog.show_page(page)
    dialog.show()
    dialog.activateWindow()
    return dialog


def make_help(parent: QWidget | None = None) -> GuideDialog:
    """Make the guide, with the program's own pages, without showing it."""
    # with the keys in this system's notation
    own = {"shortcuts": shortcuts_text()}
    pages = (replace(page, text=own.get(page.name, page.text)) for page in guide_pages())
    return GuideDialog((*pages, _places()), parent)


def shortcuts_text() -> str:
    """Return the page of all shortcuts, as Markdown."""
    everywhere = [(action.shown_keys, action.tip) for action in ACTIONS if action.keys]
    tables = (("window", everywhere), ("table of runs", _IN_THE_TABLE))
    parts = [_table(("Key", f"In the {where}"), keys) for where, keys in tables]
    return "\n\n".join(("# Shortcuts", *parts, _table(("Key", "In this guide"), _IN_THE_GUIDE)))


def _places() -> GuidePage:
    places = (
        ("Runs", str(store_path())),
        ("Settings and your presets", str(config_folder())),
        ("Code and commands that may run here", str(trust_path())),
        ("Checkpoints", str(checkpoints_folder(store_path()))),
        ("Traces of profiles", str(traces_folder(store_path()))),
        ("Downloaded datasets", str(datasets_folder())),
        ("PyTorch, if Ammeter installed it", str(engines_folder())),
    )
    text = "\n\n".join(
        (
            "# Places and version",
            f"This is Ammeter {__version__}.",
            "## Where your data lives",
            _table(("What", "Where"), places),
            "Ammeter sends nothing by itself. It uses the network only to look up and install PyTorch, to "
            "download a dataset you choose, to reach a remote machine you add, and to export to an MLflow "
            "server you name.",
        )
    )
    return GuidePage("places", _SECTION, "Places and version", text)


def _table(head: tuple[str, str], rows: Sequence[tuple[str, str]]) -> str:
    lines = [head, ("---", "---"), *((_cell(name), _cell(text)) for name, text in rows)]
    return "\n".join(f"| {name} | {text} |" for name, text in lines)


def _cell(text: str) -> str:
    """Return the text with Markdown's characters escaped: a folder may have any name."""
    return _PUNCTUATION.sub(r"\\\g<0>", text)


_SIZE = (900, 640)
_LEAST_SIZE = (640, 400)
_LIST_WIDTH = 232


class GuideDialog(QDialog):
    """The window of the guide, not modal. It is deleted when it, or the window that opened it, is closed."""

    def __init__(self, pages: Sequence[GuidePage], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        # Qt adds the program's name
        self.setWindowTitle("Guide")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._pages = {page.name: page for page in pages}
        self._visited: list[str] = []
        self.list = GuideList(pages)
        self.page = GuideBrowser()
        side = Surface("side")
        side.setFixedWidth(_LIST_WIDTH)
        in_column(self.list, parent=side)
        in_row(side, wide(self.page), parent=self, spacing=0)
        self.setMinimumSize(*_LEAST_SIZE)
        self.resize(*_SIZE)
        self.list.chosen.connect(self.show_page)
        self.list.searched.connect(self.page.mark)
        self.page.page_wanted.connect(self._follow)
        self.page.web_wanted.connect(lambda address: QDesktopServices.openUrl(QUrl(address)))
        keys = {"Ctrl+F": self._find, "/": self._find, "Alt+Left": self.forward_backward}
        for key, act in {**keys, "F1": lambda: self.show_page(pages[0].name)}.items():
            QShortcut(QKeySequence(key), self).activated.connect(act)
        if parent is not None:
            parent.window().installEventFilter(self)
        self.show_page(pages[0].name)
        self.list.list.setFocus()

    @property
    def current(self) -> str:
        """The name of the open page."""
        return self._visited[-1]

    def show_page(self, name: str) -> None:
        """Open a page. Raises KeyError for an unknown one."""
        page = self._pages[name]
        if not self._visited or name != self.current:
            self._visited.append(name)
            self.page.set_page(page)
        self.list.set_current(name)

    def forward_backward(self) -> None:
        """Return to the previous page."""
        if len(self._visited) > 1:
            self._visited.pop()
            self.show_page(self._visited.pop())

    def _follow(self, name: str) -> None:
        if name in self._pages:
            self.show_page(name)

    def _find(self) -> None:
        self.list.field.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.list.field.selectAll()

    def reject(self) -> None:
        """Close. In a search, Escape first clears the search."""
        if self.list.field.hasFocus() and self.list.field.text():
            self.list.field.clear()
        else:
            super().reject()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Close with its window, but not when that is only minimized."""
        if event.type() == QEvent.Type.Hide and not event.spontaneous():
            self.close()
        return False


_NAME = Qt.ItemDataRole.UserRole
_ROW, _HEAD = 26, 31


class GuideList(QWidget):
    """The list of the guide's pages with a search field. `chosen` carries the name of the chosen page.

    `searched` carries the words typed into the search field.
    """

    chosen = Signal(str)
    searched = Signal(str)

    def __init__(self, pages: Sequence[GuidePage], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._pages = tuple(pages)
        self.field = QLineEdit()
        self.field.setProperty("small", "true")
        self.field.setPlaceholderText("Find in the guide")
        self.field.setAccessibleName("Find in the guide")
        self.field.setClearButtonEnabled(False)
        self.field.installEventFilter(self)
        self.list = QListWidget()
        self.list.setProperty("kind", "guide")
        self.list.setAccessibleName("Pages of the guide")
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._nothing = label("No page contains these words.", "empty", wraps=True)
        self._nothing.hide()
        row = in_row(self.field, margins=(0, 0, 8, 0))
        in_column(row, self._nothing, wide(self.list), parent=self, margins=(12, 16, 4, 4), spacing=8)
        self.field.textChanged.connect(self._search)
        self.list.currentItemChanged.connect(self._choose)
        self._fill(self._pages)

    def _names(self) -> list[str | None]:
        """Return the names of the listed pages, from the top. None for the head of a section."""
        return [self.list.item(row).data(_NAME) for row in range(self.list.count())]

    def names(self) -> tuple[str, ...]:
        """Return the names of the listed pages, from the top."""
        return tuple(filter(None, self._names()))

    def set_current(self, name: str) -> None:
        """Mark the open page in the list, if the search shows it."""
        names = self._names()
        with QSignalBlocker(self.list):
            self.list.setCurrentRow(names.index(name) if name in names else -1)

    def _search(self, words: str) -> None:
        current = self.list.currentItem()
        open_page = current.data(_NAME) if current is not None else None
        matches = matching_pages(self._pages, words)
        self._fill(matches)
        self._nothing.setVisible(not matches)
        self.searched.emit(words)
        best = best_match(matches, words, open_page)
        self.set_current(best or "")
        if best is not None and best != open_page:
            self.chosen.emit(best)

    def _fill(self, pages: Sequence[GuidePage]) -> None:
        section = ""
        with QSignalBlocker(self.list):
            self.list.clear()
            for page in pages:
                if page.section != section:
                    section = page.section
                    self._add_head(section)
                item = QListWidgetItem(page.title)
                item.setData(_NAME, page.name)
                item.setSizeHint(QSize(0, _ROW))
                self.list.addItem(item)

    def _add_head(self, section: str) -> None:
        head = QListWidgetItem(section)
        head.setFlags(Qt.ItemFlag.NoItemFlags)
        head.setFont(font(11, 500))
        head.setTextAlignment(Qt.AlignmentFlag.AlignBottom | Qt.AlignmentFlag.AlignLeft)
        head.setSizeHint(QSize(0, _HEAD))
        self.list.addItem(head)

    def _choose(self, item: QListWidgetItem | None) -> None:
        if item is not None and item.data(_NAME):
            self.chosen.emit(item.data(_NAME))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Move from the field to the list on Down and Return."""
        keys = (Qt.Key.Key_Down, Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if watched is self.field and isinstance(event, QKeyEvent) and event.key() in keys:
            if event.type() == QEvent.Type.KeyPress:
                self.list.setFocus(Qt.FocusReason.TabFocusReason)
            return True
        return False


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
