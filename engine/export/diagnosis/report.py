"""The report of a diagnosis as a self-contained web page."""

from __future__ import annotations

from pathlib import Path

from engine.drawing.looks import precision_look
from engine.drawing.shapes import Drawing
from engine.export.diagnosis.charts import ladder_chart, range_charts
from engine.export.diagnosis.tables import sections
from engine.export.sections.page import PAGE_WIDTH, PageFigure, page_figure, sections_page
from engine.protocol.numerics.diagnosis import Diagnosis, Numerics
from engine.protocol.numerics.ladder import Ladder
from engine.store.saved.study import Study

_MOST_ROWS = 200
_HALF = 440.0


def write_html(study: Study[Numerics], path: Path) -> None:
    """Writes the page."""
    path.write_text(page(study), encoding="utf-8")


def page(study: Study[Numerics]) -> str:
    """The page as text."""
    experiment, diagnosis, problem = study.answer.experiment, study.answer.diagnosis, study.problem
    return sections_page(
        study,
        f"Numerics of {experiment.model}, {experiment.precision.label}",
        [experiment],
        sections(diagnosis, _MOST_ROWS),
        {
            "Ranges": _histograms(diagnosis),
            "Ladder": [] if diagnosis.ladder is None else _ladder(diagnosis.ladder),
        },
        noun="diagnosis",
        warnings=[] if problem is None else [f"{problem.message} {problem.remedy}"],
    )


def _histograms(diagnosis: Diagnosis) -> list[PageFigure]:
    charts = {} if diagnosis.range is None else range_charts(diagnosis.range, _HALF)
    return [page_figure(chart, f"{quantity.capitalize()}s") for quantity, chart in charts.items()]


def _ladder(ladder: Ladder) -> list[PageFigure]:
    chart = ladder_chart(ladder, PAGE_WIDTH)
    if chart is None:
        return []
    legend = [
        (Drawing(26, 12, precision_look(rung.precision).sample(1, 6)), rung.label) for rung in ladder.rungs
    ]
    return [page_figure(chart, legend=legend)]
