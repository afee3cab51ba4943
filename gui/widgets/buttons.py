"""Buttons, segments, a combo box, a filter, and the menus of a saved study and of its exports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from PySide6.QtCore import QRectF, QSize, Qt, Signal, SignalInstance
from PySide6.QtGui import QAction, QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QButtonGroup,
    QComboBox,
    QFileDialog,
    QLineEdit,
    QMenu,
    QPushButton,
    QSizePolicy,
    QToolButton,
    QWidget,
)

from gui.theme.icons import draw_icon, icon
from gui.theme.theme import theme
from gui.widgets.boxes import Surface, in_row
from gui.widgets.labels import describe, plain_tip

_AROUND = 10
"""The list's border and inner margin, on both sides."""
_MOST_ROWS = 14


class ComboBox(QComboBox):
    """A combo box whose list is wide enough to show its entries in full."""

    def __init__(self) -> None:
        super().__init__()
        self.setMaxVisibleItems(_MOST_ROWS)

    def showPopup(self) -> None:
        view = self.view()
        bar = view.verticalScrollBar().sizeHint().width() if self.count() > _MOST_ROWS else 0
        view.setMinimumWidth(max(self.width(), view.sizeHintForColumn(0) + _AROUND + bar))
        super().showPopup()


ICON = 14
Do = Callable[..., object] | SignalInstance
"""The action of a click: a function, or a signal to emit."""


