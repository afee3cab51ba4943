"""What every format shows: the comparison, and what was recorded of each run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from engine import __version__
from engine.contact_sheet import ContactSheet
from engine.events import Epoch, Event, Started
from engine.problem import ProblemError, request_problem
from engine.records.blocks import Columns
from engine.records.comparison import Comparison, baseline_of, compare
from engine.records.evidence import evidence_of
from engine.records.record import ComparisonRecord, RunRecord
from engine.records.sides import sides_of
from engine.records.split import MOST_OTHERS
from engine.records.store import Store


class SavedCurves(Mapping[str, Columns]):
    """The samples of runs by their ids, read from the store each time: a long run's take many megabytes."""

    def __init__(self, store: Store, run_ids: Sequence[str]) -> None:
        self._store = store
        self._run_ids = dict.fromkeys(run_ids)

    def __getitem__(self, run_id: str) -> Columns:
        if run_id not in self._run_ids:
            raise KeyError(run_id)
        return self._store.samples(run_id)

    def __iter__(self) -> Iterator[str]:
        return iter(self._run_ids)

    def __len__(self) -> int:
        return len(self._run_ids)


def _no_pictures(run_ids: Sequence[str]) -> ContactSheet | None:
    return None


@dataclass(frozen=True)
class Content:
    """Runs side by side. `curves` and `events` are by run id; `groups` are the comparisons they belong to.

    `pictures` gives those of the first of the named runs that has any. It all holds as long as the store that
    it was read from is open.
    """

    comparison: Comparison
    curves: Mapping[str, Columns]
    events: Mapping[str, tuple[Event, ...]]
    groups: tuple[ComparisonRecord, ...]
    created: datetime
    version: str
    pictures: Callable[[Sequence[str]], ContactSheet | None] = _no_pictures

    @property
    def runs(self) -> tuple[RunRecord, ...]:
        """All runs, side by side."""
        return tuple(run for side in self.comparison.sides for run in side.runs)

    def epochs(self, run_id: str) -> tuple[Epoch, ...]:
        return tuple(event for event in self.events[run_id] if isinstance(event, Epoch))

    def started(self, run_id: str) -> Started | None:
        """How the run began; None for one that never did."""
        found = [event for event in self.events[run_id] if isinstance(event, Started)]
        return found[-1] if found else None


def content_of(store: Store, run_ids: Sequence[str], baseline_id: str | None = None) -> Content:
    """Reads runs by their ids, or unambiguous starts of them; a run named twice counts once.

    The baseline is the side that `baseline_id` belongs to, or the one that `baseline_of` chooses; it comes
    first, whatever the order of the ids. Raises ProblemError for a run that is not there.
    """
    if not run_ids:
        raise ProblemError(request_problem("There is no run to export.", "Name at least one.", key="run"))
    named = {run.id: run for run in map(store.run, run_ids)}
    found = _baseline_first(named, None if baseline_id is None else store.run(baseline_id).id)
    others = store.runs(MOST_OTHERS) if len(found) > 1 else ()
    comparison = compare(evidence_of(store, tuple(found.values())), next(iter(found)), others=others)
    groups = {run.comparison for run in found.values()}
    return Content(
        comparison=comparison,
        curves=SavedCurves(store, tuple(found)),
        events={run_id: store.events(run_id) for run_id in found},
        groups=tuple(group for group in store.comparisons() if group.id in groups),
        created=datetime.now(UTC),
        version=__version__,
        pictures=store.pictures.of_any,
    )


def _baseline_first(runs: Mapping[str, RunRecord], baseline_id: str | None) -> dict[str, RunRecord]:
    """The runs by their ids, those of the baseline's side before the others."""
    first = {run.id: run for run in baseline_of(sides_of(list(runs.values())), baseline_id).runs}
    return {**first, **runs}
