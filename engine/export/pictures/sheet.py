"""The charts of a comparison on a sheet, as PNG or SVG."""

from __future__ import annotations

import json
from pathlib import Path

from engine.drawing.looks import By, ChartName
from engine.drawing.shapes import Drawing
from engine.export.content import Content
from engine.export.pictures.charts import Charts
from engine.export.report.report import Report, report_of
from engine.export.writers.picture import sheet, write_drawing
from resources.looks import LIGHT, Palette

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
    """Writes the charts as PNG or SVG, with settings and environment in the metadata."""
    report = report_of(content)
    write_drawing(picture(content, report, charts, by), path, palette, facts_of(report))


def picture(
    content: Content, report: Report, charts: tuple[ChartName, ...] = SHEET, by: By = "seconds"
) -> Drawing:
    """These charts on a sheet; those that the runs have nothing for are left out."""
    all_charts = Charts(content)
    drawable = [chart.picture for name in charts if (chart := all_charts.chart(name, by)) is not None]
    disturbed = f"Not a clean measurement. {' '.join(report.disturbances)}" if report.disturbances else ""
    foot = [line for line in (disturbed, *_facts(report), report.made) if line]
    return sheet(report, drawable, foot, _WIDTH)


def _facts(report: Report) -> tuple[str, ...]:
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


def facts_of(report: Report) -> dict[str, str]:
    """The text fields of a picture: its title, the program, and settings and machine as JSON."""
    lines = (*report.shared, *report.differing, *report.environment)
    settings = {line.key: line.values[0] if line.is_shared else list(line.values) for line in lines}
    return {"Title": report.title, "Software": report.made, "Description": json.dumps(settings)}
