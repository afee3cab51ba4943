"""The words, counts and amounts on the card of a replay, or of two runs that are being measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from engine.drawing.looks import SideLook

NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class LaneHead:
    """The heading of one run in a replay. `short` is its name, in parts, as shown below its gauge."""

    name: str
    detail: str
    look: SideLook
    short: tuple[str, ...]


@dataclass(frozen=True)
class Count:
    """The progress of one run in a replay at an instant: blocks, number of samples, and the words after it.

    `brief` is a shorter text of these words.
    """

    blocks: int
    samples: str
    words: str
    brief: str


@dataclass(frozen=True)
class Instant:
    """Everything in a replay's drawing that changes with time, at one instant.

    `number` is "" before a first value. None means no number at all. `spoken` is for screen readers. Gauges
    are filled to the fraction `fill` of `peaks_mib`.
    """

    counts: tuple[Count, Count]
    number: str | None
    caption: tuple[str, str]
    spoken: str
    sure: str = ""
    fill: float = 1.0
    peaks_mib: tuple[float | None, float | None] = (None, None)


@dataclass(frozen=True, eq=False)
class Scene:
    """The content of a replay's drawing: everything fixed, and the function `at` for the moving parts.

    `at` takes seconds from 0 to `seconds`. `tiles` are gray images (count, side, side). With `peaks` there
    are memory gauges, with the text `memory` below. `absent` replaces an unknown peak. Peaks may grow until
    `is_final`.
    """

    title: str
    sentence: str
    heads: tuple[LaneHead, LaneHead]
    blocks: int
    tiles: NDArray[np.uint8]
    at: Callable[[float], Instant]
    seconds: float = 0.0
    playback_rate: float = 1.0
    pace: str = ""
    caution: str = ""
    doubts: tuple[str, ...] = ()
    is_spoiled: bool = False
    peaks: bool = True
    memory: tuple[str, str] = ("", "")
    absent: str = NOT_MEASURED
    is_final: bool = True
    activity: tuple[float, float] | None = None

    @cached_property
    def end(self) -> Instant:
        return self.at(self.seconds)

    @cached_property
    def instants(self) -> tuple[Instant, ...]:
        """Instants that include the longest words and numbers."""
        return tuple(self.at(self.seconds * part / 20) for part in range(21))
