"""The memory limit's chart in the window."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QWidget

from engine.drawing.shapes import Drawing
from engine.experiment.value import MIB_PER_GIB
from engine.limit.memory_chart import memory_chart
from engine.limit.memory_range import MemoryContent
from engine.words.numbers import times
from gui.charts.painter import Painted
from gui.limit.words import capacity
from gui.session.orders.searches import SearchView


class MemoryChart(Painted):
    """The engine's chart, as large as the widget."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._content = MemoryContent()
        self.setMinimumSize(220, 160)

    def show_content(self, content: MemoryContent, description: str) -> None:
        """Shows these trials; `description` is the same in words, for screen readers."""
        self.setAccessibleName(description or "Peak memory by batch size")
        if content != self._content:
            self._content = content
            self.update()

    def content(self) -> MemoryContent:
        return self._content

    def drawing(self) -> Drawing:
        if not self._content.sides:
            return Drawing(0, 0, ())
        return memory_chart(self._content, (self.width(), self.height()), self.accessibleName())

    def sizeHint(self) -> QSize:
        return QSize(680, 480)


def content_of(view: SearchView | None, *, on_gpu: bool, shows_forecast: bool) -> MemoryContent:
    """The chart's content; empty without a search."""
    if view is None:
        return MemoryContent()
    limit = view.budget_mib or (None if view.cap_gib is None else view.cap_gib * MIB_PER_GIB)
    return MemoryContent(
        # the worker's phase changes often, and is not painted
        sides=tuple(replace(side, doing="") for side in view.sides),
        capacity_gib=None if limit is None else limit / MIB_PER_GIB,
        capacity_words=capacity(view, on_gpu),
        ratio=_ratio(view),
        shows_forecast=shows_forecast,
    )


def _ratio(view: SearchView) -> tuple[int, int, str] | None:
    if view.ratio is None or view.best is None:
        return None
    return view.baseline.largest_batch, view.best.largest_batch, f"{times(view.ratio)}× the batch"
