"""The sentences of the workspace Numerics."""

from __future__ import annotations

from engine.store.diagnoses import DiagnosisRecord
from engine.words.names import dataset_words
from gui.session.diagnoses import DiagnosisView
from gui.widgets.saved_menu import SavedEntry

AWAITED = {
    "map": "The precision map is being made.",
    "range": "The ranges are being measured.",
    "nan": "The first NaN or Inf is being looked for.",
    "ladder": "The ladder's runs are being trained.",
    "islands": "The fewest FP32 modules are being looked for.",
    "advice": "Advice comes with the other parts.",
}
"""What a view says while its part is still to come."""

_PARTS = {
    "map": "map",
    "range": "ranges",
    "nan": "first NaN",
    "ladder": "ladder",
    "islands": "FP32 modules",
    "advice": "advice",
}


def facts(view: DiagnosisView) -> str:
    """What was diagnosed, where and when."""
    experiment = view.experiment
    when = view.created.astimezone().strftime("%d %b, %H:%M")
    what = f"{experiment.model} on {dataset_words(experiment.dataset)}, {experiment.precision.label}"
    return ", ".join(part for part in (what, view.device_name, when) if part)


def progress(view: DiagnosisView) -> str:
    """How far a diagnosis has come."""
    if view.is_waiting:
        return "waiting for its turn"
    what = f"{view.experiment.model}, {view.experiment.precision.label}"
    share = f", {view.fraction:.0%}" if view.fraction is not None else ""
    return f"{what}: {view.doing or 'starting a process'}{share}"


def menu_entry(key: str, record: DiagnosisRecord) -> SavedEntry:
    """A saved diagnosis in a menu."""
    experiment = record.experiment
    what = f"{experiment.model} on {dataset_words(experiment.dataset)}, {experiment.precision.label}"
    parts = ", ".join(_PARTS[part] for part in record.parts)
    return SavedEntry(key, f"{what}: {parts}", record.created, f"On {record.device_name}")
