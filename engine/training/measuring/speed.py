"""How fast a run was: the median over blocks of steps, and how steady it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.experiment import LEAST_BLOCKS
from engine.steadiness import steadiness


@dataclass(frozen=True)
class Speed:
    """Medians over blocks; each is None where `note` says why.

    `interval` is the 95 % interval of the median over this run's blocks: how steady this run was, and nothing
    about what another run would show.
    """

    samples_per_second: float | None = None
    interval: tuple[float, float] | None = None
    step_ms: float | None = None
    note: str | None = None


def speed_of(samples: Sequence[int], seconds: Sequence[float], block_steps: int, warmup_steps: int) -> Speed:
    """The speed of a run from each of its steps: how many samples it took and how many seconds it lasted.

    The first `warmup_steps` are left out. Blocks are of `block_steps` steps each; a rest at the end that
    makes no whole block is left out too.
    """
    blocks = max(0, len(seconds) - warmup_steps) // block_steps
    if blocks < LEAST_BLOCKS:
        return Speed(note=_too_short(blocks, block_steps, warmup_steps))
    measured = slice(warmup_steps, warmup_steps + blocks * block_steps)
    block_seconds = np.asarray(seconds[measured]).reshape(blocks, block_steps).sum(axis=1)
    block_samples = np.asarray(samples[measured]).reshape(blocks, block_steps).sum(axis=1)
    if not block_seconds.all():
        return Speed(note="The steps were too short for this machine's clock.")
    rates = block_samples / block_seconds
    return Speed(
        samples_per_second=float(np.median(rates)),
        interval=steadiness(rates),
        step_ms=float(np.median(block_seconds) / block_steps * 1e3),
    )


def _too_short(blocks: int, block_steps: int, warmup_steps: int) -> str:
    counted = "no whole block" if blocks == 0 else f"only {blocks} whole block{'s' if blocks > 1 else ''}"
    return (
        f"The run was too short to measure: {counted} of {block_steps:,} steps after {warmup_steps:,} "
        f"warm-up step{'' if warmup_steps == 1 else 's'}, and a speed needs {LEAST_BLOCKS}."
    )
