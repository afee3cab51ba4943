"""The side of Show that tells the memory: two tanks, and in words how they compare."""

from __future__ import annotations

from PySide6.QtWidgets import QFrame, QVBoxLayout

from engine.records.plain_numbers import memory_unit_text
from gui.panels.show_scale import Scale
from gui.panels.show_span import Span
from gui.panels.show_text import TextBlock, TextRow
from gui.race.tank_view import TanksView
from gui.widgets import divider

_WIDTH, _LEAST_WIDTH = 272, 192


def memory_width(scale: Scale) -> int:
    """How wide this side is, in pixels."""
    return max(scale.px(_WIDTH), _LEAST_WIDTH)


class ShowMemory(QFrame):
    """Peaks in MiB; None where one is not measured."""

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("surface", "showPanel")
        self._title, self._below = TextRow(), TextBlock(14)
        self._title.set_spans([Span("Memory used", 20, 600)])
        self._title.set_told("Memory used at its highest point")
        self.tanks = TanksView()
        self.show_peaks(None, None)
        self._line = divider()
        self._strong, self._rest = TextBlock(20, 600, "text"), TextBlock(14)
        self._column, self._head, self._foot = QVBoxLayout(self), QVBoxLayout(), QVBoxLayout()
        for one, place in (
            (self._title, self._head),
            (self._below, self._head),
            (self._strong, self._foot),
            (self._rest, self._foot),
        ):
            place.addWidget(one)
        self._column.addLayout(self._head)
        self._column.addWidget(self.tanks, 1)
        self._column.addWidget(self._line)
        self._column.addLayout(self._foot)

    def set_scale(self, scale: Scale) -> None:
        self.setFixedWidth(memory_width(scale))
        for one in (self._title, self._below, self._strong, self._rest):
            one.set_scale(scale)
        side, end = scale.px(28), scale.px(26)
        self._column.setContentsMargins(side, end, side, end)
        for place in (self._head, self._foot):
            place.setSpacing(scale.px(5))
        self._column.setSpacing(scale.px(16))

    def show_peaks(self, full_mib: float | None, mixed_mib: float | None) -> None:
        self.tanks.set_peaks(full_mib, mixed_mib)
        # the second line keeps its place before there is an amount
        self._below.set_words(f"at its highest point\n{memory_unit_text(full_mib, mixed_mib)}")

    def show_words(self, words: tuple[str, str]) -> None:
        """A strong line and the one below it; nothing where both are empty."""
        self._strong.set_words(words[0])
        self._rest.set_words(words[1])
        self._strong.setVisible(bool(words[0]))
        self._rest.setVisible(bool(words[1]))
        self._line.setVisible(any(words))

    def set_fill(self, fraction: float) -> None:
        """How far the tanks are filled on their way to their peaks, 0 to 1."""
        self.tanks.set_fill(fraction)

    def words(self) -> tuple[str, str]:
        return self._strong.words(), self._rest.words()
