"""The charts of a comparison: bars of throughput and memory, curves of loss and accuracy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from engine.compare.comparison import SideReport
from engine.compare.figures import Cell, Figure, FigureRow
from engine.compare.sides import Side
from engine.curves import Columns, Curves
from engine.drawing.bar_chart import Bar, bar_chart
from engine.drawing.chart_parts import LegendEntry
from engine.drawing.curve_chart import (
    Curve,
    Frame,
    Points,
    bounds,
    curve_chart,
    furthest,
    label_room,
    smoothed,
)
from engine.drawing.looks import By, ChartName, SideLook, side_looks
from engine.drawing.shapes import Drawing
from engine.export.content import Content
from engine.export.document import Picture, Section
from engine.protocol.events import Epoch
from engine.store.record import RunRecord


def loss_curves(content: Content) -> tuple[Curve, ...]:
    """The training loss of every run that has samples."""
    curves = (
        loss_curve(content.curves[run.id], run, side, repeat)
        for side in content.comparison.sides
        for repeat, run in enumerate(side.runs)
    )
    return tuple(curve for curve in curves if curve is not None)


def loss_curve(curves: Curves, run: RunRecord, side: Side, repeat: int) -> Curve | None:
    """A run's training loss from its samples; None if it has none."""
    if not len(curves):
        return None
    rows = {name: curves.column(name) for name in ("step", "seconds", "loss")}
    low, high = bounds(_points(rows, run))
    return Curve(run, side, repeat, smoothed(_points(curves.bins(), run)), low, high)


def accuracy_curves(content: Content) -> tuple[Curve, ...]:
    """The validation accuracy in per cent of every validated run, one point per epoch."""
    curves = []
    for side in content.comparison.sides:
        for repeat, run in enumerate(side.runs):
            epochs = [epoch for epoch in content.epochs(run.id) if epoch.validation_accuracy is not None]
            if epochs:
                points = _by_epoch(epochs, run)
                curves.append(Curve(run, side, repeat, points, points, points))
    return tuple(curves)


def _points(columns: Columns, run: RunRecord) -> Points:
    steps = columns["step"]
    return Points(steps, columns["seconds"], steps * run.experiment.step_samples, columns["loss"])


def _by_epoch(epochs: list[Epoch], run: RunRecord) -> Points:
    steps = np.array([epoch.step for epoch in epochs], dtype=np.float64)
    return Points(
        steps=steps,
        seconds=np.array([epoch.seconds for epoch in epochs]),
        samples=steps * run.experiment.step_samples,
        values=np.array([100.0 * (epoch.validation_accuracy or 0.0) for epoch in epochs]),
    )


_HEIGHT = 260.0
BARS: tuple[tuple[ChartName, By], ...] = (("throughput", "step"), ("memory", "step"))


@dataclass(frozen=True)
class Chart:
    """A chart with its title; `draw` takes its width in pixels.

    `against` is the x axis of curves ("by step") and `legend` their sides with their samples; both are empty
    for bars, which name their sides themselves.
    """

    name: ChartName
    title: str
    unit: str
    against: str
    legend: tuple[tuple[Side, LegendEntry], ...]
    draw: Callable[[float], Drawing]

    @property
    def picture(self) -> Picture:
        """The chart in a document."""
        beside = ", ".join(part for part in (self.unit, self.against) if part)
        return Picture(self.name, self.draw, self.title, beside, tuple(entry for _, entry in self.legend))


