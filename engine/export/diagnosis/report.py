"""The report of a diagnosis as a self-contained web page, in the style of a comparison's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from markupsafe import Markup

from engine import __version__
from engine.drawing.looks import precision_look
from engine.drawing.shapes import Drawing
from engine.experiment.titles import setting_title
from engine.export.diagnosis.charts import ladder_chart, range_charts
from engine.export.diagnosis.tables import sections
from engine.export.report.page import hidden, picture, rendered
from engine.protocol.numerics.diagnosis import Diagnosis
from engine.protocol.numerics.ladder import Ladder
from engine.store.diagnoses import DiagnosisRecord
from engine.words.names import dataset_words
from engine.words.settings import applying_settings

_MOST_ROWS = 200
_WIDTH, _THIRD = 926.0, 440.0


def write_html(record: DiagnosisRecord, path: Path) -> None:
    """Writes the page; it also opens from a mail, in light and dark, and needs no scripts."""
    path.write_text(page(record), encoding="utf-8")


def page(record: DiagnosisRecord) -> str:
    """The page as text."""
    experiment, diagnosis = record.experiment, record.diagnosis
    settings = applying_settings(experiment)
    return rendered(
        "diagnosis.html",
        version=__version__,
        title=f"Numerics of {experiment.model}, {experiment.precision.label}",
        subject=" · ".join(
            (
                dataset_words(experiment.dataset),
                f"batch {experiment.batch_size:,}",
                record.device_name,
                f"{record.created.astimezone():%Y-%m-%d %H:%M}",
            )
        ),
        problem=record.problem,
        sections=sections(diagnosis, _MOST_ROWS),
        histograms=_histograms(diagnosis),
        ladder=None if diagnosis.ladder is None else _ladder(diagnosis.ladder),
        settings=[(setting_title(key), _text(value)) for key, value in settings.items()],
        made=f"Made by Ammeter {__version__} from diagnosis {record.id}.",
    )


def _histograms(diagnosis: Diagnosis) -> list[tuple[str, Markup]]:
    charts = {} if diagnosis.range is None else range_charts(diagnosis.range, _THIRD)
    return [(f"{quantity.capitalize()}s", picture(chart)) for quantity, chart in charts.items()]


def _ladder(ladder: Ladder) -> dict[str, Any] | None:
    chart = ladder_chart(ladder, _WIDTH)
    if chart is None:
        return None
    samples = [
        (hidden(Drawing(26, 12, precision_look(rung.precision).sample(1, 6)), "sample"), rung.label)
        for rung in ladder.rungs
    ]
    return {"picture": picture(chart), "legend": samples}


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
