"""The scatter of a sweep: its cells by two figures, in the shade of a third."""

from __future__ import annotations

from engine.compare.figures import ACCURACY, PEAK_MEMORY, SPEED
from engine.sweep.pictures.picture import CellPicture
from engine.sweep.pictures.scatter import scatter
from engine.sweep.results import Results
from gui.sweep.views.choosers import Chooser, chooser_row
from gui.sweep.views.picture_view import PictureView, figure_entries, figure_named


class ScatterView(PictureView):
    """Speed against memory in the shade of the accuracy, or any other figures, with the Pareto front."""

    def __init__(self) -> None:
        super().__init__("Scatter of the sweep")
        self.across = Chooser("Across", "The figure across")
        self.up = Chooser("Upwards", "The figure upwards")
        self.shade = Chooser("Shade", "The figure that the shades show; without any, precisions have colours")
        for chooser in (self.across, self.up, self.shade):
            chooser.changed.connect(self.canvas.redraw)
        self.rows.addLayout(chooser_row(self.up, self.across, self.shade))

    def offer(self, results: Results, *, is_other_grid: bool) -> None:
        entries = figure_entries(results)
        names = [name for name, _ in entries]
        self.across.offer(entries, PEAK_MEMORY.name if PEAK_MEMORY.name in names else names[-1])
        self.up.offer(entries, SPEED.name if SPEED.name in names else names[0])
        usual = ACCURACY.name if ACCURACY.name in names else None
        self.shade.offer([(None, "none"), *entries], usual)

    def drawn(self, results: Results, size: tuple[float, float]) -> CellPicture:
        x, y = (figure_named(results, chooser.key()) for chooser in (self.across, self.up))
        shade = None if self.shade.key() is None else figure_named(results, self.shade.key())
        return scatter(results, x, y, shade, size)
