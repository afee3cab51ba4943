"""The page Largest batch: the largest batch that fits, by precision, on this GPU or a smaller one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from PySide6.QtCore import QSize, Signal
from PySide6.QtGui import QIcon, QIntValidator, QResizeEvent
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QFrame, QLineEdit, QStackedLayout, QWidget

from engine.drawing.shapes import Drawing
from engine.experiment.checks import DeviceEntry
from engine.experiment.value import MIB_PER_GIB
from engine.export.formats import LIMIT
from engine.limit.memory_chart import MemoryContent, memory_chart
from engine.protocol.trials import Limit
from engine.words.numbers import times
from gui.charts.painter import DrawingView
from gui.limit.result import ResultPanel
from gui.limit.trials import TrialTable, limit_label, progress_text
from gui.session.studies import StudyView
from gui.setup.check import default_memory_cap, memory_cap_choices
from gui.setup.controls import ChoiceBox
from gui.setup.model.choices import Group, Row
from gui.setup.model.search import SearchBox
from gui.widgets import Button, ElidedLabel, EmptyState, Field, label
from gui.widgets.boxes import Stretch, Surface, in_column, in_row, wide
from gui.widgets.buttons import ExportMenu, StudyMenu
from gui.widgets.labels import plain_tip
from gui.widgets.table.result_table import copy_lines

_GRANULARITIES = (1, 8, 16, 32, 64)
_WIDE, _SIDE, _NARROW_SIDE, _LEAST = 1000, 392, 360, 640
_LOW = 620


class LimitPanel(Surface):
    """The page that shows a search for the largest batch size that fits in memory.

    `options` are the choices of a search, shown in the form: the memory limit, and a number that the batch
    size must be a multiple of. `cpu_limit_gib` is the memory limit chosen for CPUs, None for the default.
    `memory_chosen` carries a size in GiB as text, `use_requested` a batch size for the form, and `copied` a
    sentence that confirms a copy.
    """

    memory_chosen = Signal(str)
    use_requested = Signal(int)
    find_wanted = Signal()
    copied = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("page", parent=parent)
        # the header would ask for more until it is laid out for its width
        self.setMinimumWidth(_LEAST)
        self.cpu_limit_gib: float | None = None
        self._view: StudyView[Limit] | None = None
        self._device: DeviceEntry | None = None
        self._shown: tuple[object, ...] | None = None
        self._note = ElidedLabel("", "legend")
        tip = "Round the batch down to a multiple. 8 suits Tensor Cores."
        self.granularity_box = box = SearchBox("Multiples of", tip, takes_any=True)
        box.setValidator(QIntValidator(1, 1_000_000, box))
        box.set_groups([Group("", [Row(str(size)) for size in _GRANULARITIES])])
        box.set_value(str(_GRANULARITIES[0]))
        self._title, self._unit = ElidedLabel("", "panelTitle"), label("GiB", "unit")
        self.memory = MemoryChooser()
        self.options = QWidget()
        multiples = Field("Multiples of", self.granularity_box)
        in_row(self.memory, multiples, parent=self.options, spacing=12)
        self.chart = MemoryChart()
        self.empty = EmptyState(
            "How large a batch fits in memory, and how much larger is it in mixed precision?",
            "Each trial trains at least three steps with the settings in the form. The search ends when one "
            "batch size fits and the next does not.",
            "Find the largest batch",
            "Search in each precision selected in the form (Ctrl+M)",
            is_solid=True,
        )
        self.result = ResultPanel()
        self.trials = TrialTable()
        self.stop = Button("Stop", "strip", "Stop. Finished trials are kept.", "stop")
        self.export = ExportMenu(self, "largest batch", LIMIT.formats)
        self.export.addSeparator()
        self.export.addAction("Copy table").triggered.connect(self.copy_table)
        self.menu = StudyMenu("search", "trials")
        self.forecast = Button("Forecast", "toggle", "Show the expected memory as a dotted line")
        self.forecast.setChecked(True)
        self._connect()
        self._lay_out()
        self.show_view(None)

    def show_view(self, view: StudyView[Limit] | None) -> None:
        """Show a search so far. None shows the empty state."""
        self._view = view
        self.menu.set_shown(None if view is None or view.is_unfinished else view.key)
        self._note.set_whole_text(progress_text(view) if view is not None else "")
        self.stop.setVisible(view is not None and (view.is_live or view.is_waiting))
        self._fit(self.width() >= _WIDE)
        limit = None if view is None else view.answer
        sides = () if limit is None else limit.sides
        shown = (
            None if view is None else view.key,
            None if limit is None else limit.cap_gib,
            tuple((side.label, side.trials, side.result, side.problem) for side in sides),
        )
        if shown != self._shown or view is None:
            # the worker's phase changes often: the rows are not made again for it
            self._shown = shown
            self.result.show_view(limit, on_gpu=self._on_gpu)
            self.trials.show_view(limit, None if view is None else view.key)
            self._order_tabs()
        self._show_chart()

    def show_device(self, device: DeviceEntry | None, cap: str) -> None:
        """Set the form's device and memory cap."""
        is_other = device != self._device
        self._device = device
        self.memory.show_sizes(device, cap)
        self._order_tabs()
        if is_other:
            self._shown = None
            self.show_view(self._view)

    def show_alone(self) -> None:
        """Hide the parts about another search than the one in view."""
        for part in (self._heading, self._note):
            part.hide()

    def view(self) -> StudyView[Limit] | None:
        return self._view

    def granularity(self) -> int:
        """Return the number of which the answer is a multiple."""
        text = self.granularity_box.currentText().replace(",", "").strip()
        return max(1, int(text)) if text.isdecimal() else 1

    def state(self) -> dict[str, Any]:
        """Return the state to remember, as plain JSON values."""
        return {
            "granularity": self.granularity(),
            "margin": self.result.margin_fraction(),
            "forecast": self.forecast.isChecked(),
            "cpu_limit_gib": self.cpu_limit_gib,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`. Raises KeyError, TypeError or ValueError for a broken one."""
        if state:
            self.granularity_box.setEditText(f"{int(state['granularity'])}")
            self.result.set_margin(float(state["margin"]))
            self.forecast.setChecked(bool(state["forecast"]))
            limit = state["cpu_limit_gib"]
            self.cpu_limit_gib = None if limit is None else float(limit)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit(event.size().width() >= _WIDE)
        self.result.set_dense(event.size().height() < _LOW)

    def _fit(self, is_wide: bool) -> None:
        self._column.setFixedWidth(_SIDE if is_wide else _NARROW_SIDE)
        self._title.set_whole_text("Peak memory by batch size" if is_wide else "Peak memory")
        self._unit.setVisible(is_wide or self.stop.isHidden())

    def _order_tabs(self) -> None:
        # from upper left to lower right, since some widgets are made again
        head = (self.forecast, self.menu.button, self.stop)
        stops = (*head, *self.result.stops(), self.trials.export, self.trials.view)
        for chain in ((self.memory.box, self.granularity_box), stops):
            for stop, next_stop in pairwise(chain):
                QWidget.setTabOrder(stop, next_stop)

    @property
    def _on_gpu(self) -> bool:
        return self._device is None or self._device.is_gpu

    def _show_chart(self) -> None:
        self._pages.setCurrentWidget(self.empty if self._view is None else self.chart)
        limit = None if self._view is None else self._view.answer
        content = content_of(limit, on_gpu=self._on_gpu, shows_forecast=self.forecast.isChecked())
        self.chart.show_content(content, limit.digest if limit is not None else "")

    def copy_table(self) -> None:
        """Copy the table to the clipboard, for a spreadsheet."""
        copy_lines(self.trials.view.lines())
        self.copied.emit("The table is on the clipboard.")

    def _open_export(self) -> None:
        button = self.trials.export
        self.export.popup(button.mapToGlobal(button.rect().bottomLeft()))

    def _connect(self) -> None:
        self.memory.chosen.connect(self.memory_chosen)
        self.granularity_box.currentTextChanged.connect(
            lambda _text: self.result.set_multiple(self.granularity())
        )
        self.result.use_requested.connect(self.use_requested)
        self.empty.pressed.connect(self.find_wanted)
        self.forecast.toggled.connect(lambda _on: self._show_chart())
        self.trials.export.clicked.connect(self._open_export)

    def _lay_out(self) -> None:
        self._heading = label("Largest batch that fits", "title")
        strip = in_row(self._heading, 4, wide(self._note), spacing=8)
        self._column = QWidget()
        in_column(self.result, wide(self.trials), parent=self._column, spacing=8)
        body = in_row(wide(self._chart_panel()), self._column, spacing=8)
        in_column(strip, wide(body), parent=self, margins=16, spacing=8)

    def _chart_panel(self) -> QFrame:
        panel = Surface("panel")
        buttons = (self.forecast, self.menu.button, self.stop)
        head = in_row(self._title, self._unit, Stretch(1), *buttons, spacing=8)
        self._pages = QStackedLayout()
        in_column(head, wide(self._pages), parent=panel, margins=(12, 8, 12, 4), spacing=8)
        # its first page is shown at once, and would be a window of its own before it has its place
        self._pages.addWidget(self.empty)
        self._pages.addWidget(self.chart)
        return panel


class MemoryChart(DrawingView):
    """A chart of the peak memory at each tried batch size. It fills the widget."""

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
        return QSize(680, 480)


def content_of(view: Limit | None, *, on_gpu: bool, shows_forecast: bool) -> MemoryContent:
    """Return the chart's content, which is empty without a search."""
    if view is None:
        return MemoryContent()
    best, ratio = view.best, None
    if view.ratio is not None and best is not None:
        ratio = (view.baseline.largest_batch, best.largest_batch, f"{times(view.ratio)}× the batch")
    limit = view.budget_mib or (None if view.cap_gib is None else view.cap_gib * MIB_PER_GIB)
    return MemoryContent(
        sides=view.sides,
        capacity_gib=None if limit is None else limit / MIB_PER_GIB,
        capacity_words=limit_label(view, on_gpu),
        ratio=ratio,
        shows_forecast=shows_forecast,
    )


_LEAST_GIB = 0.1
_WIDTH = 340


class OtherSize(QDialog):
    """A dialog to enter a memory size that is not in the list of sizes. `agreed` carries the size in GiB.

    After invalid text the dialog stays open and shows the error below the field.
    """

    agreed = Signal(float)

    def __init__(self, title: str, size_gib: float, most_gib: float, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(title)
        self._most_gib = most_gib
        self._range = f"from {_LEAST_GIB:g} to {math.floor(most_gib * 100) / 100:g}"
        self.edit = QLineEdit(f"{size_gib:g}")
        self.edit.setAccessibleName(title)
        self.edit.selectAll()
        self.field = Field(f"GiB, {self._range}", self.edit)
        self.field.setMinimumWidth(_WIDTH)
        kinds = QDialogButtonBox.StandardButton
        buttons = QDialogButtonBox(kinds.Ok | kinds.Cancel)
        for button in buttons.buttons():
            # the style's coloured icons match nothing else here
            button.setIcon(QIcon())
        in_column(self.field, buttons, parent=self, margins=16)
        self.edit.textChanged.connect(lambda _text: self.field.set_problem(None))
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)

    def accept(self) -> None:
        """Close with a valid size, or stay open and show the problem."""
        size = typed_gib(self.edit.text(), self._most_gib)
        if size is None:
            wanted = f"a number {self._range}"
            typed = self.edit.text().strip()
            self.field.set_problem(f"“{typed}” is not {wanted}." if typed else f"Enter {wanted}.")
            # a wrapped label gets its height only from a new layout of the window
            self.adjustSize()
            self.edit.selectAll()
            self.edit.setFocus()
            return
        self.agreed.emit(size)
        super().accept()


def typed_gib(text: str, most_gib: float) -> float | None:
    """Return the typed size, to a hundredth of a GiB. None if it is not a number, or out of range."""
    try:
        size = round(float(text.strip().replace(",", ".")), 2)
    except ValueError:
        return None
    return size if _LEAST_GIB <= size <= math.floor(most_gib * 100) / 100 else None


_TITLE = "Memory cap"
WHOLE = ""
OTHER = "other"
_GPU_TIP = (
    "Simulate a GPU with this much memory. On a real one, CUDA itself needs a few hundred MiB, so keep a "
    "margin."
)
_CPU_TIP = "Limit the memory of the batch. A CPU has no GPU memory as a limit."


class MemoryChooser(Field):
    """A field to limit the memory of the search. `chosen` carries GiB as text, or "" for all memory."""

    chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        self.box = ChoiceBox(_TITLE, _GPU_TIP)
        super().__init__(_TITLE, self.box, parent=parent)
        self._device: DeviceEntry | None = None
        self.value = WHOLE
        self.box.edited.connect(self._take)

    def show_sizes(self, device: DeviceEntry | None, cap: str) -> None:
        """Offer the sizes for `device`, with the form's `cap` chosen."""
        self._device, self.value = device, _key(cap, device)
        self.setVisible(device is not None)
        choices = _choices(device, self.value)
        if list(choices) != list(self.box.choices()):
            # one that is no longer offered would be added
            self.box.clear()
            self.box.set_choices(choices)
        self.box.setToolTip(plain_tip(_GPU_TIP if device is None or device.is_gpu else _CPU_TIP))
        self.box.set_value(self.value)

    def _take(self, key: str) -> None:
        if key != OTHER:
            self.chosen.emit(key)
            return
        # the old choice stays until a size has been typed
        self.box.set_value(self.value)
        if self._device is not None:
            most = self._device.memory_mib / MIB_PER_GIB
            dialog = OtherSize(_TITLE, float(self.value or most), most, self)
            dialog.agreed.connect(lambda size: self.chosen.emit(f"{size:g}"))
            dialog.finished.connect(dialog.deleteLater)
            dialog.open()


def _choices(device: DeviceEntry | None, value: str) -> tuple[tuple[str, str], ...]:
    if device is None:
        return ()
    sizes = set(memory_cap_choices(device)) | ({float(value)} if value else set())
    numbers = [(f"{size:g}", f"{size:g} GiB") for size in sorted(sizes)]
    whole = [(WHOLE, "This GPU")] if device.is_gpu else []
    return (*numbers, *whole, (OTHER, "Other…"))


def _key(cap: str, device: DeviceEntry | None) -> str:
    try:
        size = float(cap)
    except ValueError:
        size = 0.0
    if 0 < size < 100_000:
        return f"{size:g}"
    usual = default_memory_cap(device)
    return WHOLE if usual is None else f"{usual:g}"
