"""The parallel coordinates of a sweep; ranges brushed on a coordinate filter the cells."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeyEvent, QMouseEvent

from engine.sweep.pictures.parallel import Coordinate, ParallelPicture, Range, parallel
from engine.sweep.pictures.picture import CellPicture, shown_figures
from engine.sweep.results import Results
from gui.sweep.views.choosers import Chooser
from gui.sweep.views.picture_view import CellCanvas, PictureView, figure_entries, figure_named
from gui.widgets import Button, ElidedLabel
from gui.widgets.boxes import in_row, wide

_REACH = 12.0
_LEAST_BRUSH = 4.0
_HOW = "Drag along an upright line to keep only the cells within that range; click on the line to keep all."


class _Canvas(CellCanvas):
    """Brushes ranges on coordinates."""

    def __init__(self, name: str, view: ParallelView) -> None:
        super().__init__(name, view)
        self._of = view
        self._brushed: Coordinate | None = None
        self._from = 0.0

    def mousePressEvent(self, event: QMouseEvent) -> None:
        super().mousePressEvent(event)
        x, y = event.position().x(), event.position().y()
        self._brushed = self._near(x) if event.button() is Qt.MouseButton.LeftButton else None
        self._from = y

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._brushed is None:
            super().mouseMoveEvent(event)
            if self._near(event.position().x()) is not None:
                self.setCursor(Qt.CursorShape.SizeVerCursor)
        elif abs(event.position().y() - self._from) >= _LEAST_BRUSH:
            self._of.brush(self._brushed, self._from, event.position().y())

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        coordinate, self._brushed = self._brushed, None
        if coordinate is None:
            super().mouseReleaseEvent(event)
            return
        if abs(event.position().y() - self._from) < _LEAST_BRUSH:
            self._of.forget(coordinate.key)
        self._of.choose_passing()

    def _near(self, x: float) -> Coordinate | None:
        return next((entry for entry in self._of.coordinates if abs(entry.x - x) <= _REACH), None)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape and self._of.ranges():
            self._of.forget()
            self._of.choose_passing()
            return
        super().keyPressEvent(event)


class ParallelView(PictureView):
    """Every axis and figure as an upright line, and a line across for every cell."""

    def __init__(self) -> None:
        self._ranges: dict[str, Range] = {}
        self._picture: ParallelPicture | None = None
        super().__init__("Parallel coordinates of the sweep")
        self.canvas.setAccessibleDescription(_HOW)
        self.shade = Chooser("Shade", "The figure that the shades show")
        self.shade.changed.connect(self.canvas.redraw)
        self.all = Button("Keep all", "strip", "Forget the ranges, so that every cell is kept")
        self.all.clicked.connect(self._keep_all)
        self._count = ElidedLabel("", "legend")
        self.rows.addLayout(in_row(self.shade, self.all, wide(self._count), spacing=12))

    def make_canvas(self, name: str) -> CellCanvas:
        return _Canvas(name, self)

    @property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """The upright lines, as they are drawn."""
        picture = self._drawn()
        return () if picture is None else picture.coordinates

    def ranges(self) -> dict[str, Range]:
        """The ranges by the keys of their coordinates."""
        return dict(self._ranges)

    def brush(self, coordinate: Coordinate, one: float, other: float) -> None:
        """Keeps the cells between two heights on a coordinate, in pixels."""
        low, high = sorted((coordinate.fraction(one), coordinate.fraction(other)))
        self._ranges[coordinate.key] = (low, high)
        self._redraw()

    def forget(self, key: str | None = None) -> None:
        """Forgets the range on a coordinate, or all."""
        if key is None:
            self._ranges.clear()
        else:
            self._ranges.pop(key, None)
        self._redraw()

    def mark_cells(self, cells: Iterable[int]) -> None:
        """Frames cells that were chosen elsewhere; those that pass the ranges are seen anyway."""
        chosen = tuple(cells)
        picture = self._drawn() if self._ranges else None
        super().mark_cells(() if picture is not None and chosen == picture.passing else chosen)

    def choose_passing(self) -> None:
        """Chooses the cells that pass the ranges; none where there is no range."""
        picture = self._drawn() if self._ranges else None
        self.cells_chosen.emit(() if picture is None else picture.passing)

    def offer(self, results: Results, *, is_other_grid: bool) -> None:
        self.shade.offer(figure_entries(results), results.figures[0].name)
        if is_other_grid:
            self._ranges.clear()

    def show_results(self, results: Results | None) -> None:
        super().show_results(results)
        self._say()

    def drawn(self, results: Results, size: tuple[float, float]) -> CellPicture:
        figures = shown_figures(results)
        shade = figure_named(results, self.shade.key())
        self._picture = parallel(results, figures, shade, self._ranges, size)
        return self._picture

    def _drawn(self) -> ParallelPicture | None:
        """The picture as it is now."""
        self.canvas.spots()
        return self._picture

    def _redraw(self) -> None:
        self.canvas.redraw()
        self._say()

    def _say(self) -> None:
        """How many cells pass the ranges, or how to make some."""
        picture = self._drawn() if self._ranges else None
        kept = "" if picture is None else f"{len(picture.passing):,} of {picture.count:,} cells"
        self._count.set_whole_text(kept or _HOW)
        self.all.setVisible(bool(self._ranges))

    def _keep_all(self) -> None:
        self.forget()
        self.choose_passing()
