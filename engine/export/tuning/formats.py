"""The formats that a saved tuning is exported in."""

from __future__ import annotations

from engine.export.sections.formats import SavedFormat, SavedFormats
from engine.protocol.tuning import Tuning
from engine.store.saved.study import Study

TUNING_FORMATS = SavedFormats[Study[Tuning]](
    "the fastest settings",
    (
        SavedFormat(".py", "Script of the winner", "tuning.data.write_script"),
        SavedFormat(".html", "Report as a web page", "tuning.report.write_html"),
        SavedFormat(".png", "Picture of the gains", "tuning.pictures.write_png"),
        SavedFormat(".svg", "Vector picture of the gains", "tuning.pictures.write_svg"),
        SavedFormat(".json", "Everything as JSON", "tuning.data.write_json"),
        SavedFormat(".md", "Tables in Markdown", "tuning.report.write_markdown"),
    ),
)
