"""The keyboard: the table of shortcuts for the window, its tooltips and the help, and the tab order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QWidget


@dataclass(frozen=True)
class Shortcut:
    """A keyboard shortcut. `keys` are in Qt's notation, such as "Ctrl+M". `about` is its text in the help."""

    name: str
    keys: str
    about: str


SHORTCUTS = (
    Shortcut("run", "Ctrl+Return", "Start the experiment, or add it to the queue"),
    Shortcut("pause", "Ctrl+P", "Pause or resume training"),
    Shortcut("stop", "Ctrl+.", "Stop the current job"),
    Shortcut("experiment", "Ctrl+1", "Go to Experiment"),
    Shortcut("results", "Ctrl+2", "Go to Results"),
    Shortcut("show", "Ctrl+3", "Go to Demo"),
    Shortcut("present", "F11", "Enter or leave full screen (Escape)"),
    Shortcut("limit", "Ctrl+M", "Find the largest batch that fits"),
    Shortcut("save", "Ctrl+S", "Save the form as your own preset"),
    Shortcut("reset", "Ctrl+Backspace", "Reset the form to the chosen preset"),
    Shortcut("export", "Ctrl+E", "Export the selected runs"),
    Shortcut("import", "Ctrl+I", "Import runs from an archive"),
    Shortcut("undo", "Ctrl+Z", "Restore the last deleted runs"),
    Shortcut("filter", "Ctrl+F", "Filter the runs"),
    Shortcut("waiting", "Ctrl+K", "Show or hide the queue"),
    Shortcut("log", "Ctrl+L", "Show or hide the log"),
    Shortcut("theme", "Ctrl+T", "Switch between dark and light"),
    Shortcut("help", "F1", "Open this guide"),
    Shortcut("quit", "Ctrl+Q", "Quit"),
)


def keys_of(name: str) -> str:
    """Return a shortcut's keys in this system's notation. Raises KeyError for an unknown name."""
    keys = {shortcut.name: shortcut.keys for shortcut in SHORTCUTS}[name]
    return QKeySequence(keys).toString(QKeySequence.SequenceFormat.NativeText)


def install(window: QWidget, actions: Mapping[str, QAction | Callable[[], object]]) -> None:
    """Set the shortcut of each action. A plain function gets an action of its own."""
    for shortcut in SHORTCUTS:
        target = actions[shortcut.name]
        if isinstance(target, QAction):
            action = target
        else:
            action = QAction(shortcut.about, window)
            # these functions take no `checked` argument
            action.triggered.connect(lambda _checked=False, target=target: target())
        action.setShortcut(QKeySequence(shortcut.keys))
        window.addAction(action)


def tab_after(before: QWidget, made: QWidget) -> None:
    """Put the widget `made`, which was created later than the window, after `before` in the tab order."""
    for stop, next_stop in pairwise((*_tab_stops(before)[-1:], *_tab_stops(made))):
        QWidget.setTabOrder(stop, next_stop)


def _tab_stops(widget: QWidget) -> list[QWidget]:
    # not by nextInFocusChain, which makes PySide forget objects that still exist
    inside = (widget, *widget.findChildren(QWidget))
    return [
        stop
        for stop in inside
        if stop.focusPolicy() != Qt.FocusPolicy.NoFocus and stop.window() is widget.window()
    ]
