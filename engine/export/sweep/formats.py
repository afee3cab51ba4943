"""The formats that a saved sweep is exported in."""

from __future__ import annotations

from engine.export.sections.formats import SavedFormat, SavedFormats
from engine.store.saved.sweeps import SweepRecord

SWEEP_FORMATS = SavedFormats[SweepRecord](
    "a sweep",
    (
        SavedFormat(".html", "Report as a web page", "sweep.report.write_html"),
        SavedFormat(".png", "Pictures", "sweep.pictures.write_png"),
        SavedFormat(".svg", "Vector pictures", "sweep.pictures.write_svg"),
        SavedFormat(".csv", "Cells as CSV", "sweep.data.write_csv"),
        SavedFormat(".json", "Everything as JSON", "sweep.data.write_json"),
        SavedFormat(".md", "Table in Markdown", "sweep.report.write_markdown"),
    ),
)
