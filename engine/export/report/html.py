"""The report of a comparison as a web page, with the race and curves that a crosshair reads."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from markupsafe import Markup

from engine.compare.sides import Side
from engine.drawing.curve_chart import Curve, furthest
from engine.drawing.looks import BYS, By, ChartName
from engine.drawing.shapes import Drawing
from engine.export.content import Content
from engine.export.document import Section
from engine.export.pictures.charts import BARS, Charts
from engine.export.pictures.race import card_svg, race_source_if_any
from engine.export.report.report import Report, report_of
from engine.export.writers import html
from engine.export.writers.html import SIZES
from engine.export.writers.page import hidden, picture, variable
from engine.race.card import page_card
from engine.race.parts import MEDIUM, NARROW, WIDE

_RACE_SIZES = {"wide": WIDE, "medium": MEDIUM, "narrow": NARROW}


def write_html(content: Content, path: Path) -> None:
    """Writes the page."""
    path.write_text(page(content), encoding="utf-8")


def page(content: Content) -> str:
    """The page as text."""
    charts = Charts(content)
    curves = _curves(charts)
    interactive = [Section("", template="curves.html")] if curves else []
    report = report_of(content, [*charts.sections(BARS), *interactive])
    race = _race(content, report)
    return html.page(
        report if race is None else replace(report, sections=(race["section"], *report.sections)),
        script="report.js" if curves else "",
        data=_json(_read_out(charts)),
        race=race and race["pictures"],
        curves=curves,
        lead=report.answers[0].side.id if len(report.sides) > 1 else None,
        marks={side.title: _mark(charts, side) for side in report.sides},
    )


def _mark(charts: Charts, side: Side) -> Markup:
    drawing = Drawing(12, 12, charts.looks[side.id].mark(6, 6, 9))
    return hidden(drawing, "mark") + Markup(" ")


def _race(content: Content, report: Report) -> dict[str, Any] | None:
    """The race's card in three widths; None if the runs have none."""
    source = race_source_if_any(content, report)
    if source is None:
        return None
    scene = source.scene
    cards = {size: page_card(scene, sizes) for size, sizes in _RACE_SIZES.items()}
    return {
        "section": Section(scene.title, (scene.sentence,), template="race.html"),
        "pictures": [
            (size, Markup(card_svg(card, variable, f"race-{size}"))) for size, card in cards.items()
        ],
    }


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
    place = {edge: f"{getattr(frame, edge):.1f}" for edge in ("left", "right", "top", "bottom")}
    return picture(drawing, {"data-by": by, **{f"data-{k}": v for k, v in place.items()}})


def _read_out(charts: Charts) -> dict[str, Any]:
    """What the crosshair reads: the line of each side's first run that has one."""
    both = (*charts.loss, *charts.accuracy)
    plots = {"loss": (charts.loss, 3), "accuracy": (charts.accuracy, 1)}
    return {
        "ends": {by: furthest(both, by) for by in BYS},
        "charts": {
            name: {
                side.id: _curve_data(curve, digits)
                for side in charts.sides
                if (curve := _first(curves, side)) is not None
            }
            for name, (curves, digits) in plots.items()
        },
    }


def _first(curves: tuple[Curve, ...], side: Side) -> Curve | None:
    return next((curve for curve in curves if curve.side.id == side.id), None)


def _curve_data(curve: Curve, digits: int) -> dict[str, Any]:
    line = curve.line
    return {
        "step": [int(step) for step in line.steps],
        "seconds": [round(float(second), 3) for second in line.seconds],
        "value": [round(float(value), 4) if math.isfinite(value) else None for value in line.values],
        "samples_a_step": curve.run.experiment.step_samples,
        "digits": digits,
    }


def _json(value: Mapping[str, Any]) -> Markup:
    # "</script>" would end the element that holds it
    return Markup(json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"))
