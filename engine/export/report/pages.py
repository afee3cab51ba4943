"""The report of a comparison as a web page, with a crosshair over its curves, and as a PDF, with the race.

In the PDF only the images of the race are bitmaps.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from markupsafe import Markup

from engine.compare.ranking import MANY
from engine.drawing.curve_chart import last_x
from engine.drawing.looks import BYS, By, ChartName
from engine.drawing.pdf import draw
from engine.drawing.shapes import Drawing
from engine.drawing.svg import svg
from engine.export.content import Content
from engine.export.document import Document, Section
from engine.export.race import race_source_if_any
from engine.export.report.charts import BARS, Charts
from engine.export.report.report import report_of
from engine.export.writers import page as web_page
from engine.export.writers import pdf as pdf_pages
from engine.export.writers.page import SIZES, css_color, decorative, picture
from engine.race.card import HEIGHT, WIDTH
from resources.looks import LIGHT

_CURVES: tuple[tuple[tuple[ChartName, By], ...], ...] = (
    (("loss", "step"), ("loss", "seconds")),
    (("accuracy", "step"), ("accuracy", "seconds")),
)


def write_html(content: Content, path: Path) -> None:
    path.write_text(page(content), encoding="utf-8")


def page(content: Content) -> str:
    charts, comparison = Charts(content), content.comparison
    curves = _curves(charts)
    interactive = [Section("", template="curves.html")] if curves else []
    differences = charts.sections(*_differences(charts))
    report = report_of(content, [*charts.sections(BARS), *interactive, *differences])
    source = race_source_if_any(content)
    race = "" if source is None else Markup(svg(source.drawing(on_page=True), css_color, keeps_widths=True))
    if source is not None:
        report = replace(report, sections=(Section("", template="race.html"), *report.sections))
    first = report.answers[0].side if len(comparison.sides) > 1 else None
    marks = {side.title: Drawing(12, 12, charts.looks[side.id].mark(6, 6, 9)) for side in comparison.sides}
    return web_page.page(
        report,
        script="report.js" if curves else "",
        data=_json(_read_out(charts)),
        race=race,
        curves=curves,
        sides=comparison.sides,
        baseline=comparison.baseline.id,
        lead=None if first is None else first.id,
        marks={title: decorative(mark, "mark") + Markup(" ") for title, mark in marks.items()},
    )


def _differences(charts: Charts) -> tuple[tuple[tuple[ChartName, By], ...], ...]:
    return ((("difference", "step"),),) if len(charts.sides) >= MANY else ()


def _curves(charts: Charts) -> list[dict[str, Any]]:
    names: tuple[ChartName, ...] = ("loss", "accuracy")
    drawable = [chart for name in names if (chart := charts.chart(name)) is not None]
    return [
        {
            "name": chart.name,
            "title": chart.title,
            "unit": chart.unit,
            "sides": chart.legend,
            "sizes": [
                (size, [(by, _plot(charts, chart.name, by, width)) for by in BYS])
                for size, width in SIZES.items()
            ],
        }
        for chart in drawable
    ]


def _plot(charts: Charts, name: ChartName, by: By, width: float) -> Markup:
    drawing, frame = charts.curve_drawing(name, by, width)
    place = {f"data-{edge}": f"{getattr(frame, edge):.1f}" for edge in ("left", "right", "top", "bottom")}
    return picture(drawing, {"data-by": by, **place})


def _read_out(charts: Charts) -> dict[str, Any]:
    read: dict[str, dict[str, Any]] = {}
    for name, curves, digits in (("loss", charts.loss, 3), ("accuracy", charts.accuracy, 1)):
        read[name] = {}
        for side in charts.sides:
            curve = next((curve for curve in curves if curve.side.id == side.id), None)
            if curve is None:
                continue
            values = [float(value) for value in curve.line.values]
            read[name][side.id] = {
                "step": [int(step) for step in curve.line.steps],
                "seconds": [round(float(second), 3) for second in curve.line.seconds],
                "value": [round(value, 4) if math.isfinite(value) else None for value in values],
                "samples_a_step": curve.run.experiment.step_samples,
                "digits": digits,
            }
    return {"ends": {by: last_x((*charts.loss, *charts.accuracy), by) for by in BYS}, "charts": read}


def _json(value: Mapping[str, Any]) -> Markup:
    # "</script>" would end the element that holds it
    return Markup(json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"))


def write_pdf(content: Content, path: Path) -> None:
    """Write the report as PDF, in the order of the web page."""
    charts = Charts(content)
    report = report_of(content, charts.sections(BARS, *_CURVES, *_differences(charts)))
    pdf_pages.write_pdf(report, path, partial(_race, content, report))


def _race(content: Content, report: Document, pages: pdf_pages.Pages) -> None:
    source = race_source_if_any(content)
    if source is None:
        return
    scale = pages.epw / WIDTH
    pages.room(18 + HEIGHT * scale)
    top = pages.get_y()
    draw(pages, source.drawing(on_page=True), LIGHT, (pages.l_margin, top), scale)
    pages.set_xy(pages.l_margin, top + HEIGHT * scale)
    pages.gap(18)
