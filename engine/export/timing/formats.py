"""The formats that a saved timing is exported in."""

from __future__ import annotations

from engine.export.sections.formats import SavedFormat, SavedFormats
from engine.protocol.timing.timing import Timing
from engine.store.saved.study import Study

TRACE = ".json.gz"

TIMING_FORMATS = SavedFormats[Study[Timing]](
    "a timing",
    (
        SavedFormat(".html", "Report as a web page", "timing.report.write_html"),
        SavedFormat(".csv", "Tables as CSV", "timing.data.write_csv"),
        SavedFormat(".json", "Everything as JSON", "timing.data.write_json"),
    ),
)
TRACE_FORMATS = SavedFormats[Study[Timing]](
    "a trace", (SavedFormat(TRACE, "Traces for Perfetto", "timing.data.write_traces"),)
)
