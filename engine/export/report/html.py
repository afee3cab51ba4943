"""The report as a self-contained web page: it fetches nothing, and only its own script can run."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from engine.compare.sides import Side
from engine.compare.verdict import Pieces
from engine.drawing.curve_chart import Curve, furthest
from engine.drawing.looks import BYS, By, ChartName, side_looks
from engine.drawing.shapes import Drawing
from engine.experiment.text import printable
from engine.export.content import Content
from engine.export.pictures.charts import Charts
from engine.export.pictures.race import card_svg, race_source_if_any
from engine.export.report.page import hidden, picture, rendered, variable
from engine.export.report.report import Report, omitted_words, report_of
from engine.export.sections.published import published_section
from engine.export.timing.tables import BAR, answers
from engine.protocol.timing.timing import Timing
from engine.race.card import page_card
from engine.race.parts import MEDIUM, NARROW, WIDE
from engine.timing.bar_picture import bars_drawing

_SIZES = {"wide": 926.0, "medium": 600.0, "narrow": 372.0}
_RACE_SIZES = {"wide": WIDE, "medium": MEDIUM, "narrow": NARROW}
_HALF_SIZES = {"wide": 440.0, "medium": 600.0, "narrow": 372.0}


def write_html(content: Content, path: Path) -> None:
    """Writes the page; it also opens from a mail, in light and dark, and without scripts."""
    path.write_text(page(content), encoding="utf-8")


def page(content: Content) -> str:
    """The page as text."""
    report, charts = report_of(content), Charts(content)
    return rendered(
        "report.html",
        script="report.js",
        report=report,
        omitted=omitted_words(report),
        version=content.version,
        lead=report.answers[0].side.id if len(report.sides) > 1 else None,
        data=_json(_read_out(charts)),
        race=_race(content, report),
        timing=None if content.timing is None else _timing(content.timing),
        published=published_section(content.published) if content.published else None,
        bars=_bars(charts),
        curves=_curves(charts),
        sentence=_sentence,
        mark=lambda side: _mark(charts, side),
        sample=lambda side: _sample(charts, side),
    )


def _sentence(pieces: Pieces) -> Markup:
    parts = []
    for piece in pieces:
        text = Markup.escape(printable(piece.text).replace(" %", "\N{NO-BREAK SPACE}%"))
        if piece.side is not None:
            colour = f"t-{side_looks([piece.side])[piece.side.id].ink}"
            parts.append(Markup('<b class="{}"><bdi>{}</bdi></b>').format(colour, text))
        elif piece.role == "strong":
            parts.append(Markup("<b>{}</b>").format(text))
        elif piece.role == "aside":
            parts.append(Markup('<span class="aside">{}</span>').format(text))
        else:
            parts.append(text)
    return Markup("").join(parts)


def _mark(charts: Charts, side: Side) -> Markup:
    drawing = Drawing(12, 12, charts.looks[side.id].mark(6, 6, 9))
    return hidden(drawing, "mark")


def _sample(charts: Charts, side: Side) -> Markup:
    drawing = Drawing(26, 12, charts.looks[side.id].sample(1, 6))
    return hidden(drawing, "sample")


def _race(content: Content, report: Report) -> dict[str, Any] | None:
    """The race's card in three widths; None if the runs have none."""
    source = race_source_if_any(content, report)
    if source is None:
        return None
    scene = source.scene
    cards = {size: page_card(scene, sizes) for size, sizes in _RACE_SIZES.items()}
    return {
        "title": scene.title,
        "sentence": scene.sentence,
        "pictures": [
            (size, Markup(card_svg(card, variable, f"race-{size}"))) for size, card in cards.items()
        ],
    }


def _timing(timing: Timing) -> dict[str, Any]:
    drawn = ((size, bars_drawing(timing, width)) for size, width in _SIZES.items())
    return {
        "title": BAR,
        "sentences": answers(timing),
        "pictures": [(size, picture(drawing)) for size, drawing in drawn],
    }


def _bars(charts: Charts) -> list[dict[str, Any]]:
    drawable = [chart for name in ("throughput", "memory") if (chart := charts.chart(name)) is not None]
    return [
        {
            "title": chart.title,
            "unit": chart.unit,
            "pictures": [(size, picture(chart.draw(width))) for size, width in _HALF_SIZES.items()],
        }
        for chart in drawable
    ]


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
                for size, width in _SIZES.items()
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
