"""How often the interval of a speed-up covers the true ratio, and a drift is seen, in simulated comparisons.

    uv run python tests/benchmarks/interval_coverage.py [--comparisons 1000] [--noise 0.05]

Steps last as a first-order autoregressive series says (0.7 from one to the next), repeats differ by 2%
(standard deviation), and a repeat's speed is the median over blocks of 20 steps. Beside Ammeter's interval
stands that of the plain bootstrap, which draws repeats, then blocks within them, and takes percentiles.

Then the machine itself changes: all runs of a comparison are made one after another while it slows down by
30%, or wanders (AR(1), 0.6 from run to run, 3%), in pairs or as repeats that know nothing of one another,
in turns or one whole side after the other. Then some repeats of one side or of both are slow, which may leave
no interval, and a true gain of 3% has to be seen. Last, single runs slide by 30%, halve their clocks in
mid-run, or do neither, to count how often they are flagged, and so are steady comparisons of repeats whose
steps have a heavy tail.
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
    ratio_interval,
    shared_drifts,
    student_t,
)

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


def covered_on_a_changing_machine(
    generator: np.random.Generator, levels: Floats, *, in_turns: bool, in_pairs: bool
) -> float:
    """The fraction covered where the machine's speed was `levels`, (comparisons, 2 x repeats) in time.

    Beside them each run has noise of its own, of 1%.
    """
    places = np.arange(levels.shape[1])
    # in turns as Ammeter trains: A B, B A, A B, ...
    is_mine = places % 4 % 3 == 0 if in_turns else places < len(places) // 2
    seen = levels * np.exp(0.01 * generator.standard_normal(levels.shape))
    sides = zip(TRUE_RATIO * seen[:, is_mine], seen[:, ~is_mine], strict=True)
    found = [(paired_ratio_interval if in_pairs else ratio_interval)(*pair) for pair in sides]
    return _fraction([interval for interval in found if interval is not None])


def flagged_fraction(speeds: Floats) -> float:
    """How many of the runs are said to have drifted; `speeds` are of steps, of shape (runs, steps)."""
    blocks = 1 / (1 / speeds).reshape(len(speeds), -1, BLOCK_STEPS).mean(axis=-1)
    return float(np.mean([drift(one) is not None for one in blocks]))


def _print_changing_machine(generator: np.random.Generator, comparisons: int) -> None:
    print("\nthe machine  repeats   pairs in turns  unpaired in turns  unpaired, side after side")
    for repeats in (3, 5, 10, 20):
        wandering = np.ones((comparisons, 2 * repeats))
        noise = 0.03 * generator.standard_normal(wandering.shape)
        for run in range(1, noise.shape[1]):
            noise[:, run] = 0.6 * noise[:, run - 1] + 0.8 * noise[:, run]
        slowing = np.tile(np.linspace(1.0, 0.7, 2 * repeats), (comparisons, 1))
        for name, levels in (("steady", wandering), ("wanders", np.exp(noise)), ("slows down", slowing)):
            found = [
                covered_on_a_changing_machine(generator, levels, in_turns=in_turns, in_pairs=in_pairs)
                for in_turns, in_pairs in ((True, True), (True, False), (False, False))
            ]
            told = "  ".join(f"{100 * fraction:15.1f}%" for fraction in found)
            print(f"{name:11}  {repeats:7}{told}")


def repeats_of(generator: np.random.Generator, name: str, shape: tuple[int, int]) -> tuple[Floats, Floats]:
    """The logarithms of the repeats' speeds, without the true ratio, of shape (comparisons, repeats)."""

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


def _print_drift_of_repeats(generator: np.random.Generator, comparisons: int) -> None:
    print("\nsteady comparisons of two sides that are flagged, by how their lognormal steps hang together")
    print("repeats  blocks  hanging   flagged")
    for repeats in (1, 2, 3, 10):
        for blocks, correlation in ((10, 0.7), (10, 0.95), (20, 0.95)):
            shape = (comparisons, 2 * repeats, blocks * BLOCK_STEPS)
            steps = np.exp(0.5 * _autoregressive(generator, shape, correlation))
            speeds = 1 / steps.reshape(comparisons, 2, repeats, blocks, BLOCK_STEPS).mean(axis=-1)
            flagged = [
                any(change is not None for side in one for change in shared_drifts(list(side)))
                for one in speeds
            ]
            print(f"{repeats:7}  {blocks:6}  {correlation:7}  {100 * float(np.mean(flagged)):6.1f}%")


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
    _print_changing_machine(generator, asked.comparisons)
    _print_slow_repeats(generator, asked.comparisons)
    _print_power(generator, asked.comparisons)
    _print_drift_of_repeats(generator, asked.comparisons)
    _print_drift(generator, asked.comparisons)


if __name__ == "__main__":
    main()
