"""The transport bar of the race: play, speed, position, export, and what was trained."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QPointF, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QFrame, QMenu, QSlider, QWidget

from engine.words.numbers import three_figures
from gui.show.scale import COLUMN_GAP, Scale, ShowButton, handle_px, memory_width
from gui.widgets import ElidedLabel, Segmented, label, set_text
from gui.widgets.boxes import in_row, wide

MS = 1_000


class Scrubber(QSlider):
    """`sought` carries the seconds that the user moved it to, `held` whether it is being dragged.

    A click moves it there at once. Keys are left to the panel, where they do not depend on the focus.
    """

    sought = Signal(float)
    held = Signal(bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self.setProperty("kind", "show")
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setAccessibleName("Position in the race")
        self.setToolTip("Drag to any moment of the race (the left and right arrow keys move by one second)")
        self._handle = handle_px(Scale())
        self.setSingleStep(MS)
        self.setPageStep(MS)
        # a screen reader moves it by an action, a mouse by the events below
        self.actionTriggered.connect(lambda _action: self._seek(self.sliderPosition()))

    def set_scale(self, scale: Scale) -> None:
        self._handle = handle_px(scale)
        self.setFixedHeight(self._handle + 4)

    def set_seconds(self, seconds: float, total: float) -> None:
        """Shows the position, without emitting `sought`."""
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
        # the middle of the handle moves to the pointer
        share = (place.x() - self._handle / 2) / max(self.width() - self._handle, 1)
        return round(min(max(share, 0.0), 1.0) * self.maximum())

    def _seek(self, value: int) -> None:
        self.setValue(value)
        self.sought.emit(value / MS)


SPEEDS = (("0.5", "½×"), ("1", "1×"), ("2", "2×"))
_PLAY = {
    "play": (" Play", "play", "Play the race from here (Space)"),
    "pause": (" Pause", "pause", "Pause the race (Space)"),
    "replay": (" Replay", "reset", "Play the race from its beginning (Space)"),
}
_SAVE = (
    ("animation", "Save the race as an animated picture…"),
    ("card", "Save a still picture with the figures…"),
)
_HEIGHT = 64
_MOST_SUBJECT = 1.5
"""In widths of the memory panel."""


class ShowTransport(QFrame):
    """Shows the race's state, and emits what the user does.

    `speed_chosen` carries 0.5, 1 or 2, `sought` the race's seconds, `held` whether the slider is being
    dragged, `save_wanted` "animation" or "card".
    """

    play_toggled = Signal()
    speed_chosen = Signal(float)
    sought = Signal(float)
    held = Signal(bool)
    save_wanted = Signal(str)
    present_toggled = Signal()
    compare_wanted = Signal()
    show_me_wanted = Signal()
    stillness_chosen = Signal(bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "foot")
        self._total, self._seconds, self._state = 0.0, 0.0, ""
        self._scale = Scale()
        self.play = ShowButton(" Replay", "showPrimary", "", "reset")
        self.play.clicked.connect(self.play_toggled)
        self.speed = Segmented(SPEEDS, "Speed of the replay", "Half, normal and double speed")
        for key, _ in SPEEDS:
            self.speed.button(key).setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.speed.changed.connect(lambda key: self.speed_chosen.emit(float(key)))
        self.scrubber = Scrubber()
        self.scrubber.sought.connect(self.sought)
        self.scrubber.held.connect(self.held)
        self._now, self._of = label("", "showNow"), label("", "showFoot")
        self._now.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self._subject = ElidedLabel("", "showSubject")
        self._make_menu()
        self.save = ShowButton("", "showIcon", "Save the race as a file, and more", "export")
        self.save.tell("Save the race", self.save.toolTip())
        self.save.clicked.connect(self._open_menu)
        self.full_screen = ShowButton("", "showIcon", "", "expand")
        self.full_screen.clicked.connect(self.present_toggled)
        self._lay_out()
        self.set_state("replay")
        self.set_presenting(False)

    def set_scale(self, scale: Scale) -> None:
        self.setFixedHeight(max(scale.px(_HEIGHT), 46))
        for part in (self.play, self.scrubber, self.save, self.full_screen):
            part.set_scale(scale)
        self.speed.setFixedHeight(max(scale.px(32), 28))
        self.play.setFixedWidth(max(scale.px(106), 100))
        self.speed.setFixedWidth(max(scale.px(146), 126))
        self._row.setContentsMargins(scale.px(48), 0, scale.px(48), 0)
        self._ends.setSpacing(scale.px(8))
        self._controls.setSpacing(scale.px(18))
        self._row.setSpacing(scale.px(COLUMN_GAP))
        self._scale = scale
        self._fit_subject()
        self._fit_time()

    def show_race(self, subject: str, total: float) -> None:
        """Shows what was trained, and the race's length in seconds."""
        self._total = total
        self._subject.set_whole_text(subject)
        self._fit_subject()
        self.set_seconds(0.0)
        self._fit_time()

    def set_seconds(self, seconds: float) -> None:
        self._seconds = seconds
        self.scrubber.set_seconds(seconds, self._total)
        digits = max(1, three_figures(self._total) - 1)
        set_text(self._now, f"{seconds:,.{digits}f}")
        set_text(self._of, f"of {self._total:,.{digits}f} s")

    def set_state(self, state: str) -> None:
        """Sets what the first button does: "play", "pause" or "replay"."""
        if state == self._state:
            return
        self._state = state
        text, icon_name, tip = _PLAY[state]
        self.play.setText(text)
        self.play.set_icon_name(icon_name)
        self.play.tell(text.strip(), tip)

    def set_speed(self, speed: float) -> None:
        self.speed.set_value(f"{speed:g}")

    def set_presenting(self, is_on: bool) -> None:
        name, keys = ("Leave full screen", "F11 or Escape") if is_on else ("Full screen", "F11")
        self.full_screen.tell(name, f"{name} ({keys})")
        self.full_screen.set_icon_name("shrink" if is_on else "expand")

    def set_still(self, is_still: bool) -> None:
        """Sets whether motion is reduced."""
        self.still.setChecked(is_still)

    def _fit_subject(self) -> None:
        # aligned with the memory panel; a longer subject takes room from the slider
        panel = memory_width(self._scale)
        buttons = 2 * (self.full_screen.sizeHint().width() + self._ends.spacing())
        wanted = self._subject.sizeHint().width() + buttons
        self._right.setFixedWidth(max(panel, min(wanted, round(_MOST_SUBJECT * panel))))

    def _fit_time(self) -> None:
        # as wide as it will ever be, so that the slider does not move
        shown = self._seconds
        self.set_seconds(self._total)
        self._now.setMinimumWidth(0)
        self._now.setMinimumWidth(self._now.sizeHint().width())
        self.set_seconds(shown)

    def _make_menu(self) -> None:
        self.menu = QMenu(self)
        self.menu.setAccessibleName("Save the race, and more")
        for name, text in _SAVE:
            self.menu.addAction(text).triggered.connect(
                lambda _=False, name=name: self.save_wanted.emit(name)
            )
        self.menu.addSeparator()
        self.menu.addAction("All figures in Results").triggered.connect(lambda: self.compare_wanted.emit())
        self.menu.addAction("Show me: measure this machine again").triggered.connect(
            lambda: self.show_me_wanted.emit()
        )
        self.still = self.menu.addAction("Show without motion")
        self.still.setCheckable(True)
        self.still.triggered.connect(self.stillness_chosen)

    def _open_menu(self) -> None:
        size = self.menu.sizeHint()
        self.menu.popup(self.save.mapToGlobal(QPoint(self.save.width() - size.width(), -size.height())))

    def _lay_out(self) -> None:
        self._right = QWidget()
        self._ends = in_row(wide(self._subject), self.save, self.full_screen, parent=self._right)
        time = in_row(self._now, self._of, spacing=5)
        self._controls = in_row(self.play, self.speed, wide(self.scrubber), time)
        self._row = in_row(wide(self._controls), self._right, parent=self, margins=None)