class Button(QPushButton):
    """A push button in one of the program's styles. A click calls `do`.

    `kind` is primary, secondary, strip, toggle, inline, narrow or link, or on the page Demo a kind that
    begins with "show". A click on a Demo button does not focus it, so that Space still plays and pauses.
    """

    def __init__(
        self,
        text: str,
        kind: str,
        tooltip: str,
        icon_name: str | None = None,
        *,
        do: Do | None = None,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(text, parent)
        self._kind, self._icon_name, self._icon_side = kind, icon_name, ICON
        self.setProperty("kind", kind)
        describe(self, text.strip() or tooltip, plain_tip(tooltip))
        self.setAutoDefault(False)
        if kind.startswith("show"):
            self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        if kind == "toggle":
            self.setCheckable(True)
        if do is not None:
            self.clicked.connect(do)
        if icon_name is not None:
            theme().changed.connect(self._recolor)
            self._recolor()

    def set_words(self, text: str, tooltip: str | None = None, *, name: str = "") -> None:
        """Set the text, the `name` for screen readers (default: the text), and the tooltip if given."""
        self.setText(text)
        self.setAccessibleName(name or text.strip())
        if tooltip is not None:
            self.setToolTip(plain_tip(tooltip))

    def set_icon(self, name: str) -> None:
        self._icon_name = name
        self._recolor()

    def set_icon_side(self, side: int) -> None:
        """Set the icon's width in pixels, for text of an unusual size."""
        if side != self._icon_side:
            self._icon_side = side
            self._recolor()

    def _recolor(self) -> None:
        if self._icon_name is None:
            return
        palette = theme().palette
        color = {"primary": palette.prifg, "showPrimary": palette.prifg, "link": palette.text2}.get(
            self._kind, palette.text
        )
        self.setIconSize(QSize(self._icon_side, self._icon_side))
        self.setIcon(icon(self._icon_name, color, self._icon_side, palette.off))


class IconButton(QToolButton):
    """A button with an icon and no text. Its `name` is the tooltip and the name for screen readers."""

    def __init__(
        self,
        icon_name: str,
        name: str,
        tooltip: str | None = None,
        *,
        do: Do | None = None,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._icon_name = icon_name
        self.setProperty("kind", "icon")
        describe(self, name, plain_tip(tooltip or name))
        self.setIconSize(QSize(16, 16))
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        if do is not None:
            self.clicked.connect(do)
        theme().changed.connect(self._recolor)
        self._recolor()

    def set_icon(self, icon_name: str) -> None:
        if icon_name != self._icon_name:
            self._icon_name = icon_name
            self._recolor()

    def _recolor(self) -> None:
        palette = theme().palette
        self.setIcon(icon(self._icon_name, palette.text2, 16, palette.off))


class Segmented(Surface):
    """A row of joined buttons of which exactly one is selected. `changed` carries its key."""

    changed = Signal(str)

    def __init__(self, choices: Sequence[tuple[str, str]], name: str, tooltip: str = "") -> None:
        """`choices` are pairs of key and text; the first is chosen."""
        super().__init__("track", name)
        self.setToolTip(tooltip)
        self.setFixedHeight(32)
        self._group = QButtonGroup(self)
        self._group.setExclusive(True)
        self._buttons: dict[str, QPushButton] = {}
        in_row(
            *(self._segment(key, text, f"{name}: {text}", tooltip) for key, text in choices),
            parent=self,
            margins=1,
            spacing=0,
        )
        self._buttons[choices[0][0]].setChecked(True)

    def _segment(self, key: str, text: str, name: str, tooltip: str) -> QPushButton:
        button = QPushButton(text)
        button.setProperty("kind", "segment")
        button.setCheckable(True)
        button.setAutoDefault(False)
        describe(button, name, tooltip)
        button.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        button.clicked.connect(lambda: self.changed.emit(key))
        self._group.addButton(button)
        self._buttons[key] = button
        return button

    def value(self) -> str:
        """Return the key of the chosen segment."""
        return next(key for key, button in self._buttons.items() if button.isChecked())

    def set_value(self, key: str) -> None:
        """Choose a segment without emitting `changed`. Raises KeyError for an unknown key."""
        self._buttons[key].setChecked(True)

    def button(self, key: str) -> QPushButton:
        return self._buttons[key]


_PROFILE = "Profile a few steps: see where time goes and what would help"


class ProfileButton(Button):
    """A button that profiles runs. It can be disabled with a reason."""

    def __init__(self, kind: str) -> None:
        super().__init__("Profile", kind, _PROFILE)

    def set_obstacle(self, against: str | None) -> None:
        """Disable the button if `against` gives a reason, which becomes the tooltip. Otherwise enable it."""
        self.setEnabled(against is None)
        self.setToolTip(plain_tip(against or _PROFILE))


class FilterEdit(QLineEdit):
    """A text field to filter a list, with a magnifying glass. Escape empties it."""

    def __init__(self, name: str, tip: str) -> None:
        super().__init__()
        self.setProperty("small", "true")
        self.setPlaceholderText(name)
        self.setFixedHeight(28)
        self.setMinimumWidth(120)
        self.setMaximumWidth(240)
        self.setTextMargins(18, 0, 0, 0)
        describe(self, name, plain_tip(tip))
        theme().changed.connect(self.update)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape and self.text():
            self.clear()
            return
        super().keyPressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        painter = QPainter(self)
        draw_icon(painter, QRectF(10, self.height() / 2 - 7, 14, 14), "search", theme().palette.text3)
        painter.end()


def add_choice(
    menu: QMenu, words: str, do: Callable[[], object], *, is_chosen: bool, tooltip: str = ""
) -> QAction:
    """Add one of several choices to a menu, checked if chosen. `words` are shown literally."""
    action = menu.addAction(words.replace("&", "&&"))
    action.setToolTip(plain_tip(tooltip))
    action.setCheckable(True)
    action.setChecked(is_chosen)
    action.triggered.connect(lambda: do())
    return action


class StudyMenu(QMenu):
    """A menu of actions on the shown study, such as delete. `delete_asked` carries the study's key."""

    delete_asked = Signal(str)

    def __init__(self, noun: str, contents: str) -> None:
        """`noun` names the study, as "limit"; "trials" are its `contents`."""
        super().__init__()
        self.whole = f"this {noun} with its {contents}"
        self._shown: str | None = None
        self.button = IconButton("more", f"More about this {noun}", f"Delete this {noun}, and more")
        self.button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.button.setMenu(self)
        self.setParent(self.button, self.windowFlags())
        self.setAccessibleName(f"More about this {noun}")
        self._delete = self.addAction(f"Delete this {noun}…")
        self._delete.triggered.connect(lambda: self.delete_asked.emit(self._shown or ""))
        self.set_shown(None)

    def offer(self, text: str, do: Callable[[], object]) -> None:
        """Add an action on the study that is shown."""
        action = QAction(text, self)
        action.triggered.connect(lambda: do())
        self.insertAction(self._delete, action)

    def set_shown(self, key: str | None) -> None:
        """Set the study that is shown, or None if it is not over."""
        self._shown = key
        self.button.setVisible(key is not None)


class FileFormat(Protocol):
    """The interface of an export format: the suffix of its files, and its name."""

    @property
    def suffix(self) -> str: ...
    @property
    def title(self) -> str: ...


class ExportMenu(QMenu):
    """A menu of export formats that asks for a file path.

    `asked` carries the path, whose suffix is the format's.
    """

    asked = Signal(object)  # Path

    def __init__(self, parent: QWidget, noun: str, formats: Sequence[FileFormat]) -> None:
        super().__init__(parent)
        self._noun = noun
        self.setAccessibleName(f"Export the {noun}")
        for form in formats:
            self.addAction(f"{form.title}…").triggered.connect(partial(self._ask, form))

    def _ask(self, form: FileFormat, _checked: bool = False) -> None:
        title, name = f"Export the {self._noun}", f"{self._noun.replace(' ', '-')}{form.suffix}"
        path = ask_where(self.parentWidget(), title, name, form.title)
        if path is not None:
            self.asked.emit(path)


def ask_where(parent: QWidget | None, title: str, name: str, kind: str) -> Path | None:
    """Ask for the path of a file to write, `name` by default. Return None if cancelled."""
    # "trace.json.gz" ends in both
    suffix = "".join(Path(name).suffixes)
    dialog = QFileDialog(parent, title, "", f"{kind} (*{suffix})")
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    dialog.setDefaultSuffix(suffix.removeprefix("."))
    dialog.selectFile(name)
    path = Path(dialog.selectedFiles()[0]) if dialog.exec() else None
    dialog.deleteLater()
    return path
