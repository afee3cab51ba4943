"""The formats that a saved diagnosis is exported in."""

from __future__ import annotations

from engine.export.sections.formats import SavedFormat, SavedFormats
from engine.store.saved.diagnoses import DiagnosisRecord

DIAGNOSIS_FORMATS = SavedFormats[DiagnosisRecord](
    "a diagnosis",
    (
        SavedFormat(".html", "Report as a web page", "diagnosis.report.write_html"),
        SavedFormat(".csv", "Tables as CSV", "diagnosis.data.write_csv"),
        SavedFormat(".json", "Everything as JSON", "diagnosis.data.write_json"),
    ),
)
