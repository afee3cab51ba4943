"""The sentences of the workspace Numerics."""

from __future__ import annotations

from engine.experiment.experiment import Experiment
from engine.words.names import dataset_words
from engine.words.numbers import date_text, share_text
from gui.session.orders.diagnoses import DiagnosisView

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
    when = date_text(view.created)
    return ", ".join(part for part in (_what(view.experiment), view.device_name, when) if part)


def progress(view: DiagnosisView) -> str:
    """How far a diagnosis has come."""
    if view.is_waiting:
        return "waiting for its turn"
    what = f"{view.experiment.model}, {view.experiment.precision.label}"
    share = f", {share_text(view.fraction)}" if view.fraction is not None else ""
    return f"{what}: {view.doing or 'starting a process'}{share}"


def _what(experiment: Experiment) -> str:
    return f"{experiment.model} on {dataset_words(experiment.dataset)}, {experiment.precision.label}"
