"""The welcome: the purpose of Ammeter, and three ways to start."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QWidget

from gui.theme.fonts import DISPLAY_FAMILIES
from gui.widgets import Button, center, label
from gui.widgets.boxes import Stretch, in_column, in_row

TITLE = "See what mixed precision gains on this machine"
MEANING = "Mixed precision computes in 16-bit numbers where that is safe, and in 32-bit ones where it is not."
SENTENCE = "Ammeter trains one model in full and in mixed precision, and compares speed, memory and accuracy."
_ABOUT_DEMO = "Train one model both ways, in about a minute, and see them side by side."
_EXPERIMENT = "Choose a model and precisions, and watch the curves live."
_LIMIT = "Find the largest batch that fits into memory in each precision."
_FULL_SIZE, _LEAST_SCALE, _LARGEST_SCALE = QSize(1040, 600), 0.9, 4.0
"""The page's size at scale 1, and the limits of the scale."""
_WIDTH, _GAP = 860, 32
_LOW, _VERY_LOW = 104, 64
"""Heights in pixels below which the compact form hides its title, and then its sentence."""


class Welcome(QWidget):
    """The welcome with the first steps: compact in place of an empty table, or large as a page.

    The large one scales with its size.
    """

    demo_wanted = Signal()
    experiment_wanted = Signal()
    limit_wanted = Signal()

    def __init__(self, is_large: bool, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._is_large = is_large
        self._scale = 0.0
        self.setAccessibleName("Welcome")
        self._title = _centred(TITLE, "strong", "title")
        self._meaning = _centred(MEANING, "strong", "meaning")
        self._sentence = _centred(SENTENCE, "body", "sentence")
        kind = "secondary" if is_large else "strip"
        # beside the form, whose button is the one solid block of the view, it is one of three equals
        self.run_demo = Button(" Run demo", "primary" if is_large else kind, _ABOUT_DEMO, "play")
        self.run_demo.setAccessibleName("Run demo")
        self.experiment = Button("Run an experiment", kind, _EXPERIMENT, do=self.experiment_wanted)
        self.limit = Button("Find the largest batch", kind, _LIMIT, do=self.limit_wanted)
        self.run_demo.clicked.connect(self.demo_wanted)
        self._about_demo = _centred(_ABOUT_DEMO, "hint", "about")
        if is_large:
            self._lay_out_large()
        else:
            self._lay_out_compact()

    def show_offers(self, shown: bool) -> None:
        """Show or hide the buttons to start."""
        for button in (self.run_demo, self.experiment, self.limit):
            button.setVisible(shown)

    def minimumSizeHint(self) -> QSize:
        # it must never make a dock or a window larger: parts that do not fit are left out
        return QSize(0, 0)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self._is_large:
            self._grow()
        else:
            self._title.setVisible(self.height() >= _LOW)
            self._sentence.setVisible(self.height() >= _VERY_LOW)

    def _lay_out_compact(self) -> None:
        self._about_demo.hide()
        self._meaning.hide()
        buttons = (self.run_demo, self.experiment, self.limit)
        for button in buttons:
            button.setFixedHeight(_COMPACT_BUTTON)
        row = in_row(Stretch(), *buttons, Stretch(), spacing=8)
        parts = (Stretch(), self._title, self._sentence, 4, row, Stretch())
        in_column(*parts, parent=self, margins=(16, 0, 16, 0), spacing=4)

    def _lay_out_large(self) -> None:
        self._offers = QHBoxLayout()
        offers = ((self.run_demo, self._about_demo), (self.experiment, None), (self.limit, None))
        for (button, about), words in zip(offers, (_ABOUT_DEMO, _EXPERIMENT, _LIMIT), strict=True):
            offer = in_column(button, about or _centred(words, "hint", "about"), Stretch())
            self._offers.addLayout(offer, 1)
        self._inner = QWidget()
        self._column = in_column(self._title, self._meaning, self._sentence, self._offers, parent=self._inner)
        center(self, self._inner)

    def _grow(self) -> None:
        fits = min(self.width() / _FULL_SIZE.width(), self.height() / _FULL_SIZE.height())
        # in steps: dragging an edge must not restyle it at each pixel
        scale = round(20 * min(_LARGEST_SCALE, max(_LEAST_SCALE, fits))) / 20
        if scale == self._scale:
            return
        self._scale = scale
        self.setStyleSheet(_sizes(scale))
        self._inner.setFixedWidth(round(_WIDTH * scale))
        self._column.setSpacing(round(_GAP * scale / 2))
        self._offers.setSpacing(round(_GAP * scale / 2))
        self._offers.setContentsMargins(0, round(_GAP * scale / 2), 0, 0)
        self.run_demo.set_icon_side(round(16 * scale))


_COMPACT_BUTTON = 36


def _centred(text: str, role: str, part: str) -> QLabel:
    result = label(text, role, wraps=True)
    result.setProperty("welcome", part)
    result.setAlignment(Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignTop)
    return result


def _sizes(scale: float) -> str:
    title, sentence, about, button, height = (round(size * scale) for size in (32, 17, 13, 15, 46))
    families = ", ".join(f'"{family}"' for family in DISPLAY_FAMILIES)
    return (
        f'QLabel[welcome="title"] {{ font-family: {families}; font-size: {title}px }}'
        f'QLabel[welcome="meaning"] {{ font-size: {sentence}px; font-weight: 500 }}'
        f'QLabel[welcome="sentence"] {{ font-size: {sentence}px }}'
        f'QLabel[welcome="about"] {{ font-size: {about}px }}'
        f"QPushButton {{ font-size: {button}px; min-height: {height}px }}"
    )
