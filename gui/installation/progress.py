"""The progress of an installation, as a value, on its page and in the top bar."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QLabel, QWidget

from engine.installation.request import Fetched, InstallEvent, Stage, StageBegan
from engine.words.numbers import duration, share_text, size_text
from gui.theme.icons import pixmap
from gui.theme.theme import theme
from gui.widgets import Button, ElidedLabel, ThinProgressBar, label, set_property, set_text
from gui.widgets.boxes import Stretch, Surface, in_column, in_row, wide
from gui.widgets.labels import describe, plain_tip

STAGES = {
    Stage.RESOLVING: "Look up",
    Stage.FETCHING: "Download",
    Stage.TRYING: "Test",
}
_STAGE_TITLES = {
    Stage.SENDING: "Copying Ammeter to the machine",
    Stage.RESOLVING: "Looking up the packages",
    Stage.FETCHING: "Downloading PyTorch",
    Stage.TRYING: "Training a test step",
}


@dataclass(frozen=True)
class InstallProgress:
    """The progress of an installation of PyTorch in its current `stage`.

    `fetched` has the packages and bytes of a download. `is_waiting` is True while the installation waits for
    a measurement to end.
    """

    stage: Stage = Stage.RESOLVING
    fetched: Fetched | None = None
    is_waiting: bool = False

    def after(self, event: InstallEvent) -> InstallProgress:
        match event:
            case StageBegan(stage=stage):
                return InstallProgress(stage)
            case Fetched():
                return InstallProgress(Stage.FETCHING, event)
        return self

    @property
    def fraction(self) -> float | None:
        """The finished fraction of the download, 0 to 1. None if unknown."""
        if self.fetched is None or not self.fetched.total_bytes:
            return None
        return min(self.fetched.done_bytes / self.fetched.total_bytes, 1.0)

    @property
    def title(self) -> str:
        return "Waiting for the current job" if self.is_waiting else _STAGE_TITLES[self.stage]

    @property
    def percent(self) -> str:
        """The finished share of the download: "43%". "" if unknown."""
        return "" if self.fraction is None else share_text(int(100 * self.fraction) / 100)

    @property
    def left(self) -> str:
        """The time left: "about 3 min left". "" if unknown."""
        seconds = self.fetched.seconds_left if self.fetched is not None else None
        return "" if seconds is None else f"about {duration(seconds)} left"

    @property
    def amount(self) -> str:
        """The bytes on the disk: "1.1 GiB of about 4.9 GiB unpacked"."""
        if self.is_waiting:
            return "Starts when that job ends or is stopped, before the queued jobs."
        if self.fetched is None:
            return ""
        total = self.fetched.total_bytes
        of = "" if total is None else f" of about {size_text(total)}"
        return f"{size_text(self.fetched.done_bytes)}{of} unpacked"

    @property
    def line(self) -> str:
        """The progress in one line: "Downloading PyTorch: 43%, 3 min left"."""
        return f"{self.title}: {self.facts}" if self.facts else self.title

    @property
    def facts(self) -> str:
        """The finished share and the time left: "43%, 3 min left". "" if both are unknown."""
        return ", ".join(part for part in (self.percent, self.left) if part)


_KEPT = "Complete packages are kept if you stop or close Ammeter."


class ProgressView(Surface):
    """Shows the progress of an installation. `stop_wanted` asks to stop it."""

    stop_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("panel", parent=parent)
        self._title, self._percent = label("", "pageTitle"), label("", "pageTitle")
        self._bar = ThinProgressBar("Installation progress")
        self._amount, self._left = label("", "body"), label("", "body")
        self._packages = ElidedLabel("", "hint", mode=Qt.TextElideMode.ElideMiddle)
        self._stages = {stage: _StageMark(title) for stage, title in STAGES.items()}
        self.stop_button = Button(
            "Stop", "secondary", "Stop and keep the complete packages", "stop", do=self.stop_wanted
        )
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
            self._packages,
            16,
            in_row(self.stop_button, wide(kept), spacing=8),
            parent=self,
            margins=24,
            spacing=0,
        )
        self.show_progress(InstallProgress())

    def show_progress(self, progress: InstallProgress) -> None:
        """Show the progress of the installation."""
        for stage, mark in self._stages.items():
            mark.set_place(_ORDER.index(stage) - _ORDER.index(progress.stage))
        set_text(self._title, progress.title)
        set_text(self._percent, progress.percent)
        set_text(self._left, progress.left)
        set_text(self._amount, progress.amount)
        self._packages.set_whole_text(progress.fetched.packages if progress.fetched is not None else "")
        self._bar.set_progress(progress.fraction or 0.0)
        self.setAccessibleName(progress.line)


_ORDER = tuple(STAGES)


class _StageMark(QWidget):
    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title
        self._place = 0
        self._icon, self._words = QLabel(), label(title, "label")
        in_row(self._icon, self._words, parent=self, spacing=6)
        theme().changed.connect(self._recolor)

    def set_place(self, place: int) -> None:
        """Show the stage as done (negative), in progress (0) or not started."""
        state = "done" if place < 0 else "in progress" if place == 0 else "not started"
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
    """A button in the window's top bar with the progress of the installation. Hidden if none is running."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("", "strip", "Show the progress of the installation", "download", parent=parent)
        self.hide()

    def show_progress(self, progress: InstallProgress | None) -> None:
        """Show the progress, in a narrow window only the percentage. None hides the chip."""
        self.setVisible(progress is not None)
        if progress is not None:
            is_wide = self.window().width() >= _ROOM_FOR_LINE
            words = (progress.facts or progress.title) if is_wide else progress.percent
            self.setText(f" {words}" if words else "")
            describe(self, progress.line, plain_tip(f"{progress.line}. Click for details."))
