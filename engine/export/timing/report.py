"""The report of a timing as a self-contained web page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from engine.export.sections.page import PAGE_WIDTH, page_figure, sections_page
from engine.export.timing.tables import BAR, LIMITS, sections
from engine.protocol.timing.timing import Timing
from engine.store.saved.study import Study
from engine.timing.bar_picture import bars_drawing
from engine.timing.names import failures, side_names
from engine.timing.roofline import roofline_drawing

_MOST_ROWS = 100
_ROOFLINE_HEIGHT = 420.0


def write_html(study: Study[Timing], path: Path) -> None:
    """Writes the page."""
    path.write_text(page(study), encoding="utf-8")


def page(study: Study[Timing]) -> str:
    """The page as text."""
    timing = study.answer
    experiments = [side.experiment for side in timing.sides]
    figures = {}
    if timing.profiles():
        figures = {
            BAR: [page_figure(bars_drawing(timing, PAGE_WIDTH))],
            LIMITS: [page_figure(roofline_drawing(timing, PAGE_WIDTH, _ROOFLINE_HEIGHT))],
        }
    # the picture of the bars has their figures
    shown = [
        replace(section, rows=()) if section.title == BAR else section
        for section in sections(timing, _MOST_ROWS)
    ]
    return sections_page(
        study,
        f"Where the time of {experiments[0].model} goes: {', '.join(side_names(timing))}",
        experiments,
        shown,
        figures,
        noun="timing",
        warnings=failures(timing),
    )
