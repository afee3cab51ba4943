"""What the strip says while a run does something else than train: compiling, downloading, waiting."""

from __future__ import annotations

from engine.events import PhaseName
from gui.numbers import duration
from gui.panels.live_run import LiveRun

_STILL = (
    PhaseName.DOWNLOADING,
    PhaseName.CHECKING,
    PhaseName.BUILDING,
    PhaseName.COMPILING,
    PhaseName.CAPTURING,
)
_BETWEEN = (PhaseName.VALIDATING, PhaseName.SAVING)
_MORE = {
    PhaseName.CHECKING: " the pictures",
    PhaseName.COMPILING: ", this can take a minute",
    PhaseName.CAPTURING: " the step as one graph",
    PhaseName.SAVING: " a checkpoint",
}
_SILENT_SECONDS = 2


def phase_words(run: LiveRun, *, brief: bool = False) -> str:
    """What the run is busy with, and for how long if it seems to stand still; empty while it is measured."""
    phase = run.phase
    if run.status != "running" or phase is None:
        return ""
    if phase.name not in (*_STILL, *_BETWEEN, PhaseName.WARMING_UP):
        return ""
    words = phase.name.value
    if not brief:
        words += _MORE.get(phase.name) or f" {phase.detail}".rstrip()
    seconds = still_seconds(run)
    return f"{words} · {duration(seconds)}" if seconds >= _SILENT_SECONDS else words


def still_seconds(run: LiveRun) -> int:
    """Whole seconds that a phase without steps has lasted: what shows that the run does not hang."""
    if run.phase is None or run.phase.name not in (*_STILL, *_BETWEEN) or phase_fraction(run) is not None:
        return 0
    return int(run.phase_seconds)


def stands_still(run: LiveRun) -> bool:
    """Whether the run makes no steps for now, and nobody knows how far it is."""
    return run.phase is not None and run.phase.name in _STILL and run.phase.fraction is None


def phase_fraction(run: LiveRun) -> float | None:
    """How far such a phase is, where that is known."""
    if run.phase is None or run.phase.name not in (*_STILL, *_BETWEEN):
        return None
    return run.phase.fraction
