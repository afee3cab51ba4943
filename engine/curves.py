"""A run's samples in a bounded number of rows, however many steps it has, for curves and metrics.

Beyond `MOST_ROWS` steps, neighboring steps are merged into bins of a mean and two rows, the lowest and the
highest value in their order in time, so a curve keeps its envelope. The newest steps are not merged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from engine.lazy_imports import np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

Values: TypeAlias = "NDArray[np.float64]"
Columns: TypeAlias = "dict[str, NDArray[np.float64]]"

MOST_ROWS = 131_072
MOST_BINS = MOST_ROWS // 4
_NEWEST = 4_096  # steps at the end that are not merged: the metrics of a run in progress are read from them
_LEAST_BIN = 4
_PLACES = frozenset({"step", "seconds"})  # columns that only rise: instead of a mean a bin has its last value
_RATES = frozenset({"samples_per_second"})  # averaged over time, by the harmonic mean, and not over steps


class Series:
    """A growing array of numbers that can be extended cheaply. `values` is a view, not a copy."""

    def __init__(self, values: ArrayLike = ()) -> None:
        self._buffer = np.empty(1024)
        self._count = 0
        self.extend(values)

    def extend(self, more: ArrayLike) -> None:
        added = np.asarray(more, dtype=np.float64)
        needed = self._count + len(added)
        if needed > len(self._buffer):
            grown = np.empty(max(needed, 2 * len(self._buffer)))
            grown[: self._count] = self._buffer[: self._count]
            self._buffer = grown
        self._buffer[self._count : needed] = added
        self._count = needed

    def truncate(self, count: int) -> None:
        """Keep only the first `count` numbers."""
        self._count = min(self._count, count)

    @property
    def values(self) -> Values:
        return self._buffer[: self._count]

    def __len__(self) -> int:
        return self._count


def join_columns(parts: Iterable[Columns]) -> Columns:
    """Concatenate the parts, with NaN where a part lacks another's column."""
    present = [(part, np.full(len(next(iter(part.values()))), np.nan)) for part in parts if part]
    names = list(dict.fromkeys(name for part, _ in present for name in part))
    return {name: np.concatenate([part.get(name, nan) for part, nan in present]) for name in names}


@dataclass(frozen=True, eq=False)
class Bins:
    """A run's samples (one row per step) after neighboring steps were merged into bins.

    Each column has two values per bin in `rows`, and one in `means`. `steps` is the number of steps in each
    bin.
    """

    rows: Columns
    means: Columns
    steps: Values

    def __len__(self) -> int:
        return len(self.steps)

    def merged(self, count: int) -> Bins:
        """Return bins in which every `count` neighboring bins are merged. The last bin may have fewer."""
        first = np.arange(0, len(self), count)
        return Bins(
            {name: _bin_ends(values, 2 * first) for name, values in self.rows.items()},
            {name: _means(name, values, self.steps, first) for name, values in self.means.items()},
            np.add.reduceat(self.steps, first),
        )

    def first(self, count: int) -> Bins:
        return Bins(
            {name: values[: 2 * count] for name, values in self.rows.items()},
            {name: values[:count] for name, values in self.means.items()},
            self.steps[:count],
        )


def join_bins(parts: Sequence[Bins]) -> Bins:
    """Concatenate the parts."""
    return Bins(
        join_columns(part.rows for part in parts),
        join_columns(part.means for part in parts),
        np.concatenate([part.steps for part in parts]),
    )


def bins_of(columns: Columns, steps: int) -> Bins:
    """Merge samples with a row per step into bins of `steps`. The last may have fewer."""
    count = len(next(iter(columns.values())))
    first, ones = np.arange(0, count, steps), np.ones(count)
    return Bins(
        {name: _bin_ends(values, first) for name, values in columns.items()},
        {name: _means(name, values, ones, first) for name, values in columns.items()},
        np.add.reduceat(ones, first),
    )


def _bin_ends(values: Values, first: NDArray[np.intp]) -> Values:
    # the lowest and the highest value of each group, in their order; comparing with NaN is not an error here
    with np.errstate(invalid="ignore"):
        low, high = np.fmin.reduceat(values, first), np.fmax.reduceat(values, first)
        falls = values[first] > values[_last_in_bins(values, first)]
    return np.column_stack((np.where(falls, high, low), np.where(falls, low, high))).ravel()


def _last_in_bins(values: Values, first: NDArray[np.intp]) -> NDArray[np.intp]:
    return np.append(first[1:], len(values)) - 1


