"""Live plots: curves of the precisions in one frame, with the legend as the readout."""

from gui.plots.curves import Curve
from gui.plots.live_plot import LivePlot, PlotSpec

__all__ = ["Curve", "LivePlot", "PlotSpec"]
