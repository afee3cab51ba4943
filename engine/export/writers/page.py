"""The frame of a web page that fetches nothing: its style, its policy, and templates filled in.

The program's fonts are embedded, since the text of the charts was measured with them.
"""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Mapping
from dataclasses import fields
from importlib import resources
from typing import Any

import jinja2
from fontTools.ttLib import TTFont
from markupsafe import Markup

from engine.drawing.fonts import font_file
from engine.drawing.shapes import Drawing, colour
from engine.drawing.svg import svg
from engine.experiment.value import printable
from resources.looks import DARK, LIGHT, Palette

_WEIGHTS = (400, 500, 600)


def rendered(template: str, *, script: str = "", **values: Any) -> str:
    """A page of the report's folder in the report's style; only `script`, a file there, can run in it."""
    style = f"{_font_faces()}\n{_variables()}{_part('report.css')}"
    text = _part(script) if script else ""
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        loader=jinja2.FunctionLoader(_part),
    )
    return environment.get_template(template).render(
        policy=_policy(style, text), style=Markup(style), script=Markup(text), **values
    )


def picture(drawing: Drawing, attributes: Mapping[str, str] | None = None) -> Markup:
    """A drawing within a page, in the page's colours."""
    return Markup(svg(drawing, variable, attributes))


def hidden(drawing: Drawing, name: str) -> Markup:
    """A drawing of class `name`, for beside words that say the same."""
    return picture(drawing, {"class": name, "aria-hidden": "true"})


def variable(ink: str) -> str:
    """The CSS colour of an ink."""
    return f"var(--{ink})"


def _font_faces() -> str:
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
    titles = " ".join(f".t-{name} {{ color: {variable(name)}; }}" for name in (*LIGHT.precisions, *LIGHT.own))
    return f":root {{ {_colours(LIGHT)} }}\n{dark}\n{titles}\n"


def _colours(palette: Palette) -> str:
    tokens = {field.name: getattr(palette, field.name) for field in fields(palette)}
    inks = {name: value for name, value in tokens.items() if str(value).startswith("#")}
    for name, look in palette.precisions.items():
        inks |= {name: look.color, f"{name}-dim": look.dim}
        inks |= {f"{name}-{end}": colour(palette, f"{name}-{end}") for end in ("low", "high")}
    for name, own in palette.own.items():
        inks |= {name: own.color, f"{name}-dim": own.dim}
    heat = (f"{kind}heat-{step}" for kind in ("", "on-") for step in range(len(palette.heat)))
    inks |= {ink: colour(palette, ink) for ink in heat}
    return " ".join(f"--{name.replace('_', '-')}: {value};" for name, value in inks.items())
