"""The sentences of the workspace Numerics."""

from __future__ import annotations

from engine.experiment.experiment import Experiment
from engine.protocol.numerics.numerics import Numerics
from engine.words.names import dataset_words
from engine.words.numbers import date_text, share_text
from gui.session.orders.studies import StudyView

AWAITED = {
    "map": "The precision map is being made.",
    "range": "The ranges are being measured.",
    "nan": "The first NaN or Inf is being looked for.",
    "ladder": "The ladder's runs are being trained.",
    "islands": "The fewest FP32 modules are being looked for.",
    "advice": "Advice comes with the other parts.",
}
"""What a view says while its part is still to come."""


def facts(view: StudyView[Numerics]) -> str:
    """What was diagnosed, where and when."""
    when = date_text(view.created)
    return ", ".join(part for part in (_what(view.answer.experiment), view.device_name, when) if part)


def progress(view: StudyView[Numerics]) -> str:
    """How far a diagnosis has come."""
    if view.is_waiting:
        return "waiting for its turn"
    what = f"{view.answer.experiment.model}, {view.answer.experiment.precision.label}"
    share = f", {share_text(view.fraction)}" if view.fraction is not None else ""
    return f"{what}: {view.doing or 'starting a process'}{share}"


def is_awaited(view: StudyView[Numerics], part: str) -> bool:
    """Whether a part is still to come; advice comes with the others."""
    return view.is_unfinished and part in (*view.answer.parts, "advice") and not view.answer.has(part)


def _what(experiment: Experiment) -> str:
    return f"{experiment.model} on {dataset_words(experiment.dataset)}, {experiment.precision.label}"
