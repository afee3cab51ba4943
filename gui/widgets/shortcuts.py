"""The keyboard: one table of shortcuts for the window, its tooltips and the help, and the order of Tab."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QWidget


@dataclass(frozen=True)
class Shortcut:
    """`keys` as Qt writes them; `about` is what the help says."""

    name: str
    keys: str
    about: str


SHORTCUTS = (
    Shortcut("run", "Ctrl+Return", "Train what the form says"),
    Shortcut("queue", "Ctrl+Shift+Return", "Add it to the queue"),
    Shortcut("pause", "Ctrl+P", "Pause the run that trains, and go on"),
    Shortcut("stop", "Ctrl+.", "Stop the run that trains, or the search"),
    Shortcut("train", "Ctrl+1", "Go to Train"),
    Shortcut("memory", "Ctrl+2", "Go to Memory limit"),
    Shortcut("compare", "Ctrl+3", "Go to Compare"),
    Shortcut("show", "Ctrl+4", "Go to Show"),
    Shortcut("present", "F11", "Show on the full screen, and back (Escape)"),
    Shortcut("limit", "Ctrl+M", "Search for the largest batch that fits"),
    Shortcut("save", "Ctrl+S", "Save the form as a preset of your own"),
    Shortcut("reset", "Ctrl+Backspace", "Reset the form to the chosen preset"),
    Shortcut("export", "Ctrl+E", "Export the ticked runs"),
    Shortcut("import", "Ctrl+I", "Import runs from a .zip"),
    Shortcut("undo", "Ctrl+Z", "Bring back the runs that were deleted last"),
    Shortcut("filter", "Ctrl+F", "Filter the runs"),
    Shortcut("fold", "Ctrl+J", "Fold and unfold the runs"),
    Shortcut("log", "Ctrl+L", "Show the log, or the runs again"),
    Shortcut("theme", "Ctrl+T", "Dark or light"),
    Shortcut("help", "F1", "Open this guide"),
    Shortcut("quit", "Ctrl+Q", "Quit"),
)


def keys_of(name: str) -> str:
    """The keys of a shortcut as this system writes them. Raises KeyError for an unknown name."""
    keys = {shortcut.name: shortcut.keys for shortcut in SHORTCUTS}[name]
    return QKeySequence(keys).toString(QKeySequence.SequenceFormat.NativeText)


def install(window: QWidget, actions: Mapping[str, QAction | Callable[[], object]]) -> None:
    """Gives each action of the window, or a new one for each function, the keys of its name."""
    for shortcut in SHORTCUTS:
        target = actions[shortcut.name]
        if isinstance(target, QAction):
            action = target
        else:
            action = QAction(shortcut.about, window)
            # a signal's own arguments are of no use to these functions
            action.triggered.connect(lambda _checked=False, target=target: target())
        action.setShortcut(QKeySequence(shortcut.keys))
        window.addAction(action)


def tab_after(before: QWidget, made: QWidget) -> None:
    """Lets Tab go on from `before` to what is in `made`, which came into the window late."""
    for one, other in pairwise((*_tab_stops(before)[-1:], *_tab_stops(made))):
        QWidget.setTabOrder(one, other)


def _tab_stops(widget: QWidget) -> list[QWidget]:
    """Who takes the focus, of a widget and all that is in it, in their order."""
    # not by nextInFocusChain, which makes PySide forget objects that live on
    inside = (widget, *widget.findChildren(QWidget))
    return [
        stop
        for stop in inside
        if stop.focusPolicy() != Qt.FocusPolicy.NoFocus and stop.window() is widget.window()
    ]
