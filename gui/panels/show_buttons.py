"""Buttons of Show: they grow with the panel, and leave to it the keys that a presenter's remote sends."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QPushButton, QWidget

from gui.icons import icon
from gui.panels.show_scale import Scale
from gui.theme import theme

_ARROWS = (Qt.Key.Key_Left, Qt.Key.Key_Right, Qt.Key.Key_Up, Qt.Key.Key_Down)
_ICON = 14


class ShowButton(QPushButton):
    """A button of `kind` show, showPrimary, showIcon or showLink.

    Clicking it leaves the focus where it was, so that Space goes on playing and pausing; Tab reaches it.
    """

    def __init__(
        self, text: str, kind: str, tooltip: str, icon_name: str = "", parent: QWidget | None = None
    ) -> None:
        super().__init__(text, parent)
        self._kind, self._icon_name, self._scale = kind, icon_name, Scale()
        self.setProperty("kind", kind)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setAutoDefault(False)
        self.tell(text.strip() or tooltip, tooltip)
        theme().changed.connect(self._draw_icon)
        self._draw_icon()

    def tell(self, name: str, tooltip: str) -> None:
        """Its name to screen readers, and what its tooltip says."""
        self.setAccessibleName(name)
        self.setToolTip(tooltip)

    def set_icon_name(self, name: str) -> None:
        """Shows another icon of gui.icons."""
        if name != self._icon_name:
            self._icon_name = name
            self._draw_icon()

    def set_scale(self, scale: Scale) -> None:
        self._scale = scale
        self._draw_icon()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in _ARROWS:
            # else Qt would move the focus with them, and the race would not
            event.ignore()
            return
        super().keyPressEvent(event)

    def _draw_icon(self) -> None:
        if not self._icon_name:
            return
        palette, side = theme().palette, max(_ICON, self._scale.px(_ICON))
        color = palette.prifg if self._kind == "showPrimary" else palette.text
        self.setIconSize(QSize(side, side))
        self.setIcon(icon(self._icon_name, color, side, palette.off))