class Charts:
    """The charts of a content, whose samples are read once, at construction."""

    def __init__(self, content: Content) -> None:
        self.sides, self._reports = content.comparison.sides, content.comparison.reports
        self.looks: dict[str, SideLook] = side_looks(self.sides)
        self.loss: tuple[Curve, ...] = loss_curves(content)
        self.accuracy: tuple[Curve, ...] = accuracy_curves(content)
        self._rows = {row.figure.name: row for row in content.comparison.figures}
        starts = (content.started(run.id) for run in content.runs)
        self.loss_unit = next((start.loss_unit for start in starts if start is not None), "")

    def sections(self, *rows: Sequence[tuple[ChartName, By]]) -> Iterator[Section]:
        """The charts of each row side by side; no section where there is nothing to draw."""
        for row in rows:
            drawable = [chart for name, by in row if (chart := self.chart(name, by)) is not None]
            if drawable:
                yield Section("", pictures=tuple(chart.picture for chart in drawable))

    def chart(self, name: ChartName, by: By = "step") -> Chart | None:
        """The chart of that name; None if the runs have nothing to draw in it."""
        if name == "throughput":
            return self._bars(name, "samples_per_second")
        if name == "memory":
            return self._bars(name, "peak_memory")
        smoothed = ", ".join(part for part in (self.loss_unit, "smoothed") if part)
        title, unit = ("Training loss", smoothed) if name == "loss" else ("Validation accuracy", "%")
        curves = self._curves(name)
        if not curves:
            return None
        shown = {curve.side.id for curve in curves}
        legend = tuple(
            (side, LegendEntry(self.looks[side.id].sample, 24, side.title))
            for side in self.sides
            if side.id in shown
        )

        def draw(width: float) -> Drawing:
            return self.curve_drawing(name, by, width)[0]

        return Chart(name, title, unit, _AGAINST[by], legend, draw)

    def curve_drawing(self, name: ChartName, by: By, width: float) -> tuple[Drawing, Frame]:
        """The loss or the accuracy, and its frame; both have the same x axis, for one crosshair."""
        curves = self._curves(name)
        quantity = "Training loss" if name == "loss" else "Validation accuracy in per cent"
        against = {"step": "training step", "seconds": "seconds", "samples": "samples trained on"}[by]
        titles = ", ".join(side.title for side in self.sides)
        description = f"{quantity} against {against}: {titles}."
        size = (width, min(_HEIGHT, 0.62 * width + 30))
        room = max(label_room(self.loss), label_room(self.accuracy))
        x_end = furthest((*self.loss, *self.accuracy), by)
        return curve_chart(curves, self.looks, by, size, room, x_end, description)

    def _curves(self, name: ChartName) -> tuple[Curve, ...]:
        return self.loss if name == "loss" else self.accuracy

    def _bars(self, name: ChartName, figure_name: str) -> Chart | None:
        row = self._rows[figure_name]
        if all(cell.value is None for cell in row.cells):
            return None
        figure = row.figure
        unit = f"{figure.unit}{_certainty(row)}"
        bars = tuple(
            self._bar(report, cell, figure) for report, cell in zip(self._reports, row.cells, strict=True)
        )
        values = ", ".join(f"{bar.title} {bar.note} {bar.text}" for bar in bars)
        description = f"{figure.title} in {figure.unit}: {values}."
        return Chart(name, figure.title, unit, "", (), lambda width: bar_chart(bars, width, description))

    def _bar(self, report: SideReport, cell: Cell, figure: Figure) -> Bar:
        side, is_disturbed = report.side, report.is_disturbed and figure.is_of_time
        note = ", ".join(part for part in (side.note, "not clean" if is_disturbed else "") if part)
        missing = "no speed" if figure.name == "samples_per_second" else "not measured"
        text = missing if cell.value is None else figure.text(cell.value)
        return Bar(self.looks[side.id], side.label, note, cell.value, text, cell.interval)


_AGAINST: dict[By, str] = {"step": "by step", "seconds": "against time", "samples": "by samples"}


def _certainty(row: FigureRow) -> str:
    """What the whiskers are."""
    kinds = {cell.interval_kind for cell in row.cells if cell.interval is not None}
    if kinds == {"repeats"}:
        return ", 95 % interval over repeats"
    if kinds == {"within run"}:
        return ", whiskers: within the run"
    return ", whiskers: repeats or one run" if kinds else ""
