"""What Show tells while the two runs of a race are being trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.experiment import Precision

if TYPE_CHECKING:
    from engine.records.race import Which


@dataclass(frozen=True)
class MeasuredLane:
    """One of the two runs: `samples` trained so far of `samples_in_all`; `peak_mib` is the highest so far.

    `detail` stands beside the name: "32-bit numbers (FP32)"; `state` after the count: "images so far".
    """

    precision: Precision
    name: str
    detail: str
    samples_in_all: int
    samples: float = 0.0
    peak_mib: float | None = None
    state: str = ""

    @property
    def fraction(self) -> float:
        """How much of it is trained, 0 to 1."""
        return min(max(self.samples / self.samples_in_all, 0.0), 1.0) if self.samples_in_all else 0.0


@dataclass(frozen=True, eq=False)
class Measuring:
    """Both runs, and which of them trains now.

    `title` is the large line and `sentence` the one below it; `subject` says what is trained
    ("ResNet-50, 64 images at once"); `phase` is what goes on where no steps are made ("saving").
    `seconds_left` are those of the run that trains, None while nobody knows. `tiles` are grey pictures,
    (count, side, side), or None.
    """

    title: str
    sentence: str
    subject: str
    running: Which
    full: MeasuredLane
    mixed: MeasuredLane
    seconds_left: float | None = None
    phase: str = ""
    tiles: NDArray[np.uint8] | None = None

    @property
    def lane(self) -> MeasuredLane:
        """The one that trains."""
        return self.full if self.running == "full" else self.mixed

    def words(self) -> tuple[str, str]:
        """What goes on, and how long it will take: "Measuring full precision" and "4 s left"."""
        return f"Measuring {self.lane.name[:1].lower()}{self.lane.name[1:]}", self._left()

    def _left(self) -> str:
        if self.phase:
            return self.phase
        if self.seconds_left is None:
            return "just begun"
        whole = max(0, round(self.seconds_left))
        return f"{whole:,} s left" if whole else "almost done"
