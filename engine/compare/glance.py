"""What a list of thousands of runs tells of each, read without validating all of its settings."""

from __future__ import annotations

import re
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from engine.compare.evidence import is_spoiled
from engine.experiment.experiment import Experiment, Precision
from engine.experiment.settings import PLAIN
from engine.store.record import RunRecord, text_of

_PRECISION = re.compile(r'"precision":"[^"]*"')
_KEY_END = '":'


class _Settings(BaseModel):
    model_config = ConfigDict(extra="ignore")

    class Step(BaseModel):
        recipe: str = PLAIN

    model: str
    dataset: str
    image_size: int | None = None
    precision: Precision
    batch_size: int
    step: Step = Step()


class _Outcome(BaseModel):
    model_config = ConfigDict(extra="ignore")

    samples_per_second: float | None = None
    speed_note: str | None = None
    other_programs_mib: float | None = None
    peak_allocated_mib: float | None = None
    peak_resident_mib: float | None = None
    final_validation_accuracy: float | None = None


class Glance(NamedTuple):
    """`recipe` is the one that was asked for, by which a run is called everywhere.

    `speed` is in samples per second and `accuracy` a fraction; `peak_mib` counts what is allocated on a GPU,
    on a CPU what is resident. `is_spoiled` says that something on the machine slowed it down.
    """

    model: str
    dataset: str
    image_size: int | None
    precision: Precision
    batch_size: int
    recipe: str
    speed: float | None
    peak_mib: float | None
    accuracy: float | None
    is_spoiled: bool


def glance(run: RunRecord) -> Glance:
    """The run at a glance. Raises ValueError where what the store holds of it is damaged."""
    asked, came_to = text_of(run, "experiment"), text_of(run, "summary")
    settings = _Settings.model_validate_json(asked) if asked is not None else run.experiment
    outcome = _Outcome.model_validate_json(came_to) if came_to is not None else run.summary
    if outcome is None:
        outcome = _NOTHING
    peak = outcome.peak_allocated_mib
    return Glance(
        settings.model,
        settings.dataset,
        settings.image_size,
        settings.precision,
        settings.batch_size,
        settings.step.recipe,
        outcome.samples_per_second,
        outcome.peak_resident_mib if peak is None else peak,
        outcome.final_validation_accuracy,
        is_spoiled(outcome),
    )


def settings_but_precision(run: RunRecord) -> str:
    """The same text for runs whose settings differ in nothing but the precision."""
    text = text_of(run, "experiment")
    if text is None:
        text = run.experiment.to_json()
    elif text.count(_KEY_END) != _KEYS:
        # another version wrote it, with other settings
        text = Experiment.from_json(text).to_json()
    return _PRECISION.sub("", text, count=1)


_NOTHING = _Outcome()
_KEYS = Experiment().to_json().count(_KEY_END)
