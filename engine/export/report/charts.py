"""The charts of a comparison: bars of throughput and memory, curves of loss and accuracy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from engine.compare.metrics import PEAK_MEMORY, SPEED
from engine.compare.ranking import MANY, RankedSide, ranking
from engine.compare.sides import Side
from engine.curves import Columns
from engine.drawing.bar_chart import ChartBar, bar_chart
from engine.drawing.chart_parts import LegendEntry
from engine.drawing.curve_chart import (
    PlotArea,
    Points,
    RunCurve,
    bounds,
    bounds_of,
    curve_chart,
    label_room,
    last_x,
    smoothed,
)
from engine.drawing.looks import By, ChartName, SideLook, side_looks
from engine.drawing.loss_charts import difference_to_baseline, time_to_loss
from engine.drawing.shapes import Drawing
from engine.export.content import Content
from engine.export.document import Document, Picture, Section
from engine.export.report.metrics import speed_note
from engine.export.report.report import report_of
from engine.export.writers.picture import metadata_of, sheet, write_drawing
from engine.store.record import RunRecord
from resources.looks import LIGHT, Palette


def loss_curves(content: Content) -> tuple[RunCurve, ...]:
    """Return the training loss of every run that has samples."""
    curves = []
    for side in content.comparison.sides:
        for repeat, run in enumerate(side.runs):
            recorded = content.curves[run.id]
            if len(recorded):
                rows = {name: recorded.column(name) for name in ("step", "seconds", "loss")}
                line = smoothed(_points(recorded.bins(), run))
                curves.append(RunCurve(run, side, repeat, line, *bounds(_points(rows, run))))
    return tuple(curves)


def accuracy_curves(content: Content) -> tuple[RunCurve, ...]:
    """Return the validation accuracy in percent of every validated run, one point per epoch."""
    curves = []
    for side in content.comparison.sides:
        for repeat, run in enumerate(side.runs):
            rows = [
                (epoch.step, epoch.seconds, 100.0 * epoch.validation_accuracy)
                for epoch in content.epochs(run.id)
                if epoch.validation_accuracy is not None
            ]
            if rows:
                columns = np.array(rows, dtype=np.float64).T
                points = _points(dict(zip(("step", "seconds", "loss"), columns, strict=True)), run)
                curves.append(RunCurve(run, side, repeat, points, points, points))
    return tuple(curves)


def _points(columns: Columns, run: RunRecord) -> Points:
    steps = columns["step"]
    return Points(steps, columns["seconds"], steps * run.experiment.step_samples, columns["loss"])


_HEIGHT = 260.0
BARS: tuple[tuple[ChartName, By], ...] = (("throughput", "step"), ("memory", "step"))


@dataclass(frozen=True)
class Chart:
    """A chart of a report.

    `draw` returns its drawing for a width in pixels. Bar charts have neither `against` (the title of the x
    axis) nor a legend.
    """

    name: ChartName
    title: str
    unit: str
    draw: Callable[[float], Drawing]
    against: str = ""
    legend: tuple[tuple[Side, LegendEntry], ...] = ()

    @property
    def picture(self) -> Picture:
        beside = ", ".join(part for part in (self.unit, self.against) if part)
        return Picture(self.name, self.draw, self.title, beside, tuple(entry for _, entry in self.legend))


class Charts:
    """Creates the charts of a report. Reads the samples once, at construction."""

    def __init__(self, content: Content) -> None:
        self.sides, self._comparison = content.comparison.sides, content.comparison
        self.looks: dict[str, SideLook] = side_looks(self.sides)
        self.loss: tuple[RunCurve, ...] = loss_curves(content)
        self.accuracy: tuple[RunCurve, ...] = accuracy_curves(content)
        self._rows = {row.metric.name: row for row in content.comparison.metrics}
        starts = (content.started(run.id) for run in content.runs)
        self.loss_unit = next((start.loss_unit for start in starts if start is not None), "")

    def sections(self, *rows: Sequence[tuple[ChartName, By]]) -> Iterator[Section]:
        """Yield a section per row of charts, except for rows with nothing to draw."""
        for row in rows:
            drawable = [chart for name, by in row if (chart := self.chart(name, by)) is not None]
            if drawable:
                yield Section("", pictures=tuple(chart.picture for chart in drawable))

    def chart(self, name: ChartName, by: By = "step") -> Chart | None:
        """Return the chart of that name, or None if the runs have nothing to draw in it."""
        if name in ("throughput", "memory"):
            return self._bars(name, SPEED.name if name == "throughput" else PEAK_MEMORY.name)
        labeled = None
        if name == "difference":
            labeled = difference_to_baseline(self._comparison, self.loss, self.loss_unit)
        elif name == "loss" and by == "seconds" and len(self.sides) >= MANY:
            labeled = time_to_loss(self._comparison, self.loss, self.loss_unit)
        if labeled is not None:
            draw = labeled.draw
            return Chart(name, labeled.title, labeled.note, lambda width: draw(width, _height(width)))
        if name == "difference":
            return None
        title, unit = "Validation accuracy", "%"
        if name == "loss":
            title, unit = "Training loss", ", ".join(filter(None, (self.loss_unit, "smoothed")))
        shown = {curve.side.id for curve in self._curves(name)}
        if not shown:
            return None
        legend = tuple(
            (side, LegendEntry(self.looks[side.id].sample, 24, side.title))
            for side in self.sides
            if side.id in shown
        )
        against = {"step": "by step", "seconds": "against time", "samples": "by samples"}[by]
        return Chart(name, title, unit, lambda width: self.curve_drawing(name, by, width)[0], against, legend)

    def curve_drawing(self, name: ChartName, by: By, width: float) -> tuple[Drawing, PlotArea]:
        """Return the loss or accuracy chart and its frame. Both charts share the x axis and crosshair."""
        quantity = "Training loss" if name == "loss" else "Validation accuracy in percent"
        against = {"step": "training step", "seconds": "seconds", "samples": "samples trained on"}[by]
        titles = ", ".join(side.title for side in self.sides)
        description = f"{quantity} against {against}: {titles}."
        size = (width, _height(width))
        room = max(label_room(*bounds_of(curves)) for curves in (self.loss, self.accuracy))
        x_end = last_x((*self.loss, *self.accuracy), by)
        return curve_chart(self._curves(name), self.looks, by, size, room, x_end, description)

    def _curves(self, name: ChartName) -> tuple[RunCurve, ...]:
        return self.loss if name == "loss" else self.accuracy

    def _rows_of_bars(self) -> Sequence[RankedSide]:
        rows = ranking(self._comparison)
        if len(rows) >= MANY:
            return rows
        return [next(row for row in rows if row.side is side) for side in self.sides]

    def _bars(self, name: ChartName, metric_name: str) -> Chart | None:
        row = self._rows[metric_name]
        if all(cell.value is None for cell in row.cells):
            return None
        metric, bars = row.metric, []
        missing = "no throughput" if name == "throughput" else "not measured"
        for ranked in self._rows_of_bars():
            side, cell = ranked.side, ranked.cells[metric_name]
            is_disturbed = ranked.is_disturbed and metric.is_of_time
            note = ", ".join(filter(None, (side.note, "unreliable" if is_disturbed else "")))
            text = missing if cell.value is None else metric.text(cell.value)
            bar = ChartBar(self.looks[side.id], side.label, note, cell.value, text, cell.interval)
            bars.append(replace(bar, is_disturbed=is_disturbed))
        values = ", ".join(f"{bar.title} {bar.note} {bar.text}" for bar in bars)
        description = f"{metric.title} in {metric.unit}: {values}."
        unit = ", ".join(filter(None, (metric.unit, speed_note(row))))
        return Chart(name, metric.title, unit, lambda width: bar_chart(tuple(bars), width, description))


def _height(width: float) -> float:
    return min(_HEIGHT, 0.62 * width + 30)


SHEET: tuple[ChartName, ...] = ("throughput", "loss")
_WIDTH = 720.0


def write_picture(
    content: Content,
    path: Path,
    *,
    charts: tuple[ChartName, ...] = SHEET,
    by: By = "seconds",
    palette: Palette = LIGHT,
) -> None:
    """Write the charts as PNG or SVG, with settings and environment in the metadata."""
    report = report_of(content)
    write_drawing(picture(content, report, charts, by), path, palette, metadata_of(report))


def picture(
    content: Content, report: Document, charts: tuple[ChartName, ...] = SHEET, by: By = "seconds"
) -> Drawing:
    """Return these charts on one sheet, without charts that have nothing to draw."""
    all_charts = Charts(content)
    drawable = [chart.picture for name in charts if (chart := all_charts.chart(name, by)) is not None]
    return sheet(report, drawable, _WIDTH)
