"""The installation in progress: stages, bar and figures, Pause and Stop; and a chip for the top bar."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QLabel, QWidget

from engine.installation.wanted import Stage
from gui.installation.progress import STAGES, Progress
from gui.theme.icons import pixmap
from gui.theme.theme import theme
from gui.widgets import Button, ElidedLabel, ProgressLine, label, set_property, set_text
from gui.widgets.boxes import Stretch, in_column, in_row, wide
from gui.widgets.labels import plain_tip

_KEPT = "Stopping or closing keeps what was downloaded."


class ProgressView(QFrame):
    """`pause_toggled` asks to pause or to go on, `stop_wanted` to end."""

    pause_toggled = Signal()
    stop_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "panel")
        self._title, self._percent = label("", "pageTitle"), label("", "pageTitle")
        self._bar = ProgressLine("Setting up")
        self._amount, self._left = label("", "body"), label("", "body")
        self._file = ElidedLabel("", "hint", mode=Qt.TextElideMode.ElideMiddle)
        self._retry = label("", "problem", wraps=True)
        self._stages = {stage: _StageMark(title) for stage, title in STAGES.items()}
        self.pause_button = Button("Pause", "secondary", "Pause the download, and go on later", "pause")
        self.stop_button = Button("Stop", "secondary", _KEPT, "stop")
        self.pause_button.clicked.connect(self.pause_toggled)
        self.stop_button.clicked.connect(self.stop_wanted)
        kept = label(_KEPT, "hint", wraps=True)
        in_column(
            in_row(*self._stages.values(), Stretch(1), spacing=24),
            24,
            in_row(self._title, Stretch(1), self._percent),
            12,
            self._bar,
            12,
            in_row(self._amount, Stretch(1), self._left),
            4,
            self._file,
            self._retry,
            16,
            in_row(self.pause_button, self.stop_button, wide(kept), spacing=8),
            parent=self,
            margins=24,
            spacing=0,
        )
        self.show_progress(Progress())

    def show_progress(self, progress: Progress) -> None:
        """Shows how far the installation is."""
        for stage, mark in self._stages.items():
            mark.set_place(_ORDER.index(stage) - _ORDER.index(progress.stage))
        set_text(self._title, progress.title)
        set_text(self._percent, progress.percent)
        set_text(self._left, progress.left)
        set_text(self._amount, progress.amount)
        self._file.set_whole_text(progress.file)
        set_text(self._retry, progress.retry or "")
        self._retry.setVisible(bool(progress.retry))
        self._bar.set_progress(progress.fraction or 0.0)
        self.pause_button.setEnabled(progress.stage is Stage.FETCHING)
        self.pause_button.setText("Go on" if progress.is_paused else "Pause")
        self.pause_button.setAccessibleName(self.pause_button.text())
        self.pause_button.set_icon("play" if progress.is_paused else "pause")
        self.setAccessibleName(progress.line)


_ORDER = tuple(STAGES)


class _StageMark(QWidget):
    """A stage's name behind a tick, a ring or a dot: done, in progress, or to come."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title
        self._place = 0
        self._icon, self._words = QLabel(), label(title, "label")
        in_row(self._icon, self._words, parent=self, spacing=6)
        theme().changed.connect(self._recolor)

    def set_place(self, place: int) -> None:
        """Negative for a stage that is done, 0 for the one in progress."""
        state = "done" if place < 0 else "in progress" if place == 0 else "to come"
        self.setAccessibleName(f"{self._title}: {state}")
        self._place = place
        set_property(self._words, "role", "value" if place == 0 else "label")
        self._recolor()

    def _recolor(self) -> None:
        palette = theme().palette
        name = "check" if self._place < 0 else "play" if self._place == 0 else "ring"
        ink = palette.text if self._place <= 0 else palette.text3
        self._icon.setPixmap(pixmap(name, ink, 14, self.devicePixelRatioF()))


_ROOM_FOR_LINE = 1_300
"""Width of a window whose top bar has room for all the words."""


class SetupChip(Button):
    """The progress of the installation, in the window's top bar; hidden while none is in progress."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("", "strip", "Show how far PyTorch is", "download", parent)
        self.hide()

    def show_progress(self, progress: Progress | None) -> None:
        """Shows how far it is, only the share that is done in a narrow window; None hides the chip."""
        self.setVisible(progress is not None)
        if progress is not None:
            is_wide = self.window().width() >= _ROOM_FOR_LINE
            words = (progress.facts or progress.title) if is_wide else progress.percent
            self.setText(f" {words}" if words else "")
            self.setAccessibleName(progress.line)
            self.setToolTip(plain_tip(f"{progress.line}. Click to see more."))
