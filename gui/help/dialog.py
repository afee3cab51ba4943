"""The guide's window: the list of pages, and the open page.

After the guide's own pages come those of the shortcuts, and of this machine's folders and the version.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject, Qt, QUrl
from PySide6.QtGui import QDesktopServices, QKeySequence, QShortcut
from PySide6.QtWidgets import QDialog, QFrame, QWidget

from engine import __version__
from engine.experiment.paths import (
    checkpoints_folder,
    config_folder,
    datasets_folder,
    store_path,
    traces_folder,
    trust_path,
)
from engine.installation.place import engines_folder
from gui.help.browser import GuideBrowser
from gui.help.index import GuideList
from gui.help.pages import GuidePage, guide_pages
from gui.widgets.boxes import in_column, in_row, wide
from gui.widgets.shortcuts import SHORTCUTS, keys_of

_IN_THE_TABLE = (
    ("F2", "Rename the highlighted run"),
    ("Space", "Tick the highlighted runs"),
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
    """Opens the window's guide, at a page such as "loss-scaling", or brings it to the front.

    Raises KeyError for an unknown page.
    """
    dialog = parent.findChild(GuideDialog) or make_help(parent)
    if page is not None:
        dialog.show_page(page)
    dialog.show()
    dialog.activateWindow()
    return dialog


def make_help(parent: QWidget | None = None) -> GuideDialog:
    """Makes the guide, with the program's own pages, without showing it."""
    return GuideDialog((*guide_pages(), _shortcuts(), _places()), parent)


def _shortcuts() -> GuidePage:
    everywhere = [(keys_of(shortcut.name), shortcut.about) for shortcut in SHORTCUTS]
    text = "\n\n".join(
        (
            "# Shortcuts",
            _table(("Key", "In the window"), everywhere),
            _table(("Key", "In the table of runs"), _IN_THE_TABLE),
            _table(("Key", "In this guide"), _IN_THE_GUIDE),
        )
    )
    return GuidePage("shortcuts", _SECTION, "Shortcuts", text)


def _places() -> GuidePage:
    places = (
        ("Runs", str(store_path())),
        ("Settings and your presets", str(config_folder())),
        ("Whose code may run here", str(trust_path())),
        ("Checkpoints", str(checkpoints_folder(store_path()))),
        ("Traces of timings", str(traces_folder(store_path()))),
        ("Downloaded datasets", str(datasets_folder())),
        ("The engine, where it is set up", str(engines_folder())),
    )
    text = "\n\n".join(
        (
            "# Places and version",
            f"This is Ammeter {__version__}.",
            "## Where your data lives",
            _table(("What", "Where"), places),
            "Ammeter sends nothing by itself. The network is used only to look up and download PyTorch where "
            "it is set up, to download a dataset you choose, and to export to an MLflow server if you name "
            "one.",
        )
    )
    return GuidePage("places", _SECTION, "Places and version", text)


def _table(head: tuple[str, str], rows: Sequence[tuple[str, str]]) -> str:
    lines = [head, ("---", "---"), *((_cell(name), _cell(text)) for name, text in rows)]
    return "\n".join(f"| {name} | {text} |" for name, text in lines)


def _cell(text: str) -> str:
    """The text with Markdown's characters escaped: a folder may have any name."""
    return _PUNCTUATION.sub(r"\\\g<0>", text)


_SIZE = (900, 640)
_LEAST_SIZE = (640, 400)
_LIST_WIDTH = 232


class GuideDialog(QDialog):
    """Shows the pages; not modal, and deleted when it or its window is closed."""

    def __init__(self, pages: Sequence[GuidePage], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        # Qt adds the program's name
        self.setWindowTitle("Guide")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._pages = {page.name: page for page in pages}
        self._visited: list[str] = []
        self.list = GuideList(pages)
        self.page = GuideBrowser()
        self._lay_out()
        self.list.chosen.connect(self.show_page)
        self.list.searched.connect(self.page.mark)
        self.page.page_wanted.connect(self._follow)
        self.page.web_wanted.connect(lambda address: QDesktopServices.openUrl(QUrl(address)))
        self._install_keys()
        if parent is not None:
            parent.window().installEventFilter(self)
        self.show_page(pages[0].name)
        self.list.list.setFocus()

    def _lay_out(self) -> None:
        side = QFrame()
        side.setProperty("surface", "side")
        side.setFixedWidth(_LIST_WIDTH)
        in_column(self.list, parent=side)
        in_row(side, wide(self.page), parent=self, spacing=0)
        self.setMinimumSize(*_LEAST_SIZE)
        self.resize(*_SIZE)

    def _install_keys(self) -> None:
        for keys, act in (
            ("Ctrl+F", self._find),
            ("/", self._find),
            ("Alt+Left", self.go_back),
            ("F1", self._show_first),
        ):
            shortcut = QShortcut(QKeySequence(keys), self)
            shortcut.activated.connect(act)

    @property
    def current(self) -> str:
        """The name of the open page."""
        return self._visited[-1]

    def show_page(self, name: str) -> None:
        """Opens a page. Raises KeyError for an unknown one."""
        page = self._pages[name]
        if not self._visited or name != self.current:
            self._visited.append(name)
            self.page.set_page(page)
        self.list.set_current(name)

    def go_back(self) -> None:
        """Returns to the previous page."""
        if len(self._visited) > 1:
            self._visited.pop()
            self.show_page(self._visited.pop())

    def _follow(self, name: str) -> None:
        if name in self._pages:
            self.show_page(name)

    def _find(self) -> None:
        self.list.field.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.list.field.selectAll()

    def _show_first(self) -> None:
        self.show_page(next(iter(self._pages)))

    def reject(self) -> None:
        """Closes; Escape in a search clears the search first."""
        if self.list.field.hasFocus() and self.list.field.text():
            self.list.field.clear()
        else:
            super().reject()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Closes with its window, but not when that is only minimized."""
        if event.type() == QEvent.Type.Hide and not event.spontaneous():
            self.close()
        return False
