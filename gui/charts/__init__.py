"""Live plots: curves of the precisions in one frame, with the legend as the readout."""

from gui.charts.curves import Curve
from gui.charts.live_plot import LivePlot, PlotSpec

__all__ = ["Curve", "LivePlot", "PlotSpec"]
