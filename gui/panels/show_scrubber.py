"""The slider that shows and sets the place in a race."""

from __future__ import annotations

from PySide6.QtCore import QPointF, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QSlider, QWidget

from gui.panels.show_scale import Scale, handle_px

MS = 1_000


class Scrubber(QSlider):
    """`sought` carries the seconds that a person moved it to; `held` whether it is being dragged.

    A click goes to its place at once. Keys are left to the panel, where they mean the same wherever the
    focus is.
    """

    sought = Signal(float)
    held = Signal(bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self.setProperty("kind", "show")
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setAccessibleName("Place in the race")
        self.setToolTip("Drag to any moment of the race (left and right arrow keys go by one second)")
        self._handle = handle_px(Scale())
        self.setSingleStep(MS)
        self.setPageStep(MS)
        # a screen reader moves it by such an action, a mouse by the events below
        self.actionTriggered.connect(lambda _action: self._seek(self.sliderPosition()))

    def set_scale(self, scale: Scale) -> None:
        self._handle = handle_px(scale)
        self.setFixedHeight(self._handle + 4)

    def set_seconds(self, seconds: float, total: float) -> None:
        """Shows the place, without telling it as one that a person chose."""
        self.setRange(0, round(total * MS))
        self.setValue(round(seconds * MS))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() is Qt.MouseButton.LeftButton:
            self.held.emit(True)
            self._seek(self._value_at(event.position()))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if event.buttons() & Qt.MouseButton.LeftButton:
            self._seek(self._value_at(event.position()))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if event.button() is Qt.MouseButton.LeftButton:
            self.held.emit(False)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        event.ignore()

    def _value_at(self, place: QPointF) -> int:
        # the middle of the handle goes to the pointer
        share = (place.x() - self._handle / 2) / max(self.width() - self._handle, 1)
        return round(min(max(share, 0.0), 1.0) * self.maximum())

    def _seek(self, value: int) -> None:
        self.setValue(value)
        self.sought.emit(value / MS)
