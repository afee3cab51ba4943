"""95 % intervals: of a ratio from repeats, and of a value from repeats.

What varies between fresh processes (memory layout, clocks, warmth) no number of steps within one shows, so
that only repeats give an interval of a ratio: blocks within repeats, the levels of a hierarchical bootstrap.
Drawn at random and cut at percentiles, two or three repeats cover the truth as it happens, from 76 to 100 %:
drawn repeats vary less than repeats do, a drift that both runs of a pair share counts as noise, and blocks
drawn anew within drawn repeats count their noise twice, since the repeats' speeds already differ by it
(Davison and Hinkley, Bootstrap Methods and their Application, 1997, section 3.8). So each repeat is taken
whole, as the median over its blocks, which follow on one another and are not independent; pairs are kept
together; and the spread over them is scaled by Student's t, as is sound for few values (Hesterberg, What
Teachers Should Know About the Bootstrap, 2015). tests/benchmarks/interval_coverage.py shows how often the
truth is covered.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.steadiness import Interval

Values = Sequence[float] | NDArray[np.float64]

_NORMAL = 1.959964
# Student's t at 97.5 % for 1, 2, 3, ... degrees of freedom
_STUDENT = (
    12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157, 2.228139,
    2.200985, 2.178813, 2.160369, 2.144787, 2.131450, 2.119905, 2.109816, 2.100922, 2.093024, 2.085963,
)  # fmt: skip


def paired_ratio_interval(values: Values, base_values: Values) -> Interval | None:
    """The interval of a ratio from repeats that were made in pairs, one of each side right after the other.

    A drift of the machine is in both of a pair and cancels. None with fewer than two pairs, or where a value
    is not positive and finite. Raises ValueError for sequences of two lengths.
    """
    if len(values) != len(base_values):
        raise ValueError("each repeat needs its partner")
    logs, base_logs = _logs(values), _logs(base_values)
    if logs is None or base_logs is None:
        return None
    differences = logs - base_logs
    error = differences.std(ddof=1) / math.sqrt(len(differences))
    return _exponential(float(differences.mean()), student(len(differences) - 1) * float(error))


def typical(values: Values) -> float | None:
    """The geometric mean, about which the intervals are; None without values, or where one is not above 0."""
    logs = _logs(values, least=1)
    # exactly, where there is nothing to average
    return None if logs is None else float(values[0]) if len(values) == 1 else math.exp(float(logs.mean()))


def typical_ratio(values: Values, base_values: Values) -> float | None:
    """The ratio that the intervals are about: of the geometric means, which over pairs is the pairs' own.

    None where there are no values, or one is not positive and finite.
    """
    mine, theirs = typical(values), typical(base_values)
    return None if mine is None or theirs is None else mine / theirs


def ratio_interval(values: Values, base_values: Values) -> Interval | None:
    """The interval of a ratio from repeats that were made independently of one another.

    Degrees of freedom after Welch (Biometrika 34, 1947). Independent repeats, however unlike in their spread,
    are covered as they should be; what they have in common over time is not in it. Of a machine that wanders
    (AR(1), 0.6 from run to run), ten repeats a side in turns cover 99 % and one side after the other 70 %:
    so `is_in_turns` decides whether there is an interval at all. Where one side alone has slow outliers (an
    exponential tail), it covers 90 % at ten a side, as any interval of a mean does. None with fewer than two
    repeats of either side, or where a value is not positive and finite.
    """
    logs, base_logs = _logs(values), _logs(base_values)
    if logs is None or base_logs is None:
        return None
    shares = [float(one.var(ddof=1)) / len(one) for one in (logs, base_logs)]
    center, variance = float(logs.mean() - base_logs.mean()), sum(shares)
    if variance == 0:
        return _exponential(center, 0.0)
    parts = (share**2 / (len(one) - 1) for share, one in zip(shares, (logs, base_logs), strict=True))
    return _exponential(center, student(variance**2 / sum(parts)) * math.sqrt(variance))


def value_interval(values: Values, *, is_mean: bool) -> Interval | None:
    """The interval of a side's value from its repeats: of the mean, or of what varies by a factor.

    None with fewer than two repeats, or where a value is not a finite number (or not positive, for a factor).
    """
    if not is_mean:
        logs = _logs(values)
        return None if logs is None else _exponential(*_center_and_reach(logs))
    known = np.asarray(values, dtype=np.float64)
    if len(known) < 2 or not np.isfinite(known).all():
        return None
    center, reach = _center_and_reach(known)
    return center - reach, center + reach


def student(degrees: float) -> float:
    """Student's t at 97.5 %, for one degree of freedom or more, whole or not (error below 0.1 %)."""
    inverse = [1 / whole for whole in range(1, len(_STUDENT) + 1)]
    if degrees > len(_STUDENT):
        inverse, known = [0.0, inverse[-1]], [_NORMAL, _STUDENT[-1]]
        return float(np.interp(1 / degrees, inverse, known))
    if degrees >= 2:
        return float(np.interp(1 / degrees, inverse[::-1], _STUDENT[::-1]))
    # between one and two it bends too much for a straight line: ((1 - p) at the tail ~ t ** -degrees)
    share = (max(degrees, 1.0) ** -1 - 0.5) / 0.5
    return float(np.exp(np.log(_STUDENT[1]) + share * (np.log(_STUDENT[0]) - np.log(_STUDENT[1]))))


def _logs(values: Values, least: int = 2) -> NDArray[np.float64] | None:
    known = np.asarray(values, dtype=np.float64)
    if len(known) < least or not (np.isfinite(known).all() and (known > 0).all()):
        return None
    return np.log(known)


def _center_and_reach(values: NDArray[np.float64]) -> tuple[float, float]:
    error = float(values.std(ddof=1)) / math.sqrt(len(values))
    return float(values.mean()), student(len(values) - 1) * error


def _exponential(center: float, reach: float) -> Interval:
    return math.exp(center - reach), math.exp(min(center + reach, 700.0))
