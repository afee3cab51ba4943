"""The frame of a self-contained web page: its style, its policy, and filled templates.

The program's fonts are embedded, because the text of the charts was measured with them.
"""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Iterator, Mapping
from dataclasses import fields
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
from fontTools.ttLib import TTFont
from markupsafe import Markup

from engine import __version__
from engine.compare.verdict import Pieces
from engine.drawing.chart_parts import LegendEntry
from engine.drawing.shapes import Drawing, font_file, ink_color
from engine.drawing.svg import svg
from engine.experiment.value import printable
from engine.export.document import Document, Picture, Section
from resources.looks import DARK, LIGHT, Palette

SIZES = {"wide": 926.0, "medium": 600.0, "narrow": 372.0}
"""The widths of pictures for windows of each size; several are side by side in a wide one."""
_HALF, _WEIGHTS = 440.0, (400, 500, 600)


def write_html(document: Document, path: Path) -> None:
    path.write_text(page(document), encoding="utf-8")


def page(document: Document, *, script: str = "", **values: Any) -> str:
    """Return the page as text, in which only `script` can run. `values` are for the section templates."""
    style = "\n".join([*map(_font_face, _WEIGHTS), f"{_variables()}{_template_part('report.css')}"])
    text = _template_part(script) if script else ""
    policy = (
        f"default-src 'none'; img-src data:; font-src data:;"
        f" style-src '{_digest(style)}'; script-src '{_digest(text)}';"
        " base-uri 'none'; form-action 'none'"
    )
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        loader=jinja2.FunctionLoader(_template_part),
    )
    common = {
        "marks": {},
        "drawn": _drawn_section,
        "sample": _sample,
        "sentence": _sentence_markup,
        "version": __version__,
    }
    page_values = {"policy": policy, "style": Markup(style), "script": Markup(text), "document": document}
    return environment.get_template("document.html").render(**(common | page_values | values))


def picture(drawing: Drawing, attributes: Mapping[str, str] | None = None) -> Markup:
    """Return a drawing within a page, in the page's colors."""
    return Markup(svg(drawing, css_color, attributes))


def decorative(drawing: Drawing, name: str) -> Markup:
    """Return a drawing of class `name` that screen readers skip, for use next to equivalent text."""
    return picture(drawing, {"class": name, "aria-hidden": "true"})


def css_color(ink: str) -> str:
    """Return the CSS color of an ink."""
    return f"var(--{ink})"


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


def _template_part(name: str) -> str:
    return (resources.files("resources") / "report" / name).read_text(encoding="utf-8")


def _printable(value: object) -> object:
    # control characters and lone surrogates in a name would make the page invalid
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _variables() -> str:
    dark = f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {_colors(DARK)} }} }}"
    titles = " ".join(f".t-{name} {{ color: {css_color(name)}; }}" for name in LIGHT.precisions)
    return f":root {{ {_colors(LIGHT)} }}\n{dark}\n{titles}\n"


def _colors(palette: Palette) -> str:
    tokens = {field.name: getattr(palette, field.name) for field in fields(palette)}
    inks = {name: value for name, value in tokens.items() if str(value).startswith("#")}
    for name, look in palette.precisions.items():
        inks |= {name: look.color, f"{name}-dim": look.dim}
        inks |= {f"{name}-{end}": ink_color(palette, f"{name}-{end}") for end in ("low", "high")}
    heat = (f"{kind}heat-{step}" for kind in ("", "on-") for step in range(len(palette.heat)))
    inks |= {ink: ink_color(palette, ink) for ink in heat}
    return " ".join(f"--{name.replace('_', '-')}: {value};" for name, value in inks.items())


def _drawn_section(section: Section, part: Picture) -> Iterator[tuple[str, Markup]]:
    for size, width in SIZES.items():
        is_half = size == "wide" and len(section.pictures) > 1
        yield size, picture(part.draw(_HALF if is_half else width))


def _sample(entry: LegendEntry) -> Markup:
    return decorative(Drawing(26, 12, entry.sample(1, 6)), "sample")


def _sentence_markup(pieces: Pieces) -> Markup:
    parts = []
    for piece in pieces:
        text = Markup.escape(printable(piece.text))
        if piece.look is not None:
            parts.append(Markup('<b class="t-{}"><bdi>{}</bdi></b>').format(piece.look.value, text))
        elif piece.role == "strong":
            parts.append(Markup("<b>{}</b>").format(text))
        elif piece.role == "aside":
            parts.append(Markup('<span class="aside">{}</span>').format(text))
        else:
            parts.append(text)
    return Markup("").join(parts)
