"""Coverage of the interval of a speedup, power, and drifts that are noticed, in simulated comparisons.

    uv run python tests/benchmarks/interval_coverage.py [--comparisons 1000] [--noise 0.05]

Step times are a first-order autoregressive series (0.7), repeats differ by 2% (standard deviation), and a
repeat's throughput is the median over blocks of 20 steps. Ammeter's interval is compared with a plain
bootstrap, which resamples repeats, then their blocks, and takes percentiles. Further tables: repeats of which
some are slow, which may leave no interval; a true gain of 3% that should be seen; and single runs that slide
by 30%, halve their clocks, or do neither, and how often they are flagged.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.statistics import (
    Interval,
    drift,
    outlying_side,
    paired_ratio_interval,
    student_t,
)

Floats = NDArray[np.float64]

TRUE_RATIO = 1.89
CORRELATION = 0.7
BETWEEN_REPEATS = 0.02
BLOCK_STEPS = 20
_RESAMPLES = 400
_FEW = 200
"""Comparisons for the bootstrap, which is slow."""


def simulated_blocks(
    generator: np.random.Generator,
    comparisons: int,
    repeats: int,
    steps: int,
    noise: float,
    shared: float = 0.0,
) -> tuple[Floats, Floats]:
    """Return the throughput of both sides' blocks, of shape (comparisons, repeats, blocks).

    `noise` is the standard deviation of a step's time. The share `shared` of the difference between repeats
    is the same in both runs of a pair.
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
    """Return the fraction of comparisons whose interval by Ammeter includes the true ratio."""
    speeds, base_speeds = np.median(blocks, axis=-1), np.median(base_blocks, axis=-1)
    found = (paired_ratio_interval(*pair) for pair in zip(speeds, base_speeds, strict=True))
    return _fraction([interval for interval in found if interval is not None])


def covered_by_percentiles(generator: np.random.Generator, blocks: Floats, base_blocks: Floats) -> float:
    """Return the same fraction for the plain hierarchical bootstrap."""
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


def _autoregressive(
    generator: np.random.Generator, shape: tuple[int, ...], correlation: float = CORRELATION
) -> Floats:
    values = generator.standard_normal(shape)
    fresh = np.sqrt(1 - correlation**2)
    for step in range(1, shape[-1]):
        values[..., step] = correlation * values[..., step - 1] + fresh * values[..., step]
    return values


def _fraction(intervals: Sequence[Interval]) -> float:
    return sum(low <= TRUE_RATIO <= high for low, high in intervals) / len(intervals)


def flagged_fraction(speeds: Floats) -> float:
    """Return the fraction of runs that are flagged as drifting; `speeds` has the shape (runs, steps)."""
    blocks = 1 / (1 / speeds).reshape(len(speeds), -1, BLOCK_STEPS).mean(axis=-1)
    return float(np.mean([drift(one) is not None for one in blocks]))


def repeats_of(generator: np.random.Generator, name: str, shape: tuple[int, int]) -> tuple[Floats, Floats]:
    """Return the logarithms of the repeats' throughput without the true ratio, of that shape."""

    def normal(spread: float) -> Floats:
        return spread * generator.standard_normal(shape)

    def slow_tail() -> Floats:
        return 0.02 * (1 - generator.exponential(1, shape))

    if name == "quiet":
        return normal(0.01), normal(0.01)
    if name == "slow tails on both sides":
        return slow_tail() + normal(0.004), slow_tail() + normal(0.004)
    if name == "slow tail on one side":
        return slow_tail(), normal(0.004)
    if name == "the same in pairs alike":
        common = normal(0.02)
        return common + slow_tail() + normal(0.003), common + normal(0.003)
    assert name == "every fifth of one side 10% slower"
    # the undisturbed ratio is the truth
    return normal(0.005) - 0.1 * (generator.random(shape) < 0.2), normal(0.005)


REPEATS = (
    "quiet",
    "slow tails on both sides",
    "slow tail on one side",
    "the same in pairs alike",
    "every fifth of one side 10% slower",
)


