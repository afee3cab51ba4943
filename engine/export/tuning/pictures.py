"""The waterfall of a tuning as a picture."""

from __future__ import annotations

from pathlib import Path

from engine import __version__
from engine.drawing.bitmap import write_bitmap
from engine.drawing.shapes import Drawing, Words, moved
from engine.drawing.svg import svg_file
from engine.experiment.problem import ProblemError, request_problem
from engine.protocol.tuning import Tuning
from engine.store.saved.study import Study
from engine.sweep.fastest.waterfall import waterfall_drawing
from engine.sweep.fastest.words import title_of
from resources.looks import LIGHT, Palette

_WIDTH, _MARGIN, _HEADING = 760.0, 24.0, 66.0


def picture(study: Study[Tuning]) -> Drawing:
    """The waterfall under its title. Raises ProblemError where there are no gains."""
    tuning = study.answer
    if not tuning.gains:
        why = "the proof shows none" if tuning.winner_changes else "nothing is faster than plain FP32"
        message = f"There are no gains to draw: {'the search is not over' if tuning.proof is None else why}."
        raise ProblemError(request_problem(message, "Export another format.", key="to"))
    drawn = waterfall_drawing(tuning, _WIDTH - 2 * _MARGIN)
    shapes = (
        Words(_MARGIN, 32, title_of(tuning), "text", 16, 600),
        Words(_MARGIN, 52, f"{study.device_name} · Ammeter {__version__}", "text2", 12),
        *moved(drawn.shapes, _MARGIN, _HEADING),
    )
    return Drawing(_WIDTH, drawn.height + _HEADING + _MARGIN, shapes, drawn.description)


def write_png(study: Study[Tuning], path: Path, *, palette: Palette = LIGHT) -> None:
    """Writes the picture as PNG."""
    write_bitmap(picture(study), palette, path, {"Title": title_of(study.answer)})


def write_svg(study: Study[Tuning], path: Path, *, palette: Palette = LIGHT) -> None:
    """Writes the picture as SVG."""
    path.write_text(svg_file(picture(study), palette, title_of(study.answer)), encoding="utf-8")
