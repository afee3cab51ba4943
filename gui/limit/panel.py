"""The page Largest batch: the largest batch that fits, by precision, on this GPU or a smaller one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from PySide6.QtCore import QSize, Signal
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.drawing.shapes import Drawing
from engine.experiment.checks import DeviceEntry
from engine.experiment.experiment import Precision
from engine.export.document import Document
from engine.export.formats import LIMIT
from engine.export.kinds import limit
from engine.limit.driver import DEFAULT_MARGIN
from engine.limit.memory_chart import MemoryContent, memory_chart
from engine.limit.result import throughput_sentences
from engine.protocol.trials import Limit
from gui.answer.page import PageTexts, StudyPage, state_words
from gui.charts.painter import DrawingView
from gui.limit.options import LimitOptions
from gui.session.views import StudyView
from gui.widgets import Button, ComboBox, EmptyState, label
from gui.widgets.boxes import Stretch, in_column, in_row, wide
from gui.widgets.labels import describe

_MARGINS = (0, 5, 10, 15, 20, 30)
_GUIDE = "largest-batch"


class ShownLimit(NamedTuple):
    """A search with the choices of its recommended batches."""

    limit: Limit
    margin_fraction: float
    multiple: int


class LimitPanel(StudyPage[StudyView[Limit]]):
    """The page that shows a search for the largest batch size that fits in memory.

    `options` are the choices of a search, shown in the form. `cpu_limit_gib` is the memory limit chosen for
    CPUs, None for the default. `memory_chosen` carries a size in GiB as text.
    """

    memory_chosen = Signal(str)
    kind = PageTexts("Largest batch", "limit", "search", "trials", LIMIT.formats)
    guides: ClassVar[Mapping[str, str]] = dict.fromkeys(
        (limit.MEMORY, limit.THROUGHPUT, limit.TRIALS), _GUIDE
    )

    def __init__(self, parent: QWidget | None = None) -> None:
        self.cpu_limit_gib: float | None = None
        empty = EmptyState(
            "How large a batch fits in memory, and how much larger is it in mixed precision?",
            "Each trial trains at least three steps with the settings in the form. The search ends when one "
            "batch size fits and the next does not.",
        )
        self.options = LimitOptions()
        self.memory = self.options.memory
        self.margin = ComboBox()
        self.margin.setProperty("small", "true")
        describe(self.margin, "Margin", "Choose how much memory the recommended batch leaves free")
        for percent in _MARGINS:
            self.margin.addItem(f"{percent}% margin" if percent else "no margin", percent / 100)
        self.set_margin(DEFAULT_MARGIN)
        self.shows_forecast = True
        widgets = {"memory": self._memory_view, "throughput": ThroughputView}
        super().__init__(empty, (self.margin,), widgets, parent)
        self.memory.chosen.connect(self.memory_chosen)
        self.options.granularity_box.currentTextChanged.connect(lambda _text: self.show_view(self.view()))
        self.margin.currentIndexChanged.connect(lambda _index: self.show_view(self.view()))
        self.show_view(None)

    def show_view(self, view: StudyView[Limit] | None) -> None:
        super().show_view(view)
        self.margin.setVisible(view is not None and view.answer.is_known)

    def show_device(self, device: DeviceEntry | None, cap: str) -> None:
        """Set the form's device and memory cap."""
        self.memory.show_sizes(device, cap)

    def document(self, view: StudyView[Limit]) -> Document:
        shown = self.answer_of(view)
        return limit.document(view.study, margin_fraction=shown.margin_fraction, multiple=shown.multiple)

    def answer_of(self, view: StudyView[Limit]) -> ShownLimit:
        return ShownLimit(view.answer, self.margin_fraction(), self.options.granularity())

    def note(self, view: StudyView[Limit]) -> str:
        busy = next((side for side in view.answer.sides if side.trying is not None), None)
        if view.is_live and not view.is_waiting and busy is not None:
            return f"trying {busy.trying:,} in {busy.label} ({view.doing or 'starting a process'})"
        return state_words(view, view.answer.experiments[0].model, "getting ready")

    def progress(self, view: StudyView[Limit]) -> tuple[float, Precision | None]:
        sides = view.answer.sides
        busy = next((side.precision for side in sides if side.trying is not None), None)
        return sum(side.is_over for side in sides) / len(sides), busy

    def margin_fraction(self) -> float:
        """Return the share of the memory that the recommended batch leaves free."""
        return float(self.margin.currentData())

    def set_margin(self, fraction: float) -> None:
        """Select the memory margin `fraction`, if it is one of the choices."""
        row = self.margin.findData(fraction)
        if row >= 0:
            self.margin.setCurrentIndex(row)

    def state(self) -> dict[str, Any]:
        """Return the state to remember, as plain JSON values."""
        return {
            "granularity": self.options.granularity(),
            "margin": self.margin_fraction(),
            "forecast": self.shows_forecast,
            "cpu_limit_gib": self.cpu_limit_gib,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`. Raises KeyError, TypeError or ValueError for a broken one."""
        if state:
            self.options.granularity_box.setEditText(f"{int(state['granularity'])}")
            self.set_margin(float(state["margin"]))
            self.shows_forecast = bool(state["forecast"])
            cpu_limit = state["cpu_limit_gib"]
            self.cpu_limit_gib = None if cpu_limit is None else float(cpu_limit)

    def _memory_view(self) -> MemoryView:
        view = MemoryView(self.shows_forecast)
        view.forecast.toggled.connect(self._keep_forecast)
        return view

    def _keep_forecast(self, is_shown: bool) -> None:
        self.shows_forecast = is_shown


class MemoryView(QWidget):
    """The chart of the peak memory at each tried batch size, with a button for its forecast."""

    def __init__(self, shows_forecast: bool) -> None:
        super().__init__()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self._limit: Limit | None = None
        self.forecast = Button("Forecast", "toggle", "Show the expected memory as a dotted line")
        self.forecast.setChecked(shows_forecast)
        self.forecast.toggled.connect(lambda _on: self._show())
        self.chart = MemoryChart()
        title = label("Peak memory by batch size", "panelTitle")
        head = in_row(title, label("GiB", "unit"), Stretch(1), self.forecast, spacing=8)
        in_column(head, wide(self.chart), parent=self, spacing=8)

    def show_answer(self, answer: ShownLimit) -> None:
        """Show the trials of a search."""
        self._limit = answer.limit
        self._show()

    def _show(self) -> None:
        if self._limit is not None:
            content = limit.memory_content(self._limit, shows_forecast=self.forecast.isChecked())
            self.chart.show_content(content, self._limit.digest)


class ThroughputView(QWidget):
    """The chart of the throughput of one step at each tried batch size."""

    def __init__(self) -> None:
        super().__init__()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.chart = MemoryChart()
        title = label("Throughput of one step by batch size", "panelTitle")
        head = in_row(title, label("samples/s", "unit"), Stretch(1), spacing=8)
        in_column(head, wide(self.chart), parent=self, spacing=8)

    def show_answer(self, answer: ShownLimit) -> None:
        """Show the trials of a search."""
        words = " ".join(throughput_sentences(answer.limit)) or "Throughput of one step by batch size"
        self.chart.show_content(limit.throughput_content(answer.limit), words)


class MemoryChart(DrawingView):
    """A chart of the memory or throughput at each tried batch size. It fills the widget."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.content = MemoryContent()
        self.setMinimumSize(220, 160)

    def show_content(self, content: MemoryContent, description: str) -> None:
        """Show these trials. `description` is the same in words, for screen readers."""
        self.setAccessibleName(description or "Peak memory by batch size")
        if content != self.content:
            self.content = content
            self.update()

    def drawing(self) -> Drawing:
        if not self.content.sides:
            return Drawing(0, 0, ())
        return memory_chart(self.content, (self.width(), self.height()), self.accessibleName())

    def sizeHint(self) -> QSize:
        return QSize(680, 280)
