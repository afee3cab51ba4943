"""The pictures of a sweep as PNG or SVG files.

`x.png` is the heat map; the others go beside it: `x-lines.png` and `x-scatter.png`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from engine import __version__
from engine.compare.figures import ACCURACY, PEAK_MEMORY, SPEED
from engine.drawing.bitmap import write_bitmap
from engine.drawing.shapes import Drawing, Words, moved, shortened
from engine.drawing.svg import svg_file
from engine.export.data import beside
from engine.store.saved.sweeps import SweepRecord
from engine.sweep.pictures.heat_map import heat_map
from engine.sweep.pictures.lines import lines
from engine.sweep.pictures.picture import shown_figures, usual_axes, usual_lines, usual_places
from engine.sweep.pictures.scatter import scatter
from engine.sweep.reading import results_of
from engine.sweep.results import Results
from engine.words.numbers import counted
from resources.looks import LIGHT, Palette

HEAT_MAP, LINES, SCATTER = "heat-map", "lines", "scatter"
_WIDTH, _MARGIN, _HEADING, _FOOTER = 926.0, 24.0, 74.0, 34.0
_HEIGHTS = {HEAT_MAP: 440.0, LINES: 440.0, SCATTER: 460.0}


def drawings(results: Results, width: float) -> Mapping[str, Drawing]:
    """The pictures by their names, of the axes and figures that say most; none without any figure."""
    if not results.figures:
        return {}
    figures = shown_figures(results)
    by_name = {figure.name: figure for figure in figures}
    speed = by_name.get(SPEED.name, figures[0])
    at = usual_places(results, speed)
    heights = {name: (width, height) for name, height in _HEIGHTS.items()}
    pictures = {
        HEAT_MAP: heat_map(results, *usual_axes(results.grid), speed, at, heights[HEAT_MAP]),
        LINES: lines(results, *usual_lines(results.grid), speed, at, heights[LINES]),
    }
    if PEAK_MEMORY.name in by_name:
        memory, shade = by_name[PEAK_MEMORY.name], by_name.get(ACCURACY.name)
        pictures[SCATTER] = scatter(results, memory, speed, shade, heights[SCATTER])
    return {name: picture.drawing for name, picture in pictures.items()}


def write_png(record: SweepRecord, path: Path, *, palette: Palette = LIGHT) -> None:
    """Writes the pictures as PNG, with twice their pixels each way."""
    facts = {"Title": record.name, "Software": f"Ammeter {__version__}", "Description": _about(record)}
    _write(record, path, lambda drawing, file: write_bitmap(drawing, palette, file, facts))


def write_svg(record: SweepRecord, path: Path, *, palette: Palette = LIGHT) -> None:
    """Writes the pictures as SVG."""

    def write(drawing: Drawing, file: Path) -> None:
        file.write_text(svg_file(drawing, palette, _about(record)), encoding="utf-8")

    _write(record, path, write)


def _write(record: SweepRecord, path: Path, write: Callable[[Drawing, Path], None]) -> None:
    drawn = drawings(results_of(record), _WIDTH - 2 * _MARGIN)
    if not drawn:
        note = Words(0, 16, "No cell of this sweep has figures yet.", "text2", 13)
        drawn = {HEAT_MAP: Drawing(_WIDTH - 2 * _MARGIN, 24, (note,), note.text)}
    for name, drawing in drawn.items():
        write(_framed(record, drawing), path if name == HEAT_MAP else beside(path, name))


def _framed(record: SweepRecord, drawing: Drawing) -> Drawing:
    """The drawing below the sweep's name, with what was measured and when below it."""
    room = _WIDTH - 2 * _MARGIN
    down = _HEADING + drawing.height
    made = f"Made by Ammeter {__version__} from sweep {record.id}."
    heading = (
        Words(_MARGIN, 36, shortened(record.name, room, 20, 600), "text", 20, 600),
        Words(_MARGIN, 56, shortened(subject(record), room, 13), "text2", 13),
    )
    shapes = (*heading, *moved(drawing.shapes, _MARGIN, _HEADING))
    footer = Words(_MARGIN, down + 16, made, "text3", 11)
    description = f"{record.name}. {drawing.description}"
    return Drawing(_WIDTH, down + _FOOTER, (*shapes, footer), description)


def subject(record: SweepRecord) -> str:
    """What was trained, where and when, in a line."""
    when = f"{record.created.astimezone():%Y-%m-%d %H:%M}"
    return " · ".join(part for part in (counted(record.grid.size, "cell"), record.device_name, when) if part)


def _about(record: SweepRecord) -> str:
    axes = {axis.key: list(axis.values) for axis in record.grid.axes}
    return json.dumps({"base": record.grid.base, "axes": axes}, default=str)