def _means(name: str, values: Values, weights: Values, first: NDArray[np.intp]) -> Values:
    if name in _PLACES:
        return values[_last_in_bins(values, first)]
    is_rate = name in _RATES
    usable = np.isfinite(values) & (values > 0) if is_rate else np.isfinite(values)
    weights, known = np.where(usable, weights, 0.0), np.where(usable, values, 1.0)
    total = np.add.reduceat(weights, first)
    # the sum of a diverged run may overflow
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        if is_rate:
            return np.asarray(total / np.add.reduceat(weights / known, first))
        return np.asarray(np.add.reduceat(weights * known, first) / total)


class Curves:
    """The samples of a running training, one row per step, merged into bins when there are too many.

    A column is NaN where samples lack it. `changes` counts how often rows were merged or removed. While it
    stays the same, rows are only added.
    """

    def __init__(self, bins: Bins | None = None) -> None:
        self._bins = bins or Bins({}, {}, np.empty(0))
        self._bin_steps = max(_LEAST_BIN, int(self._bins.steps.max(initial=0)))
        self._newest: dict[str, Series] = {}
        self.changes = 0

    def __len__(self) -> int:
        return 2 * len(self._bins) + self._unmerged

    def column(self, name: str) -> Values:
        """Return the values of a column, with two rows per bin of merged steps.

        Empty if there is no such column.
        """
        return self._whole(name, self._bins.rows.get(name))

    def means(self, name: str) -> Values:
        """Return the values of a column over the rows, with the mean for merged steps.

        Steps are merged into bins of two rows each, and both rows have the bin's mean.
        """
        means = self._bins.means.get(name)
        return self._whole(name, None if means is None else np.repeat(means, 2))

    @property
    def steps_by_row(self) -> Values:
        """The number of steps that each row represents: half of the bin's steps for its two rows."""
        return np.concatenate((np.repeat(self._bins.steps / 2, 2), np.ones(self._unmerged)))

    def bins(self) -> Columns:
        """Return all columns with one row per bin: the bin's mean, at its last step."""
        return join_columns((self._bins.means, self._steps()))

    def extend(self, columns: Mapping[str, ArrayLike]) -> None:
        """Add steps, one row each. All columns have the same length."""
        added = {name: np.asarray(values, dtype=np.float64) for name, values in columns.items()}
        count, begin = len(next(iter(added.values()), ())), 0
        while begin < count:
            if self._unmerged >= self._most_unmerged:
                old = self._unmerged - _NEWEST
                self._merge(old - old % self._bin_steps or old)
            end = min(count, begin + self._most_unmerged - self._unmerged)
            self._add({name: values[begin:end] for name, values in added.items()}, end - begin)
            begin = end

    def merge_all(self) -> None:
        """Merge the newest steps into bins too, if older steps were merged, so that all rows are bins."""
        if len(self._bins) and self._unmerged:
            self._merge(self._unmerged)

    def truncate(self, step: int) -> None:
        """Remove all samples after `step`, and the bin that contains it."""
        self.changes += 1
        kept = int(np.searchsorted(self._steps().get("step", np.empty(0)), step, side="right"))
        for series in self._newest.values():
            series.truncate(kept)
        if not kept and len(self._bins):
            whole = int(np.searchsorted(self._bins.means["step"], step, side="right"))
            self._bins = self._bins.first(whole)

    @property
    def _most_unmerged(self) -> int:
        # few once there are bins: plots take rows to be about equally far apart
        if not len(self._bins):
            return MOST_ROWS
        return min(_NEWEST + max(2 * _NEWEST, self._bin_steps), MOST_ROWS // 2)

    @property
    def _unmerged(self) -> int:
        return len(next(iter(self._newest.values()), ()))

    def _steps(self) -> Columns:
        return {name: series.values for name, series in self._newest.items()}

    def _whole(self, name: str, merged: Values | None) -> Values:
        newest = self._newest.get(name)
        if merged is None and newest is None:
            return np.empty(0)
        late = np.full(self._unmerged, np.nan) if newest is None else newest.values
        if not len(self._bins):
            return late
        return np.concatenate((np.full(2 * len(self._bins), np.nan) if merged is None else merged, late))

    def _add(self, columns: Columns, count: int) -> None:
        before = self._unmerged
        for name in columns:
            if name not in self._newest:
                self._newest[name] = Series(np.full(before, np.nan))
        for name, series in self._newest.items():
            series.extend(columns.get(name, np.full(count, np.nan)))

    def _merge(self, count: int) -> None:
        # the oldest of the steps that are not merged
        steps = self._steps()
        self._newest = {name: Series(values[count:]) for name, values in steps.items()}
        old = {name: values[:count] for name, values in steps.items()}
        self.changes += 1
        self._bins = join_bins((self._bins, bins_of(old, self._bin_steps)))
        while len(self._bins) > MOST_BINS:
            self._bins, self._bin_steps = self._bins.merged(2), 2 * self._bin_steps
