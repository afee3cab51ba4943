"""The formats that a saved diagnosis is exported in."""

from __future__ import annotations

from engine.export.sections.formats import SavedFormat, SavedFormats
from engine.protocol.numerics.diagnosis import Numerics
from engine.store.saved.study import Study

DIAGNOSIS_FORMATS = SavedFormats[Study[Numerics]](
    "a diagnosis",
    (
        SavedFormat(".html", "Report as a web page", "diagnosis.report.write_html"),
        SavedFormat(".csv", "Tables as CSV", "diagnosis.data.write_csv"),
        SavedFormat(".json", "Everything as JSON", "diagnosis.data.write_json"),
    ),
)
