"""The content of every format: the comparison, and the records of its runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from engine import __version__
from engine.compare.comparison import Comparison, compare
from engine.compare.evidence import evidence_of
from engine.compare.split import MOST_OTHERS
from engine.curves import Columns, Curves
from engine.experiment.problem import request_error
from engine.protocol.events import Epoch, Event, Started
from engine.protocol.pictures import ContactSheet
from engine.protocol.profile import Profiles
from engine.store.record import ComparisonRecord, RunRecord
from engine.store.store import Store

T = TypeVar("T")


class ByRun(Mapping[str, T]):
    """A mapping from run id to data that is read anew at each access, because it is too large to keep."""

    def __init__(self, read: Callable[[str], T], run_ids: Iterable[str]) -> None:
        self._read = read
        self._run_ids = dict.fromkeys(run_ids)

    def __getitem__(self, run_id: str) -> T:
        if run_id not in self._run_ids:
            raise KeyError(run_id)
        return self._read(run_id)

    def __iter__(self) -> Iterator[str]:
        return iter(self._run_ids)

    def __len__(self) -> int:
        return len(self._run_ids)


@dataclass(frozen=True)
class Content:
    """The data of a comparison to export. It can be read while the store that it came from is open.

    `samples`, `curves` and `events` are by run id: `samples` have one row per step, `curves` as many as a
    page can show. `groups` are the saved comparisons of the runs. `leading` is the id of any run of the side
    to show first (None: the report chooses). `pictures` returns the images of the first of the given runs
    that has any.
    """

    comparison: Comparison
    samples: Mapping[str, Columns]
    curves: Mapping[str, Curves]
    events: Mapping[str, tuple[Event, ...]]
    groups: tuple[ComparisonRecord, ...]
    created: datetime
    version: str
    pictures: Callable[[Sequence[str]], ContactSheet | None] = lambda run_ids: None
    leading: str | None = None
    title: str = ""
    profiles: Profiles | None = None

    @property
    def runs(self) -> tuple[RunRecord, ...]:
        """All runs, one side after the other."""
        return tuple(run for side in self.comparison.sides for run in side.runs)

    def epochs(self, run_id: str) -> tuple[Epoch, ...]:
        return tuple(event for event in self.events[run_id] if isinstance(event, Epoch))

    def started(self, run_id: str) -> Started | None:
        """Return the last `Started` event of a run, or None if it never started."""
        starts = [event for event in self.events[run_id] if isinstance(event, Started)]
        return starts[-1] if starts else None


Write = Callable[[Content, Path], None]  # writes runs in a format


def content_of(
    store: Store,
    run_ids: Sequence[str],
    baseline_id: str | None = None,
    leading_id: str | None = None,
    title: str = "",
) -> Content:
    """Read runs by their ids, or unambiguous beginnings of ids, in order and without duplicates.

    The baseline is the side of `baseline_id`, or as `baseline_of` chooses. Raises ProblemError for
    an unknown run, and if baseline or leading run is not among the runs.
    """
    if not run_ids:
        raise request_error("No runs to export.", "Name at least one run.", key="run")
    named = {run.id: run for run in map(store.run, run_ids)}
    baseline = None if baseline_id is None else store.run(baseline_id).id
    others = store.runs(MOST_OTHERS) if len(named) > 1 else ()
    comparison = compare(evidence_of(store, tuple(named.values())), baseline, others=others)
    groups = {run.comparison for run in named.values()}
    leading = None if leading_id is None else store.run(leading_id).id
    if leading is not None and leading not in named:
        message = f"The leading run {leading} is not among those to export."
        raise request_error(message, "Select one of the runs.", key="lead", value=leading)
    return Content(
        comparison=comparison,
        samples=ByRun(store.samples, named),
        curves=ByRun(store.curves, named),
        events={run_id: store.events(run_id) for run_id in named},
        groups=tuple(group for group in store.comparisons() if group.id in groups),
        created=datetime.now(UTC),
        version=__version__,
        pictures=store.pictures,
        leading=leading,
        title=title.strip(),
        profiles=_profiles(store, comparison),
    )


def _profiles(store: Store, comparison: Comparison) -> Profiles | None:
    # the newest profile of these sides and no others, the baseline's first
    sides = sorted(comparison.sides, key=lambda side: side.id != comparison.baseline.id)
    baseline, *others = [{run.id for run in side.runs} for side in sides]
    for entry in store.studies.newest("profile"):
        first, *rest = entry.run_ids
        is_theirs = first in baseline and all(any(run in side for side in others) for run in rest)
        if is_theirs and bool(rest) == bool(others):
            profiles: Profiles = store.studies.find(entry.id).answer
            if len(profiles.measured()) == len(profiles.sides):
                return profiles
    return None
