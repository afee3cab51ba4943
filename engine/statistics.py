"""95% intervals of a ratio and of a value from repeats, the steadiness of a run, and FP32's band of losses.

Memory layout, clocks and warmth vary between fresh processes, so only repeats give an interval of a ratio. A
hierarchical percentile bootstrap of two or three repeats covers the truth anywhere from 76 to 100% (Davison
and Hinkley, Bootstrap Methods and their Application, 1997, section 3.8). So each repeat counts as one value,
the median over its blocks; pairs are kept together; and the spread over them is scaled by Student's t, which
is sound for few values (Hesterberg, What Teachers Should Know About the Bootstrap, 2015). Slow outliers on
both sides leave the differences of pairs symmetric. On one side only they bias the ratio, and no interval of
a useful width covers the truth: `outlying_side` finds them, and none is given. A side's own value has no
partner, so from eight repeats on its interval allows for skewness by Hall's transformation (Journal of the
Royal Statistical Society B 54, 1992). tests/benchmarks/interval_coverage.py measures coverage, width, power.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from engine.lazy_imports import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Interval = tuple[float, float]

_MOST_SPREAD = 1.25
_LEAST_DRIFT = 0.05
_LEAST_END_BLOCKS = 5
_LEAST_FOR_HALL, _LEAST_SKEWNESS = 8, 1e-6
_LEAST_FOR_OUTLIERS, _NEGLIGIBLE_SPREAD = 5, 0.0025
_LEAST_MOVES = 7.0
"""The least drift, as a multiple of neighboring blocks' difference over the root of the blocks at an end:
correlated blocks wander, and few blocks do not show how much they are correlated."""


def known_values(values: Iterable[float | None]) -> list[float]:
    """Return the values that are not None."""
    return [value for value in values if value is not None]


def median(values: NDArray[np.float64]) -> float:
    """Return the median of at least one value.

    NumPy's would first load its masked arrays, while a run's first steps are measured.
    """
    ordered, middle = np.sort(values), len(values) // 2
    return float(ordered[middle] + ordered[-1 - middle]) / 2


def steadiness(block_speeds: NDArray[np.float64]) -> Interval | None:
    """Return the interval of one run's median speed from its blocks, which shows only how steady the run was.

    Its ends are two of the blocks by rank (the sign test's interval), widened for the correlation of
    neighboring blocks: the sum of the autocorrelations until they vanish (Geyer, Statistical Science 7,
    1992). None with fewer than two blocks.
    """
    count = len(block_speeds)
    if count < 2:
        return None
    ordered = np.sort(block_speeds)
    is_high = (block_speeds > ordered[(count - 1) // 2]).astype(np.float64)
    reach = _NORMAL / 2 * math.sqrt(count * _correlation_time(is_high))
    low, high = math.floor(count / 2 - reach), math.ceil(count / 2 + reach)
    return float(ordered[max(0, low)]), float(ordered[min(count - 1, high)])


def is_wide(interval: Interval) -> bool:
    """Return True if the interval of one run's speed (`steadiness`) is 25% wide or wider."""
    return interval[1] >= _MOST_SPREAD * interval[0]


def drift(block_speeds: NDArray[np.float64]) -> float | None:
    """Return the change in speed from a run's start to its end, as a fraction. None if it was steady.

    Start and end are the median blocks of the first and the last third, of five or more. They count as
    different if they are 5% or more apart, their intervals (`steadiness`) do not meet, and neighboring
    blocks are much closer than they are. In simulations (tests/benchmarks/interval_coverage.py, blocks of 20
    steps) a slide of 30% over 20 blocks or more is detected in 90 of 100 runs whose steps vary by 10%, in
    all that vary by 5%. Of steady runs barely any counts as drifting if steps are correlated over a few
    (AR(1), 0.7), 1 to 2 of 100 if over some twenty (0.95), and 25 of 100 if over hundreds (0.99).
    """
    reach = max(_LEAST_END_BLOCKS, len(block_speeds) // 3)
    if 2 * reach > len(block_speeds):
        return None
    begin, end = block_speeds[:reach], block_speeds[-reach:]
    change = float(np.median(end) / np.median(begin)) - 1.0
    begin_interval, end_interval = steadiness(begin), steadiness(end)
    assert begin_interval is not None and end_interval is not None
    do_meet = begin_interval[0] <= end_interval[1] and end_interval[0] <= begin_interval[1]
    move = float(np.abs(np.diff(np.log(block_speeds))).mean())
    least = max(_LEAST_DRIFT, _LEAST_MOVES * move / math.sqrt(reach))
    return None if do_meet or abs(change) < least else change


def shared_drifts(repeats: Sequence[NDArray[np.float64]]) -> tuple[float | None, ...]:
    """Return the `drift` of each repeat. All are None unless most drifted in the same direction."""
    changes = [drift(blocks) for blocks in repeats]
    for sign in (1, -1):
        alike = tuple(change if change is not None and sign * change > 0 else None for change in changes)
        if 2 * sum(change is not None for change in alike) > len(alike):
            return alike
    return (None,) * len(changes)


def _correlation_time(values: NDArray[np.float64]) -> float:
    # the number of successive values that carry the information of one independent value
    count = len(values)
    away = values - values.mean()
    if not away.any():
        return 1.0
    spectrum = np.fft.rfft(away, 2 * count)
    correlation = np.fft.irfft(spectrum * spectrum.conj())[:count]
    correlation = correlation / correlation[0]
    # Geyer's initial sequence: sums of neighboring pairs are positive until they are noise
    pairs = correlation[: count // 2 * 2].reshape(-1, 2).sum(axis=1)
    ends = np.flatnonzero(pairs <= 0)
    return max(1.0, 2.0 * float(pairs[: ends[0] if len(ends) else None].sum()) - 1.0)


Values: TypeAlias = "Sequence[float] | NDArray[np.float64]"

_NORMAL = 1.959964
# Student's t at 97.5% for 1, 2, 3, ... degrees of freedom
_STUDENT = (
    12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157, 2.228139,
    2.200985, 2.178813, 2.160369, 2.144787, 2.131450, 2.119905, 2.109816, 2.100922, 2.093024, 2.085963,
)  # fmt: skip


def paired_ratio_interval(values: Values, base_values: Values) -> Interval | None:
    """Return the interval of a ratio from paired repeats, in which the two sides ran one after the other.

    None with fewer than two pairs, or where a value is not positive and finite. Raises ValueError for
    sequences of different lengths.
    """
    if len(values) != len(base_values):
        raise ValueError("each repeat needs its partner")
    logs, base_logs = _logs(values), _logs(base_values)
    if logs is None or base_logs is None:
        return None
    return _exponential(_mean_interval(logs - base_logs))


def outlying_side(values: Values, base_values: Values, *, is_paired: bool) -> Literal[0, 1] | None:
    """Return the side whose speeds alone have outliers: 0 for `values`, 1 for the base, None for neither.

    The wider side's spread exceeds the other's significantly (F test, 5%) and leans to slow values, or the
    differences of pairs are significantly skewed (5%). Spreads below 0.25% do not matter. None with fewer
    than five repeats, whose interval is wide where one of them is far off. In simulations 7 to 8 of 100 quiet
    comparisons are caught by chance. An exponential tail of one side shows in 92 of 100 comparisons of 10
    pairs, in 85 of 8, and in 60 of 5.
    """
    mine, theirs = _logs(values, _LEAST_FOR_OUTLIERS), _logs(base_values, _LEAST_FOR_OUTLIERS)
    if mine is None or theirs is None:
        return None
    sides = mine, theirs
    spreads = [max(float(side.std(ddof=1)), _NEGLIGIBLE_SPREAD) for side in sides]
    wide: Literal[0, 1] = 1 if spreads[1] > spreads[0] else 0
    ratio, degrees = spreads[wide] / spreads[1 - wide], min(map(len, sides)) - 1
    # F's quantile by Student's t (Cacoullos, Journal of the American Statistical Association 60, 1965)
    is_wider = math.sqrt(degrees) / 2 * (ratio - 1 / ratio) > student_t(degrees)
    if is_wider and _skewness(sides[wide]) < 0:
        return wide
    if not is_paired:
        return None
    differences = mine - theirs
    skewness = _skewness(differences) if differences.std(ddof=1) > _NEGLIGIBLE_SPREAD else 0.0
    count = len(differences)
    # the standard deviation of normal samples' skewness (Fisher, 1930)
    if abs(skewness) <= _NORMAL * math.sqrt(6 * (count - 2) / ((count + 1) * (count + 3))):
        return None
    # slow outliers of one side skew the differences as fast ones of the other do
    leanings = [sign * _skewness(side) * skewness for sign, side in zip((1, -1), sides, strict=True)]
    return 0 if leanings[0] > leanings[1] else 1


def _skewness(values: NDArray[np.float64]) -> float:
    away = values - values.mean()
    variance = float((away**2).mean())
    return float((away**3).mean()) / variance**1.5 if variance else 0.0


def geometric_mean(values: Values) -> float | None:
    """Return the geometric mean, the center of the intervals. None without values, or if one is <= 0."""
    logs = _logs(values, least=1)
    # a single value exactly: exp(log(x)) may differ in the last digit
    return None if logs is None else float(values[0]) if len(values) == 1 else math.exp(float(logs.mean()))


def ratio_of_means(values: Values, base_values: Values) -> float | None:
    """Return the center of a ratio's intervals: the ratio of the geometric means, also for pairs.

    None where there are no values, or one is not positive and finite.
    """
    mine, theirs = geometric_mean(values), geometric_mean(base_values)
    return None if mine is None or theirs is None else mine / theirs


def ratio_interval(values: Values, base_values: Values) -> Interval | None:
    """Return a ratio's interval from independent repeats, with Welch's degrees of freedom (Biometrika, 1947).

    Correlation over time is not allowed for: on a machine that wanders (AR(1), 0.6 from run to run), ten
    repeats per side in alternation cover 99%, one side after the other 70%, so `is_interleaved` decides
    whether there is an interval at all. None with fewer than two repeats of either side, or where a value is
    not positive and finite.
    """
    logs, base_logs = _logs(values), _logs(base_values)
    if logs is None or base_logs is None:
        return None
    shares = [float(side.var(ddof=1)) / len(side) for side in (logs, base_logs)]
    center, variance = float(logs.mean() - base_logs.mean()), sum(shares)
    if variance == 0:
        return _exponential((center, center))
    parts = (share**2 / (len(side) - 1) for share, side in zip(shares, (logs, base_logs), strict=True))
    reach = student_t(variance**2 / sum(parts)) * math.sqrt(variance)
    return _exponential((center - reach, center + reach))


def value_interval(values: Values, *, is_mean: bool) -> Interval | None:
    """Return the interval of a side's value from its repeats. `is_mean`: the mean, else the geometric mean.

    None with fewer than two repeats, or where a value is not a finite number (or not positive, for a factor).
    """
    if not is_mean:
        logs = _logs(values)
        return None if logs is None else _exponential(_skew_interval(logs))
    known = np.asarray(values, dtype=np.float64)
    if len(known) < 2 or not np.isfinite(known).all():
        return None
    return _skew_interval(known)


def student_t(degrees: float) -> float:
    """Return Student's t at 97.5% for one degree of freedom or more, also fractional (error below 0.1%)."""
    inverse = [1 / whole for whole in range(1, len(_STUDENT) + 1)]
    if degrees > len(_STUDENT):
        inverse, known = [0.0, inverse[-1]], [_NORMAL, _STUDENT[-1]]
        return float(np.interp(1 / degrees, inverse, known))
    if degrees >= 2:
        return float(np.interp(1 / degrees, inverse[::-1], _STUDENT[::-1]))
    # too curved between one and two for linear interpolation: the tail goes as t ** -degrees
    share = (max(degrees, 1.0) ** -1 - 0.5) / 0.5
    return float(np.exp(np.log(_STUDENT[1]) + share * (np.log(_STUDENT[0]) - np.log(_STUDENT[1]))))


def _logs(values: Values, least: int = 2) -> NDArray[np.float64] | None:
    known = np.asarray(values, dtype=np.float64)
    if len(known) < least or not (np.isfinite(known).all() and (known > 0).all()):
        return None
    return np.log(known)


def _mean_interval(values: NDArray[np.float64]) -> Interval:
    # by Student's t
    center, reach = float(values.mean()), student_t(len(values) - 1) * _error(values)
    return center - reach, center + reach


def _skew_interval(values: NDArray[np.float64]) -> Interval:
    # by Student's t and by Hall's transformation of it, whichever goes further
    count, error, student_ends = len(values), _error(values), _mean_interval(values)
    if count < _LEAST_FOR_HALL or not error:
        return student_ends
    third_moment = float(((values - values.mean()) ** 3).sum()) / ((count - 1) * (count - 2) * count)
    skewness = third_moment / error**3
    if abs(skewness) < _LEAST_SKEWNESS:
        return student_ends
    center, reach = float(values.mean()), student_t(count - 1)
    below, above = (
        3 / skewness * (float(np.cbrt(1 + skewness * (end - skewness / 6))) - 1) for end in (reach, -reach)
    )
    return min(student_ends[0], center - below * error), max(student_ends[1], center - above * error)


def _error(values: NDArray[np.float64]) -> float:
    return float(values.std(ddof=1)) / math.sqrt(len(values))


def _exponential(ends: Interval) -> Interval:
    return math.exp(ends[0]), math.exp(min(ends[1], 700.0))


MARGIN = 3.0
"""The band reaches beyond the repeats by this many times their range: of normally distributed losses, one in
700 lies further from the range of 5 others than that; without the factor it would be one in 34."""

_NEIGHBORS = 3  # steps on either side whose ranges count too: runs that happen to cross are no closer
_LEAST_WIDTH = 2.0**-20  # relative to the loss, a few of FP32's own rounding errors
_STAYS, _LEAST_STAY = 0.9, 3


@dataclass(frozen=True)
class Band:
    """The range of losses that FP32 reaches at each step. NaN where a loss of FP32 itself is not finite."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    def first_step_outside(self, losses: Sequence[float]) -> int | None:
        """Return the first step, from 1, from which on the losses stay outside, or None.

        They stay outside if nine of ten losses from there to the end are outside, and at least 3 of them or
        all. So a single blip does not count, nor a later short crossing of the band.
        """
        outside = [
            math.isfinite(low) and not low <= loss <= high
            for loss, low, high in zip(losses, self.low, self.high, strict=False)
        ]
        for first in range(len(outside)):
            rest = outside[first:]
            stays = sum(rest) >= max(_STAYS * len(rest), min(_LEAST_STAY, len(outside)))
            if outside[first] and stays:
                return first + 1
        return None


def band_of(runs: Sequence[Sequence[float]]) -> Band:
    """Return the band around the losses of FP32 runs of equal length: their range at each step, widened by a
    margin.
    """
    steps = list(zip(*runs, strict=True))
    ranges = [max(losses) - min(losses) if all(map(math.isfinite, losses)) else math.nan for losses in steps]
    low, high = [], []
    for index, losses in enumerate(steps):
        margin = math.nan
        if math.isfinite(ranges[index]):
            near = filter(math.isfinite, ranges[max(0, index - _NEIGHBORS) : index + _NEIGHBORS + 1])
            margin = max(MARGIN * max(near), _LEAST_WIDTH * abs(losses[0]))
        low.append(min(losses) - margin)
        high.append(max(losses) + margin)
    return Band(tuple(low), tuple(high))
