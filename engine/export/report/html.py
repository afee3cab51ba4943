"""The report as a self-contained web page: it fetches nothing, and only its own script can run.

The program's fonts are embedded, since the text of the charts was measured with them.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import math
from collections.abc import Mapping
from dataclasses import fields
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
from fontTools.ttLib import TTFont
from markupsafe import Markup

from engine.compare.sides import Side
from engine.compare.verdict import Pieces
from engine.drawing.curve_chart import Curve, furthest
from engine.drawing.fonts import font_file
from engine.drawing.looks import BYS, By, ChartName
from engine.drawing.shapes import Drawing, colour
from engine.drawing.svg import svg
from engine.experiment.text import printable
from engine.export.content import Content
from engine.export.pictures.charts import Charts
from engine.export.pictures.race import card_svg, race_source_if_any
from engine.export.report.report import Report, omitted_words, report_of
from engine.race import words
from engine.race.card import page_card
from engine.race.parts import MEDIUM, NARROW, WIDE
from resources.looks import DARK, LIGHT, Palette

_WEIGHTS = (400, 500, 600)


def font_faces() -> str:
    """Style rules with the fonts embedded, 130 KB in all."""
    return "\n".join(map(_font_face, _WEIGHTS))


def _font_face(weight: int) -> str:
    packed = io.BytesIO()
    with TTFont(font_file(weight), lazy=True) as font:
        font.flavor = "woff"
        font.save(packed, reorderTables=None)
    data = base64.b64encode(packed.getvalue()).decode()
    return (
        f'@font-face {{ font-family: "Inter"; font-weight: {weight};'
        f' src: url("data:font/woff;base64,{data}") format("woff"); }}'
    )


_SIZES = {"wide": 926.0, "medium": 600.0, "narrow": 372.0}
_RACE_SIZES = {"wide": WIDE, "medium": MEDIUM, "narrow": NARROW}
_HALF_SIZES = {"wide": 440.0, "medium": 600.0, "narrow": 372.0}


def write_html(content: Content, path: Path) -> None:
    """Writes the page; it also opens from a mail, in light and dark, and without scripts."""
    path.write_text(page(content), encoding="utf-8")


def page(content: Content) -> str:
    """The page as text."""
    report, charts = report_of(content), Charts(content)
    style = f"{font_faces()}\n{_variables()}{_part('report.css')}"
    script = _part("report.js")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, finalize=_printable, trim_blocks=True
    )
    return environment.from_string(_part("report.html")).render(
        report=report,
        omitted=omitted_words(report),
        version=content.version,
        lead=report.answers[0].side.id if len(report.sides) > 1 else None,
        policy=_policy(style, script),
        style=Markup(style),
        script=Markup(script),
        data=_json(_read_out(charts)),
        race=_race(content, report),
        bars=_bars(charts),
        curves=_curves(charts),
        sentence=_sentence,
        mark=lambda side: _mark(charts, side),
        sample=lambda side: _sample(charts, side),
    )


def _part(name: str) -> str:
    return (resources.files("resources") / "report" / name).read_text(encoding="utf-8")


def _printable(value: object) -> object:
    # control characters and lone surrogates in a name would make the page invalid
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; img-src data:; font-src data:;"
        f" style-src '{_digest(style)}'; script-src '{_digest(script)}';"
        " base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _variables() -> str:
    dark = f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {_colours(DARK)} }} }}"
    titles = " ".join(f".t-{name} {{ color: {_variable(name)}; }}" for name in LIGHT.precisions)
    return f":root {{ {_colours(LIGHT)} }}\n{dark}\n{titles}\n"


def _colours(palette: Palette) -> str:
    tokens = {field.name: getattr(palette, field.name) for field in fields(palette)}
    inks = {name: value for name, value in tokens.items() if str(value).startswith("#")}
    for name, look in palette.precisions.items():
        inks |= {name: look.color, f"{name}-dim": look.dim}
        inks |= {f"{name}-{end}": colour(palette, f"{name}-{end}") for end in ("low", "high")}
    return " ".join(f"--{name.replace('_', '-')}: {value};" for name, value in inks.items())


def _variable(ink: str) -> str:
    return f"var(--{ink})"


def _sentence(pieces: Pieces) -> Markup:
    parts = []
    for piece in pieces:
        text = Markup.escape(printable(piece.text).replace(" %", "\N{NO-BREAK SPACE}%"))
        if piece.side is not None:
            colour = f"t-{piece.side.precision.value}"
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
    return _hidden(drawing, "mark")


def _sample(charts: Charts, side: Side) -> Markup:
    drawing = Drawing(26, 12, charts.looks[side.id].sample(1, 6))
    return _hidden(drawing, "sample")


def _hidden(drawing: Drawing, name: str) -> Markup:
    # the words beside it say the same
    return Markup(svg(drawing, _variable, {"class": name, "aria-hidden": "true"}))


def _race(content: Content, report: Report) -> dict[str, Any] | None:
    """The race's card in three widths; None if the runs have none."""
    source = race_source_if_any(content, report)
    if source is None:
        return None
    cards = {size: page_card(source.race, source.tiles, sizes) for size, sizes in _RACE_SIZES.items()}
    return {
        "title": words.title(source.race),
        "sentence": words.sentence(source.race),
        "pictures": [
            (size, Markup(card_svg(card, _variable, f"race-{size}"))) for size, card in cards.items()
        ],
    }


def _bars(charts: Charts) -> list[dict[str, Any]]:
    drawable = [chart for name in ("throughput", "memory") if (chart := charts.chart(name)) is not None]
    return [
        {
            "title": chart.title,
            "unit": chart.unit,
            "pictures": [
                (size, Markup(svg(chart.draw(width), _variable))) for size, width in _HALF_SIZES.items()
            ],
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
    return Markup(svg(drawing, _variable, {"data-by": by, **{f"data-{k}": v for k, v in place.items()}}))


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
