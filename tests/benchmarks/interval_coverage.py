"""How often the interval of a speed-up covers the true ratio, over simulated comparisons.

    uv run python tests/benchmarks/interval_coverage.py [--comparisons 1000] [--noise 0.05]

Steps last as a first-order autoregressive series says (0.7 from one to the next), repeats differ by 2 %
(standard deviation), and a repeat's speed is the median over blocks of 20 steps. Beside Ammeter's interval
stands that of the plain bootstrap, which draws repeats, then blocks within them, and takes percentiles.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.records.intervals import paired_ratio_interval
from engine.steadiness import Interval

Floats = NDArray[np.float64]

TRUE_RATIO = 1.89
CORRELATION = 0.7
BETWEEN_REPEATS = 0.02
BLOCK_STEPS = 20
_RESAMPLES = 400
_FEW = 200
"""Comparisons for the bootstrap, which takes its time."""


def simulated_blocks(
    generator: np.random.Generator,
    comparisons: int,
    repeats: int,
    steps: int,
    noise: float,
    shared: float = 0.0,
) -> tuple[Floats, Floats]:
    """Block speeds of both sides, of shape (comparisons, repeats, blocks).

    `noise` is the standard deviation of a step's time; of what makes repeats differ, the share `shared` is
    the same in the two runs of a pair.
    """
    shape = (comparisons, repeats)
    common = generator.standard_normal(shape) * np.sqrt(shared)
    sides = []
    for ratio in (TRUE_RATIO, 1.0):
        own = generator.standard_normal(shape) * np.sqrt(1 - shared)
        level = ratio * np.exp(BETWEEN_REPEATS * (common + own))
        step_seconds = (1 + noise * _autoregressive(generator, (*shape, steps))) / level[..., np.newaxis]
        sides.append(BLOCK_STEPS / step_seconds.reshape(*shape, -1, BLOCK_STEPS).sum(axis=-1))
    return sides[0], sides[1]


def covered_fraction(blocks: Floats, base_blocks: Floats) -> float:
    """In what fraction of the comparisons Ammeter's interval holds the true ratio."""
    speeds, base_speeds = np.median(blocks, axis=-1), np.median(base_blocks, axis=-1)
    found = (paired_ratio_interval(*pair) for pair in zip(speeds, base_speeds, strict=True))
    return _fraction([interval for interval in found if interval is not None])


def covered_by_percentiles(generator: np.random.Generator, blocks: Floats, base_blocks: Floats) -> float:
    """The same of the plain hierarchical bootstrap."""
    intervals = []
    for mine, theirs in zip(blocks, base_blocks, strict=True):
        ratios = _resampled(generator, mine) / _resampled(generator, theirs)
        low, high = np.percentile(ratios, (2.5, 97.5))
        intervals.append((float(low), float(high)))
    return _fraction(intervals)


def _resampled(generator: np.random.Generator, blocks: Floats) -> Floats:
    repeats, count = blocks.shape
    drawn = generator.integers(repeats, size=(_RESAMPLES, repeats))
    within = generator.integers(count, size=(_RESAMPLES, repeats, count))
    medians = np.median(blocks[drawn[..., np.newaxis], within], axis=-1)
    return np.asarray(np.median(medians, axis=-1))


def _autoregressive(generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    values = generator.standard_normal(shape)
    fresh = np.sqrt(1 - CORRELATION**2)
    for step in range(1, shape[-1]):
        values[..., step] = CORRELATION * values[..., step - 1] + fresh * values[..., step]
    return values


def _fraction(intervals: Sequence[Interval]) -> float:
    return sum(low <= TRUE_RATIO <= high for low, high in intervals) / len(intervals)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--comparisons", type=int, default=1_000)
    parser.add_argument("--noise", type=float, default=0.05, help="of a step's time, as a fraction of it")
    asked = parser.parse_args()
    generator = np.random.default_rng(0)
    print(f"{asked.comparisons:,} comparisons, steps vary by {100 * asked.noise:g} %")
    print("repeats  steps  of a pair alike   Ammeter  bootstrap")
    for repeats in (2, 3, 5, 10):
        for steps in (200, 2_000):
            for shared in (0.0, 0.8):
                blocks = simulated_blocks(generator, asked.comparisons, repeats, steps, asked.noise, shared)
                few = (side[:_FEW] for side in blocks)
                found = (covered_fraction(*blocks), covered_by_percentiles(generator, *few))
                told = "  ".join(f"{100 * fraction:6.1f} %" for fraction in found)
                print(f"{repeats:7}  {steps:5,}  {100 * shared:13.0f} %  {told}")


if __name__ == "__main__":
    main()
