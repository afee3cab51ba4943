"""The charts of a sweep with choosers of axes and metrics, in which cells can be selected."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.compare.metrics import ACCURACY, PEAK_MEMORY, SPEED, Metric
from engine.drawing.shapes import Drawing, TextLine
from engine.experiment.sweep import Grid
from engine.sweep.chart import (
    CellChart,
    CellSpot,
    cell_words,
    default_axes,
    default_lines,
    default_places,
    shown_figures,
)
from engine.sweep.heat_map import heat_map
from engine.sweep.lines import lines
from engine.sweep.results import WEAK, Results
from engine.sweep.scatter import scatter
from gui.charts.painter import InteractiveDrawing
from gui.widgets import ComboBox, ElidedLabel, label
from gui.widgets.boxes import Stretch, discard, in_column, in_row, wide

_LEAST_WIDTH, _MOST_WIDTH = 84, 148


class Chooser(QWidget):
    """A combo box with a title at its left. `changed` is emitted when the user chooses another entry."""

    changed = Signal()

    def __init__(self, title: str, tooltip: str) -> None:
        super().__init__()
        self.box = ComboBox()
        self.box.setProperty("small", "true")
        self.box.setFixedHeight(28)
        self.box.setMinimumWidth(_LEAST_WIDTH)
        self.box.setMaximumWidth(_MOST_WIDTH)
        self.box.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.box.setSizeAdjustPolicy(ComboBox.SizeAdjustPolicy.AdjustToContents)
        self.box.setAccessibleName(title)
        self.box.setToolTip(tooltip)
        self.box.activated.connect(self.changed)
        self._keys: list[Hashable] = []
        self._usual: Hashable = None
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        in_row(label(title, "legend"), self.box, parent=self, spacing=6)

    def offer(self, entries: Sequence[tuple[Hashable, str]], usual: Hashable) -> None:
        """Offer these keys with their texts. The choice is kept, unless it was the default."""
        keys, texts = [key for key, _ in entries], [text for _, text in entries]
        if keys == self._keys and texts == [self.box.itemText(place) for place in range(self.box.count())]:
            # its list may be open
            return
        wanted = self.key() if self.key() != self._usual and self.key() in keys else usual
        self._keys, self._usual = keys, usual
        self.box.clear()
        self.box.addItems(texts)
        self.choose(wanted)

    def choose(self, key: Hashable) -> None:
        """Choose an entry, without `changed`. An unknown entry changes nothing."""
        if key in self._keys:
            self.box.setCurrentIndex(self._keys.index(key))

    def key(self) -> Hashable:
        """Return the chosen key. None without entries."""
        place = self.box.currentIndex()
        return self._keys[place] if 0 <= place < len(self._keys) else None


_LEAST_SIZE = QSize(420, 200)
_NO_RESULTS = "No results yet."
_DIRECTIONS = {
    Qt.Key.Key_Left: (-1, 0),
    Qt.Key.Key_Right: (1, 0),
    Qt.Key.Key_Up: (0, -1),
    Qt.Key.Key_Down: (0, 1),
}


class CellCanvas(InteractiveDrawing[CellSpot]):
    """The drawing area of a sweep's chart, in which cells can be selected by mouse or keys.

    `view` makes the drawing. `cells_chosen` carries the indexes of the selected cells.
    """

    cells_chosen = Signal(object)
    fills_height = True

    def __init__(self, name: str, view: ChartView) -> None:
        super().__init__(name)
        self._view = view
        self._cells: tuple[int, ...] = ()
        self.setMinimumSize(_LEAST_SIZE)
        self.setToolTipDuration(60_000)

    def sizeHint(self) -> QSize:
        # it takes the room that is left, and needs no more
        return _LEAST_SIZE

    def drawn(self, width: float) -> tuple[Drawing, Sequence[CellSpot]]:
        picture = self._view.draw((width, float(max(self.height(), _LEAST_SIZE.height()))))
        if picture is None:
            words = TextLine(width / 2, self.height() / 2, _NO_RESULTS, "text3", 13, anchor="middle")
            return Drawing(width, float(self.height()), (words,), _NO_RESULTS), ()
        return picture.drawing, picture.spots

    def tip(self, spot: CellSpot) -> str:
        return self._view.tip(spot.cell)

    def outline(self, spot: CellSpot) -> QRectF:
        return QRectF(spot.x, spot.y, spot.width, spot.height)

    def stops(self) -> Sequence[CellSpot]:
        return sorted(self.spots(), key=lambda spot: (spot.cell, spot.x))

    def marked(self) -> Iterable[CellSpot]:
        return (spot for spot in self.spots() if spot.cell in self._cells)

    def next_stop(self, key: Qt.Key) -> CellSpot | None:
        current = self.current
        if current is None or not self._view.is_map:
            return super().next_stop(key)
        along, across = _DIRECTIONS.get(key, (0, 0))
        if not along and not across:
            return None
        # the neighbour is where the next cell's middle would be
        x = current.x + current.width * (along + 0.5)
        y = current.y + current.height * (across + 0.5)
        return next((spot for spot in self.spots() if spot.holds(x, y)), current)

    def press(self, spot: CellSpot, *, adds: bool) -> None:
        kept = [cell for cell in self._cells if cell != spot.cell] if adds else []
        is_removed = adds and spot.cell in self._cells
        self.mark_cells((*kept, *(() if is_removed else (spot.cell,))))
        self.cells_chosen.emit(self._cells)

    def mark_cells(self, cells: Iterable[int]) -> None:
        """Frame the chosen cells."""
        self._cells = tuple(cells)
        self.update()


class ChartView(QWidget):
    """The base of all charts of a sweep, with a title and choosers of what to plot. Subclasses draw it.

    `cells_chosen` carries the indexes of the cells that are clicked, or selected with Enter. With Ctrl, a
    cell is added to the selection or removed from it.
    """

    cells_chosen = Signal(object)
    name = ""
    is_map = False
    """True if its cells lie in rows and columns, through which arrow keys lead."""

    def __init__(self) -> None:
        super().__init__()
        self.results: Results | None = None
        self._axes: tuple[str, ...] = ()
        self._choosers: list[Chooser] = []
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.title, self.note = ElidedLabel("", "panelTitle"), ElidedLabel("", "unit")
        self.canvas = CellCanvas(self.name, self)
        self.canvas.cells_chosen.connect(self.cells_chosen)
        self._head, self._fixed = (
            in_row(self.title, wide(self.note), spacing=12),
            in_row(Stretch(1), spacing=12),
        )
        in_column(self._head, self._fixed, wide(self.canvas), parent=self, spacing=8)

    def add_chooser(self, title: str, tooltip: str) -> Chooser:
        """Return a new chooser in the row of the title."""
        chooser = Chooser(title, tooltip)
        chooser.changed.connect(self.refresh)
        # without results it has no entry, and would keep the width of none
        chooser.hide()
        self._choosers.append(chooser)
        self._head.addWidget(chooser)
        return chooser

    def show_answer(self, answer: Results | None) -> None:
        """Show these results, with the chosen axes and metrics where they exist. None shows nothing."""
        self.results = answer if answer is not None and answer.figures else None
        if self.results is not None:
            axes = tuple(axis.key for axis in self.results.grid.axes)
            is_other, self._axes = axes != self._axes, axes
            self.offer(self.results, is_other_grid=is_other)
        for chooser in self._choosers:
            chooser.setVisible(self.results is not None)
        self.refresh()

    def refresh(self) -> None:
        """Draw the chosen chart."""
        self.canvas.redraw()
        chart = self.draw((float(self.canvas.width()), float(self.canvas.height())))
        self.title.set_whole_text("" if chart is None else chart.title)
        self.note.set_whole_text("" if chart is None else chart.note)

    def draw(self, size: tuple[float, float]) -> CellChart | None:
        """Return the chosen chart in this size. None without results."""
        return None if self.results is None else self.drawn(self.results, size)

    def offer(self, results: Results, *, is_other_grid: bool) -> None:
        """Fill the choosers."""
        raise NotImplementedError

    def drawn(self, results: Results, size: tuple[float, float]) -> CellChart:
        """Return the chosen chart of these results."""
        raise NotImplementedError

    def tip(self, cell: int) -> str:
        if self.results is None:
            return ""
        return cell_words(self.results.cells[cell], shown_figures(self.results))


def figure_entries(results: Results) -> list[tuple[str, str]]:
    """Return the metrics to choose from, by their names."""
    return [(figure.name, figure.title) for figure in shown_figures(results)]


def figure_named(results: Results, name: object) -> Metric:
    """Return the metric of this name, or the first metric if there is none."""
    figures = shown_figures(results)
    return next((figure for figure in figures if figure.name == name), figures[0])


class ScatterView(ChartView):
    """A chart of a sweep's cells by two metrics, by default throughput and memory, with the Pareto front.

    A third metric can be shown as shade.
    """

    name = "Scatter plot of the sweep"

    def __init__(self) -> None:
        super().__init__()
        self.up = self.add_chooser("Y axis", "Choose the metric on the vertical axis")
        self.across = self.add_chooser("X axis", "Choose the metric on the horizontal axis")
        self.shade = self.add_chooser("Shade", "Color the marks by this metric, or by precision")

    def offer(self, results: Results, *, is_other_grid: bool) -> None:
        entries = figure_entries(results)
        names = [name for name, _ in entries]
        self.across.offer(entries, PEAK_MEMORY.name if PEAK_MEMORY.name in names else names[-1])
        self.up.offer(entries, SPEED.name if SPEED.name in names else names[0])
        # the marks of precisions have their own colors
        has_precisions = any(axis.key == "precision" for axis in results.grid.axes)
        usual = ACCURACY.name if ACCURACY.name in names and not has_precisions else None
        self.shade.offer([(None, "none"), *entries], usual)

    def drawn(self, results: Results, size: tuple[float, float]) -> CellChart:
        x, y = (figure_named(results, chooser.key()) for chooser in (self.across, self.up))
        shade = None if self.shade.key() is None else figure_named(results, self.shade.key())
        return scatter(results, x, y, shade, size)


class SliceView(ChartView):
    """The base of charts that show a metric over two axes of a sweep, at one value on every other axis.

    A subclass names the second axis, and draws the chart in `picture`.
    """

    second: tuple[str, str]
    """The title of the chooser of the second axis, and its tooltip."""
    picture: staticmethod[..., CellChart]
    usual: staticmethod[[Grid], tuple[int, int | None]]
    first = ""
    """The name of the metric that is shown first, if the results have it."""

    def __init__(self) -> None:
        super().__init__()
        self.figure = self.add_chooser("Metric", "Choose the metric to show")
        self.across = self.add_chooser("Across", "Choose the horizontal axis")
        self.other = self.add_chooser(*self.second)
        self._at: list[Chooser] = []

    def axes(self) -> tuple[int, int | None]:
        """Return the places of the two axes. The second is None if there is only one."""
        x, other = self.across.key(), self.other.key()
        return x if isinstance(x, int) else 0, other if isinstance(other, int) else None

    def at(self) -> tuple[int, ...]:
        """Return the place on every axis. Axes that are not shown start at the best cell."""
        return tuple(place if isinstance(place := chooser.key(), int) else 0 for chooser in self._at)

    def offer(self, results: Results, *, is_other_grid: bool) -> None:
        axes, usual = results.grid.axes, self.usual(results.grid)
        titles = [(place, axis.title) for place, axis in enumerate(axes)]
        several = [entry for entry in titles if len(axes[entry[0]].values) > 1] or titles[:1]
        figure = next((each for each in results.figures if each.name == self.first), results.figures[0])
        self.figure.offer(figure_entries(results), figure.name)
        self.across.offer(several, usual[0])
        self.other.offer([(None, "none"), *several], usual[1])
        if is_other_grid:
            self.across.choose(usual[0])
            self.other.choose(usual[1])
            self._offer_values(results)

    def refresh(self) -> None:
        x, other = self.axes()
        if x == other:
            # an axis is not shown twice
            self.other.choose(None)
            x, other = self.axes()
        for place, chooser in enumerate(self._at):
            chooser.setVisible(place not in (x, other) and chooser.box.count() > 1)
        super().refresh()

    def drawn(self, results: Results, size: tuple[float, float]) -> CellChart:
        return self.picture(results, *self.axes(), figure_named(results, self.figure.key()), self.at(), size)

    def _offer_values(self, results: Results) -> None:
        discard(self._fixed, *self._at)
        best = default_places(results, results.figures[0])
        self._at = []
        for place, axis in enumerate(results.grid.axes):
            chooser = Chooser(axis.title, f"Show combinations with this value of {axis.title}")
            chooser.offer([(number, axis.text(number)) for number in range(len(axis.values))], best[place])
            chooser.changed.connect(self.refresh)
            self._at.append(chooser)
            self._fixed.addWidget(chooser)


class HeatMapView(SliceView):
    """A heat map of a sweep: a metric over two axes, as the shade of each cell."""

    name = "Heat map of the sweep"
    is_map = True
    second = ("Down", "Choose the vertical axis")
    picture, usual = staticmethod(heat_map), staticmethod(default_axes)


class LinesView(SliceView):
    """A line chart of a sweep: a metric over one axis, with one line for each value of another."""

    name = "Lines of the sweep"
    second = ("Lines", "Draw a line for each value of this setting")
    picture, usual = staticmethod(lines), staticmethod(default_lines)
    first = WEAK.name
