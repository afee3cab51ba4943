"""Charts as pictures: PNG at two pixels for each of the page's, and SVG with real text."""

from __future__ import annotations

import json
import logging
from pathlib import Path

from engine.exports.chart_names import By, ChartName
from engine.exports.charts import Charts
from engine.exports.content import Content
from engine.exports.drawing import Drawing, colour
from engine.exports.report import Report, report_of
from engine.exports.sheet import sheet
from engine.exports.svg import svg
from resources.looks import LIGHT, Palette

SHEET: tuple[ChartName, ...] = ("throughput", "loss")


def picture(content: Content, charts: tuple[ChartName, ...] = SHEET, by: By = "seconds") -> Drawing:
    """Some of the charts on a sheet with what was measured on what; those that the runs lack are left out."""
    found = Charts(content)
    chosen = [one for name in charts if (one := found.chart(name, by)) is not None]
    return sheet(chosen, found, report_of(content))


def write_png(
    content: Content,
    path: Path,
    *,
    charts: tuple[ChartName, ...] = SHEET,
    by: By = "seconds",
    palette: Palette = LIGHT,
) -> None:
    """Writes the picture as PNG, with settings and environment in its text fields."""
    # it would tell of its fonts on a terminal; and it takes a second, which who writes SVG does not pay
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    from engine.exports.raster import write_bitmap

    write_bitmap(picture(content, charts, by), palette, path, facts_of(report_of(content)))


def write_svg(
    content: Content,
    path: Path,
    *,
    charts: tuple[ChartName, ...] = SHEET,
    by: By = "seconds",
    palette: Palette = LIGHT,
) -> None:
    """Writes the picture as SVG, which any page or slide can take in."""
    drawing = picture(content, charts, by)
    ground = f"background: {palette.bg1}"
    told = json.dumps(facts_of(report_of(content)), ensure_ascii=False)
    text = svg(drawing, lambda ink: colour(palette, ink), {"style": ground, **_size(drawing)}, told)
    path.write_text(f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n', encoding="utf-8")


def _size(drawing: Drawing) -> dict[str, str]:
    return {"width": f"{drawing.width:.0f}", "height": f"{drawing.height:.0f}"}


def facts_of(report: Report) -> dict[str, str]:
    """What a picture says of itself to who opens its text fields."""
    lines = (*report.shared, *report.differing, *report.environment)
    told = {line.key: line.values[0] if line.is_shared else list(line.values) for line in lines}
    return {"Title": report.title, "Software": report.made, "Description": json.dumps(told)}