def _print_slow_repeats(generator: np.random.Generator, comparisons: int) -> None:
    print("\npairs of repeats: no interval is given (refused), the truth is covered or the interval refused,")
    print("covered by those given, and their width relative to Student's t")
    print(f"{'':36}repeats  refused  covered or refused  covered  width")
    for name in REPEATS:
        for repeats in (3, 5, 8, 10, 20):
            logs, base_logs = repeats_of(generator, name, (comparisons, repeats))
            errors = (logs - base_logs).std(axis=1, ddof=1) / np.sqrt(repeats)
            given, widths = [], []
            for mine, theirs, error in zip(TRUE_RATIO * np.exp(logs), np.exp(base_logs), errors, strict=True):
                interval = paired_ratio_interval(mine, theirs)
                if interval is not None and outlying_side(mine, theirs, is_paired=True) is None:
                    given.append(interval)
                    widths.append(np.log(interval[1] / interval[0]) / (2 * student_t(repeats - 1) * error))
            missed = len(given) - sum(low <= TRUE_RATIO <= high for low, high in given)
            refused = 1 - len(given) / comparisons
            covered = 1 - missed / max(1, len(given))
            told = f"{100 * refused:7.1f}%  {100 * (1 - missed / comparisons):17.1f}%  {100 * covered:6.1f}%"
            print(f"{name:36}{repeats:7} {told}  {np.mean(widths):5.2f}")


def _print_power(generator: np.random.Generator, comparisons: int) -> None:
    print("\na true 3% is seen by pairs whose repeats vary by")
    print("repeats     0.5%      1%    1.5%      2%")
    for repeats in (3, 5, 10, 20):
        found = []
        for spread in (0.005, 0.01, 0.015, 0.02):
            logs = spread * generator.standard_normal((2, comparisons, repeats))
            pairs = list(zip(1.03 * np.exp(logs[0]), np.exp(logs[1]), strict=True))
            given = [
                paired_ratio_interval(*pair) for pair in pairs if outlying_side(*pair, is_paired=True) is None
            ]
            found.append(sum(interval is not None and interval[0] > 1 for interval in given) / comparisons)
        print(f"{repeats:7}  " + "  ".join(f"{100 * fraction:5.1f}%" for fraction in found))


def _print_drift(generator: np.random.Generator, runs: int) -> None:
    print("\nflagged as drifting, by how steps vary and hang together, and by blocks")
    print("blocks  noise  hanging    steady  slide 10%  slide 30%  step 30%")
    for blocks in (10, 20, 40, 100):
        along = np.linspace(0, 1, blocks * BLOCK_STEPS)
        for noise, correlation in ((0.02, 0.7), (0.05, 0.7), (0.1, 0.7), (0.05, 0.95), (0.05, 0.99)):
            steps = 1 + noise * _autoregressive(generator, (runs, len(along)), correlation)
            courses = (np.ones_like(along), 1 - 0.1 * along, 1 - 0.3 * along, np.where(along < 0.5, 1, 0.7))
            found = [flagged_fraction(level / np.maximum(steps, 0.1)) for level in courses]
            told = "  ".join(f"{100 * fraction:8.1f}%" for fraction in found)
            print(f"{blocks:6}  {100 * noise:3.0f}%  {correlation:7}  {told}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--comparisons", type=int, default=1_000)
    parser.add_argument("--noise", type=float, default=0.05, help="of a step's time, as a fraction of it")
    asked = parser.parse_args()
    generator = np.random.default_rng(0)
    print(f"{asked.comparisons:,} comparisons, steps vary by {100 * asked.noise:g}%")
    print("repeats  steps  of a pair alike   Ammeter  bootstrap")
    for repeats in (2, 3, 5, 10):
        for steps in (200, 2_000):
            for shared in (0.0, 0.8):
                blocks = simulated_blocks(generator, asked.comparisons, repeats, steps, asked.noise, shared)
                few = (side[:_FEW] for side in blocks)
                found = (covered_fraction(*blocks), covered_by_percentiles(generator, *few))
                told = "  ".join(f"{100 * fraction:6.1f}%" for fraction in found)
                print(f"{repeats:7}  {steps:5,}  {100 * shared:13.0f}%  {told}")
    _print_slow_repeats(generator, asked.comparisons)
    _print_power(generator, asked.comparisons)
    _print_drift(generator, asked.comparisons)


if __name__ == "__main__":
    main()
