"""The heat map and the lines of a sweep, over axes of one's choice."""

from __future__ import annotations

from engine.sweep.pictures.heat_map import heat_map
from engine.sweep.pictures.lines import lines
from engine.sweep.pictures.picture import CellPicture, usual_axes, usual_lines
from engine.sweep.results import Results
from gui.sweep.views.picture_view import PictureView, Slice, figure_named


class HeatMapView(PictureView):
    """A figure over two axes, each cell in a shade of its value."""

    is_map = True

    def __init__(self) -> None:
        super().__init__("Heat map of the sweep")
        self.slice = Slice(self, "Across", "Down", "The axis downwards")

    def offer(self, results: Results, *, is_other_grid: bool) -> None:
        self.slice.offer(results, usual_axes(results.grid), is_other_grid=is_other_grid)

    def drawn(self, results: Results, size: tuple[float, float]) -> CellPicture:
        figure = figure_named(results, self.slice.figure.key())
        return heat_map(results, *self.slice.axes(), figure, self.slice.at(), size)


class LinesView(PictureView):
    """A figure over an axis, a line for every value of another."""

    def __init__(self) -> None:
        super().__init__("Lines of the sweep")
        self.slice = Slice(self, "Over", "Lines", "The axis with a line for every value")

    def offer(self, results: Results, *, is_other_grid: bool) -> None:
        self.slice.offer(results, usual_lines(results.grid), is_other_grid=is_other_grid)

    def drawn(self, results: Results, size: tuple[float, float]) -> CellPicture:
        figure = figure_named(results, self.slice.figure.key())
        return lines(results, *self.slice.axes(), figure, self.slice.at(), size)
