"""Advice on an experiment's numerics or the time of its step, and the evidence that it rests on."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from engine.experiment.value import Line, Message, Text

_MAY_SET = ("precision", "batch_size", "epochs", "steps")
_TABLES_IT_MAY_SET = ("optimizer", "schedule", "scaler", "step", "data")


def of_advice(changes: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """The changes that advice may make: those of how a model is trained, never of what is trained or read."""
    return tuple(
        (key, text) for key, text in changes if key in _MAY_SET or key.partition(".")[0] in _TABLES_IT_MAY_SET
    )


Changes = Annotated[tuple[tuple[Line, Line], ...], Field(max_length=100), AfterValidator(of_advice)]
"""Settings by their dotted keys, with values as text, that try a remedy; empty where no setting would."""


class AdviceKind(StrEnum):
    """The subject of advice."""

    SLOW_FORMAT = "slow format"
    """The device has no units for the precision, or emulates it."""
    ODD_SIZE = "odd size"
    """Layers whose sizes are no multiple of 8."""
    LITTLE_WORK = "little work"
    """Too little to fill the device."""
    SCALE_SINKS = "scale sinks"
    SCALE_NEVER_GROWS = "scale never grows"
    CASTS = "casts"
    """They cost more than the shorter format saves."""
    HALF_IN_LOSS = "half in the loss"
    """A loss or a normalisation is computed in 16 bits."""
    CLIPPING = "clipping"
    """It hides overflow."""
    EPSILON = "epsilon"
    """The optimizer's is below the smallest number of its parameters' format."""
    MEMORY = "memory"
    """Memory that AMP does not shrink, and why."""
    RANGE = "range"
    """Numbers that a format cannot hold."""
    COULD_BE_TF32 = "could be TF32"
    """Matrix products in FP32 that could run on Tensor Cores."""
    PAGEABLE_COPY = "pageable copy"
    """Copies from host to device out of unpinned memory."""
    SYNCHRONISATION = "synchronisation"
    """The host waits for the device within the loop."""
    STARVED = "starved"
    """The loader does not keep up with the device."""
    TINY_KERNELS = "tiny kernels"
    """Kernels too short to be launched in time."""
    UNFUSED_OPTIMIZER = "unfused optimizer"
    ZEROED_GRADIENTS = "zeroed gradients"
    """Gradients are filled with zeros where they could be dropped."""
    LAYOUT = "layout"
    """Conversions to channels_last and back."""
    IDLE_THREADS = "idle threads"
    """Cores of a CPU that do not take part."""


class Advice(Message):
    """A sentence of advice; `evidence` tells the figures that it rests on, `modules` where it applies.

    `action` labels the button that applies `changes`; empty without any.
    """

    kind: AdviceKind
    message: Text
    evidence: Text
    modules: Annotated[tuple[Line, ...], Field(max_length=100)] = ()
    changes: Changes = ()
    action: Line = ""


class Advices(Message):
    """All advice, the most useful first."""

    part: Literal["advice"] = "advice"
    items: Annotated[tuple[Advice, ...], Field(max_length=100)] = ()
