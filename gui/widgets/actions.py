"""The window's actions, from which its buttons, menus, shortcuts and their page in the guide are made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from PySide6.QtCore import QElapsedTimer
from PySide6.QtGui import QAction, QGuiApplication, QKeySequence
from PySide6.QtWidgets import QAbstractButton, QWidget

from gui.widgets.labels import plain_tip


@dataclass(frozen=True)
class ActionText:
    """The texts of an action: the title of its button or menu entry, and the tooltip.

    The guide shows the tooltip beside `keys`, the shortcut in Qt's notation, such as "Ctrl+M".
    """

    name: str
    title: str
    tip: str
    keys: str = ""

    @property
    def shown_keys(self) -> str:
        """The shortcut in this system's notation. Empty without one."""
        return QKeySequence(self.keys).toString(QKeySequence.SequenceFormat.NativeText)


PLACES = (
    ActionText("experiment", "Experiment", "Go to Experiment: set up runs and watch them", "Ctrl+1"),
    ActionText("results", "Results", "Go to Results: compare, export and reuse saved runs", "Ctrl+2"),
    ActionText("show", "Demo", "Go to Demo: replay two runs side by side", "Ctrl+3"),
)
ACTIONS = (
    ActionText("run", "Run", "Start the experiment, or add it to the queue", "Ctrl+Return"),
    ActionText("pause", "Pause", "Pause or resume training", "Ctrl+P"),
    ActionText("stop", "Stop", "Stop the current job", "Ctrl+."),
    *PLACES,
    ActionText("present", "Full screen", "Enter or leave full screen (Escape)", "F11"),
    ActionText("limit", "Find max", "Find the largest batch that fits", "Ctrl+M"),
    ActionText("save", "Save as a preset…", "Save the form as your own preset", "Ctrl+S"),
    ActionText("reset", "Reset the form", "Reset the form to the chosen preset", "Ctrl+Backspace"),
    ActionText("export", "Export…", "Export the selected runs", "Ctrl+E"),
    ActionText("import", "Import…", "Import runs from an archive", "Ctrl+I"),
    ActionText("undo", "Undo", "Restore the last deleted runs", "Ctrl+Z"),
    ActionText("filter", "Filter", "Filter the runs", "Ctrl+F"),
    ActionText("waiting", "Queue", "Show or hide the queue", "Ctrl+K"),
    ActionText("log", "Log", "Show or hide the log", "Ctrl+L"),
    ActionText("theme", "Theme", "Switch between dark and light", "Ctrl+T"),
    ActionText("help", "Guide", "Open this guide", "F1"),
    ActionText("engine", "PyTorch…", "Show, update or remove the installed PyTorch"),
    ActionText("doctor", "Doctor", "Check this installation and its devices"),
    ActionText("about", "About Ammeter", "Show versions and links"),
    ActionText("welcome", "Welcome", "Welcome: what Ammeter does, and three ways to start"),
    ActionText("quit", "Quit", "Quit", "Ctrl+Q"),
)
_TEXTS = {text.name: text for text in ACTIONS}


def keys_of(name: str) -> str:
    """Return an action's shortcut in this system's notation. Raises KeyError for an unknown name."""
    return _TEXTS[name].shown_keys


def with_keys(tip: str, name: str) -> str:
    """Return a tooltip followed by the shortcut of an action. Raises KeyError for an unknown name."""
    return f"{tip} ({keys_of(name)})"


class Actions(Mapping[str, QAction]):
    """The actions of a window by name, each with its title, tooltip and shortcut."""

    def __init__(self, window: QWidget, functions: Mapping[str, Callable[[], object]]) -> None:
        """Make an action of each function. Raises KeyError for an unknown name."""
        self._window = window
        self._actions: dict[str, QAction] = {}
        for name, do in functions.items():
            text = _TEXTS[name]
            action = make_action(window, text.title, do)
            action.setToolTip(with_keys(text.tip, name) if text.keys else text.tip)
            self.add(name, action)

    def add(self, name: str, action: QAction) -> None:
        """Add an action that a panel has made, with its shortcut."""
        action.setShortcut(QKeySequence(_TEXTS[name].keys))
        self._window.addAction(action)
        self._actions[name] = action

    def __getitem__(self, name: str) -> QAction:
        return self._actions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._actions)

    def __len__(self) -> int:
        return len(self._actions)


def make_action(parent: QWidget, text: str, do: Callable[[], object]) -> QAction:
    """Create an action that calls `do`, without a shortcut."""
    action = QAction(text, parent)
    # these functions take no `checked` argument
    action.triggered.connect(lambda: do())
    return action


class ClickGuard:
    """Recognizes the second click of a double click, which would ask for the same again."""

    def __init__(self) -> None:
        self._clock = QElapsedTimer()
        self._last: object = None

    def is_repeated(self, asked: object) -> bool:
        """Return True if the same was asked for just before."""
        interval = QGuiApplication.styleHints().mouseDoubleClickInterval()
        is_repeated = self._last == asked and not self._clock.hasExpired(interval)
        self._last = asked
        self._clock.start()
        return is_repeated


def set_enabled(action: QAction, against: str | None, tip: str) -> None:
    """Enable an action, or disable it with the reason `against` as its tooltip."""
    action.setEnabled(against is None)
    action.setToolTip(plain_tip(against or tip))


def connect_button(button: QAbstractButton, action: QAction, *, shows_text: bool = False) -> None:
    """Connect a button to an action, and follow its state. A button with `shows_text` is never hidden."""

    def follow() -> None:
        button.setEnabled(action.isEnabled())
        button.setToolTip(action.toolTip())
        if shows_text:
            button.setText(action.text())
            button.setAccessibleName(action.text())
        else:
            button.setVisible(action.isVisible())

    button.clicked.connect(action.trigger)
    action.changed.connect(follow)
    follow()
