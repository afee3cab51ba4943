"""The line above the form's button: how much memory the runs will need, and how much there is."""

from __future__ import annotations

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QLabel, QWidget

from engine.words.numbers import memory_text, need_text
from gui.session.forecaster import Need
from gui.theme.icons import pixmap
from gui.theme.theme import theme
from gui.widgets import ProgressLine, label, set_text
from gui.widgets.boxes import in_column, in_row, wide

_ICON = 12


class NeedLine(QWidget):
    """Hidden while there is nothing to say."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._words = label("", "label")
        self._icon = QLabel()
        self._icon.setFixedSize(QSize(_ICON, _ICON))
        self._verdict = label("", "label")
        self._bar = ProgressLine("Memory needed")
        row = in_row(wide(self._words), self._icon, self._verdict, spacing=6)
        in_column(row, self._bar, parent=self, margins=(0, 0, 0, 8), spacing=6)
        self._fits: bool | None = None
        theme().changed.connect(self._recolor)
        self.hide()

    def show_need(self, need: Need | None, budget_mib: float | None) -> None:
        """Shows the need against the budget, or that it is being estimated, or nothing."""
        if need is None or budget_mib is None:
            self.hide()
            return
        if need.needed_mib is None:
            self._say("Estimating memory…", 0.0, None)
            return
        words = f"Needs {need_text(need.needed_mib, budget_mib)}"
        self._say(words, need.needed_mib / budget_mib, need.needed_mib <= budget_mib)

    def show_search(self, budget_mib: float | None, device_mib: float | None) -> None:
        """Shows how much memory a search for the largest batch may use."""
        if budget_mib is None or device_mib is None:
            self.hide()
            return
        words = f"Uses up to {memory_text(budget_mib)} of {memory_text(device_mib)}"
        self._say(words, budget_mib / device_mib, None)

    def text(self) -> str:
        """The text of the line; empty while hidden."""
        return "" if self.isHidden() else f"{self._words.text()} {self._verdict.text()}".strip()

    def fraction(self) -> float:
        return self._bar.fraction()

    def _say(self, words: str, fraction: float, fits: bool | None) -> None:
        set_text(self._words, words)
        self._words.setToolTip(words)
        set_text(self._verdict, {None: "", True: "fits", False: "does not fit"}[fits])
        self._fits = fits
        self._icon.setVisible(fits is not None)
        self._bar.set_progress(min(1.0, fraction))
        self.setAccessibleName(f"{words} {self._verdict.text()}".strip())
        self._recolor()
        self.show()

    def _recolor(self) -> None:
        name = "check" if self._fits else "cross-outline"
        self._icon.setPixmap(pixmap(name, theme().palette.text, _ICON, self.devicePixelRatioF()))
