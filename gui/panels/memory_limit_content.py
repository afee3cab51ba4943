"""A search as the chart shows it."""

from __future__ import annotations

from gui.panels.memory_limit_words import capacity
from gui.plots.memory_scale import MemoryContent, MemorySide
from gui.search_view import SearchView, SideView

_MIB = 1024.0


def content_of(view: SearchView | None, *, on_gpu: bool, shows_forecast: bool) -> MemoryContent:
    """The chart's content; empty without a search."""
    if view is None:
        return MemoryContent()
    limit = view.budget_mib or (None if view.cap_gib is None else view.cap_gib * _MIB)
    return MemoryContent(
        sides=tuple(_side(side) for side in view.sides),
        capacity_gib=None if limit is None else limit / _MIB,
        capacity_text=capacity(view, on_gpu),
        ratio=_ratio(view),
        shows_forecast=shows_forecast,
    )


def _side(side: SideView) -> MemorySide:
    passed = sorted(
        (trial.batch_size, trial.peak_mib / _MIB)
        for trial in side.telling
        if trial.fits and trial.peak_mib is not None
    )
    return MemorySide(
        side.precision,
        side.label,
        tuple(passed),
        tuple(trial.batch_size for trial in side.telling if not trial.fits),
        side.lines(),
        side.largest_batch if side.is_proven else None,
        side.trying,
    )


def _ratio(view: SearchView) -> tuple[int, int, str] | None:
    if view.ratio is None or view.best is None:
        return None
    return view.baseline.largest_batch, view.best.largest_batch, f"{view.ratio:.2f}× the batch"
