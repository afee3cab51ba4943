"""Charts on a sheet, as PNG or SVG, with a title and a footer on what was measured.

A PNG has twice the page's pixels each way; an SVG keeps its text as text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from engine.drawing.bitmap import write_bitmap
from engine.drawing.chart_parts import LegendEntry, legend
from engine.drawing.looks import By, ChartName
from engine.drawing.shapes import Drawing, Shape, Stroke, Words, moved, shortened, text_width, wrapped
from engine.drawing.svg import svg_file
from engine.export.content import Content
from engine.export.pictures.charts import Chart, Charts
from engine.export.report.report import Report, report_of
from resources.looks import LIGHT, Palette

_WIDTH, _MARGIN, _GAP, _HEADER = 720.0, 24.0, 28.0, 34.0


def sheet(charts: Sequence[Chart], all_charts: Charts, report: Report) -> Drawing:
    """The charts below each other under the report's title."""
    inner = _WIDTH - 2 * _MARGIN
    shapes: list[Shape] = [*_heading(report, inner)]
    down = 78.0
    descriptions = []
    for chart in charts:
        drawn = panel(chart, all_charts, inner)
        shapes += moved(drawn.shapes, _MARGIN, down)
        down += drawn.height + _GAP
        descriptions.append(drawn.description)
    if not charts:
        shapes.append(Words(_MARGIN, down + 16, "These runs have nothing to draw.", "text2", 13))
        down += 40
    footer = _footer(report, inner)
    shapes += moved(footer.shapes, _MARGIN, down - 8)
    return Drawing(_WIDTH, down + footer.height, tuple(shapes), " ".join([report.title + ".", *descriptions]))


def _heading(report: Report, width: float) -> list[Shape]:
    title = shortened(report.title, width, 20, 600)
    subject = shortened(report.subject, width, 13)
    return [Words(_MARGIN, 36, title, "text", 20, 600), Words(_MARGIN, 58, subject, "text2", 13)]


def panel(chart: Chart, all_charts: Charts, width: float) -> Drawing:
    """A chart under its title and its legend, if it has one."""
    title = Words(0, 16, chart.title, "text", 13, 600)
    beside = ", ".join(part for part in (chart.unit, chart.against) if part)
    after = text_width(chart.title, 13, 600) + 8
    unit = Words(after, 16, shortened(beside, width - after, 12), "text3", 12)
    shapes: list[Shape] = [title, unit]
    down = _HEADER
    if chart.legend:
        looks = ((all_charts.looks[side.id], side.title) for side in chart.legend)
        rows = legend([LegendEntry(look.sample, 24, title) for look, title in looks], width)
        shapes += moved(rows.shapes, 0, down - 6)
        down += rows.height
    drawing = chart.draw(width)
    shapes += moved(drawing.shapes, 0, down)
    return Drawing(width, down + drawing.height, tuple(shapes), drawing.description)


def _footer(report: Report, width: float) -> Drawing:
    shapes: list[Shape] = [Stroke(((0, 0.5), (width, 0.5)), "line")]
    disturbed = f"Not a clean measurement. {' '.join(report.disturbances)}" if report.disturbances else ""
    lines = [line for line in (disturbed, *facts(report), report.made) if line]
    rows = [row for line in lines for row in wrapped(line, width, 11, most=9)]
    shapes += [Words(0, 20 + 16 * place, row, "text3", 11) for place, row in enumerate(rows)]
    return Drawing(width, 32 + 16 * len(rows), tuple(shapes))


def facts(report: Report) -> tuple[str, ...]:
    """A line on the machine and one on the settings that differ, where there is no room for tables."""
    machine = machine_line(report)
    differing = "; ".join(f"{line.title}: {' / '.join(line.values)}" for line in report.differing)
    return tuple(line for line in (machine, differing and f"What differs: {differing}") if line)


def machine_line(report: Report) -> str:
    """The machine and software that all sides share, in a line."""
    return " · ".join(
        f"{_NAMED.get(line.key, '')}{line.values[0]}"
        for line in report.environment
        if line.key in _NAMED and line.is_shared
    )


_NAMED = {"device_name": "", "torch": "PyTorch ", "cuda": "CUDA ", "driver": "driver ", "os": ""}


SHEET: tuple[ChartName, ...] = ("throughput", "loss")


def picture(
    content: Content, report: Report, charts: tuple[ChartName, ...] = SHEET, by: By = "seconds"
) -> Drawing:
    """These charts on a sheet; those that the runs have nothing for are left out."""
    all_charts = Charts(content)
    drawable = [chart for name in charts if (chart := all_charts.chart(name, by)) is not None]
    return sheet(drawable, all_charts, report)


def write_png(
    content: Content,
    path: Path,
    *,
    charts: tuple[ChartName, ...] = SHEET,
    by: By = "seconds",
    palette: Palette = LIGHT,
) -> None:
    """Writes the picture as PNG, with settings and environment in its text fields."""
    report = report_of(content)
    write_bitmap(picture(content, report, charts, by), palette, path, facts_of(report))


def write_svg(
    content: Content,
    path: Path,
    *,
    charts: tuple[ChartName, ...] = SHEET,
    by: By = "seconds",
    palette: Palette = LIGHT,
) -> None:
    """Writes the picture as SVG."""
    report = report_of(content)
    drawing = picture(content, report, charts, by)
    metadata = json.dumps(facts_of(report), ensure_ascii=False)
    path.write_text(svg_file(drawing, palette, metadata), encoding="utf-8")


def facts_of(report: Report) -> dict[str, str]:
    """The text fields of a picture: its title, the program, and settings and machine as JSON."""
    lines = (*report.shared, *report.differing, *report.environment)
    settings = {line.key: line.values[0] if line.is_shared else list(line.values) for line in lines}
    return {"Title": report.title, "Software": report.made, "Description": json.dumps(settings)}
