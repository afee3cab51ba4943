"""Tuning on the card, beside every combination of what it may choose."""

from __future__ import annotations

from collections.abc import Sequence

import tune as benchmark

from day.work import Work
from engine.protocol.tune import ChangeKind

_ON_CARD: Sequence[ChangeKind] = ("recipe",)
"""All recipes, captured and compiled ones among them; with all precisions they would outlast a call."""
_ON_CPU: Sequence[ChangeKind] = ("checkpointing",)


def tune(work: Work) -> None:
    """Trains every recipe of the small CNN, then searches for the fastest."""
    kinds = work.small(_ON_CARD, _ON_CPU)
    with work.launcher() as launcher, benchmark.quick(work.is_rehearsal):
        found = benchmark.compared(launcher, "small-cnn", work.device, kinds, 1, is_quick=work.is_rehearsal)
    words = f"(found: {found.found}; best: {found.best}; of {found.cells})"
    work.tell("tune", found.share or 0.0, words)
    work.tell("tune-time", found.search_share, f"({found.whole_share:.2f} with the proof, {found.runs} runs)")
