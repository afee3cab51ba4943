"""What the workspace Show tells while "Show me" measures its two runs, as a value. No Qt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.events import PhaseName
from engine.experiment import Experiment, Precision
from engine.records.race_names import numbers
from engine.showcase import Showcase, pace_of
from gui.panels.live_run import LiveRun
from gui.panels.show_measuring import MeasuredLane, Measuring

if TYPE_CHECKING:
    from engine.records.race import Which

NAMES = {"full": "Full precision", "mixed": "Mixed precision"}
STARTING = "starting"

_PHASES = {
    PhaseName.DOWNLOADING: "getting the pictures",
    PhaseName.CHECKING: "checking the pictures",
    PhaseName.BUILDING: "preparing the model",
    PhaseName.COMPILING: "preparing the model",
    PhaseName.CAPTURING: "preparing the model",
    PhaseName.VALIDATING: "checking what it has learnt",
    PhaseName.SAVING: "saving",
    PhaseName.PAUSED: "paused",
}


@dataclass(frozen=True, eq=False)
class Progress:
    """Where "Show me" stands: `full` and `mixed` are the runs as far as they are known.

    `phase` is what goes on in place of what the run that trains says; "" for that.
    """

    showcase: Showcase | None
    running: Which
    full: LiveRun | None = None
    mixed: LiveRun | None = None
    phase: str = ""
    tiles: NDArray[np.uint8] | None = None


def measuring(progress: Progress) -> Measuring:
    """The page for a moment of the measuring."""
    case = progress.showcase
    live = progress.full if progress.running == "full" else progress.mixed
    return Measuring(
        title="The same training, once in each precision",
        sentence=case.why if case is not None else "",
        subject=_subject(case.sides[0][1]) if case is not None else "",
        running=progress.running,
        full=_lane("full", case, progress.full, progress.running),
        mixed=_lane("mixed", case, progress.mixed, progress.running),
        seconds_left=_seconds_left(live),
        phase=progress.phase or _phase(live),
        tiles=progress.tiles,
    )


def _subject(experiment: Experiment) -> str:
    return f"{experiment.model}, {experiment.batch_size:,} images at once"


def _lane(which: Which, case: Showcase | None, live: LiveRun | None, running: Which) -> MeasuredLane:
    if case is None:
        precision = Precision.FP32 if which == "full" else Precision.BF16
        return MeasuredLane(precision, NAMES[which], "", 0, state="not begun yet")
    experiment = case.sides[0 if which == "full" else 1][1]
    samples = 0 if live is None else live.step * experiment.step_samples
    return MeasuredLane(
        precision=experiment.precision,
        name=NAMES[which],
        detail=numbers(experiment.precision),
        samples_in_all=(experiment.steps or 0) * experiment.step_samples,
        samples=samples,
        peak_mib=None if live is None else _peak(live),
        state=_state(which, samples, running),
    )


def _state(which: Which, samples: int, running: Which) -> str:
    if which == "full" and running == "mixed":
        return "images, measured"
    return "images so far" if samples else "not begun yet"


def _peak(live: LiveRun) -> float | None:
    for name in ("allocated_mib", "resident_mib"):
        values = live.column(name)
        if len(values) and np.isfinite(values).any():
            return float(np.nanmax(values))
    return None


def _seconds_left(live: LiveRun | None) -> float | None:
    if live is None or live.experiment is None or live.experiment.steps is None:
        return None
    pace = pace_of(live.experiment, live.column("samples_per_second"))
    if pace is None:
        return None
    return max(0.0, (live.experiment.steps - live.step) / pace)


def _phase(live: LiveRun | None) -> str:
    if live is None or live.phase is None:
        return STARTING
    return _PHASES.get(live.phase.name, "")
