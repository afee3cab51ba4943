"""The entry to the help: the guide, with the keys, the places of this machine and the version at its end."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QWidget

from engine import __version__
from engine.paths import checkpoints_folder, config_folder, datasets_folder, store_path
from gui.guide import GuidePage, guide_pages
from gui.shortcuts import SHORTCUTS, keys_of

if TYPE_CHECKING:
    from gui.panels.guide import GuideDialog

_IN_THE_TABLE = (
    ("F2", "Rename the highlighted run"),
    ("Space", "Tick the highlighted runs"),
    ("Ctrl+A", "Highlight all runs that are shown"),
    ("Return", "Show the curves of the highlighted run"),
    ("Delete", "Delete the highlighted runs"),
)
_IN_THE_GUIDE = (
    ("Ctrl+F or /", "Find a page"),
    ("Alt+Left", "The page before"),
    ("Tab", "The next link of the page"),
    ("Escape", "Close the guide"),
)
_SECTION = "This program"
_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]")


def show_help(parent: QWidget, page: str | None = None) -> GuideDialog:
    """Opens the guide beside the window, at a page such as "loss-scaling"; None is its first page.

    There is one guide a window: an open one comes to the front. Raises KeyError for an unknown page.
    """
    from gui.panels.guide import GuideDialog  # the window's start does without it

    dialog = parent.findChild(GuideDialog) or make_help(parent)
    if page is not None:
        dialog.show_page(page)
    dialog.show()
    dialog.activateWindow()
    return dialog


def make_help(parent: QWidget | None = None) -> GuideDialog:
    """The guide with the program's own pages, not yet shown."""
    from gui.panels.guide import GuideDialog

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
        ("Settings, own presets", str(config_folder())),
        ("Checkpoints", str(checkpoints_folder(store_path()))),
        ("Downloaded datasets", str(datasets_folder())),
    )
    text = "\n\n".join(
        (
            "# Places and version",
            f"This is Ammeter {__version__}.",
            "## Where your data lives",
            _table(("What", "Where"), places),
            "Nothing is ever sent anywhere. The network is used only to download a dataset that you choose.",
        )
    )
    return GuidePage("places", _SECTION, "Places and version", text)


def _table(head: tuple[str, str], rows: Sequence[tuple[str, str]]) -> str:
    lines = [head, ("---", "---"), *((_cell(name), _cell(text)) for name, text in rows)]
    return "\n".join(f"| {name} | {text} |" for name, text in lines)


def _cell(text: str) -> str:
    """The text as it is, whatever of it means something in markdown: a folder may be called anything."""
    return _PUNCTUATION.sub(r"\\\g<0>", text)
