"""The items of the queue: names, progress and time left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from engine.experiment.checks import Catalog
from engine.experiment.experiment import Experiment, Precision
from engine.experiment.problem import ProblemError
from engine.store.record import RUN, RunRecord, Work
from engine.sweep.estimate import KnownRuns
from engine.words.names import batch_words, dataset_words, listed
from gui.session.queue import SWEEP
from gui.session.saved_runs import SavedRuns
from gui.session.views import SweepView, WorkView

NOUNS: Mapping[str, tuple[str, str]] = {
    RUN: ("run", "runs"),
    "limit": ("batch-size search", "batch-size searches"),
    "numerics": ("numerics study", "numerics studies"),
    "profile": ("profile", "profiles"),
    "sweep": ("sweep", "sweeps"),
    "tune": ("tuning", "tunings"),
}
"""The names of the kinds of work, one and several."""
_DETAILS = {
    "limit": "Largest batch",
    "numerics": "Numerics",
    "profile": "Profile",
    SWEEP: "Sweep",
    "tune": "Tuning",
}


@dataclass(frozen=True)
class QueueItem:
    """A running or waiting job, as the queue shows it. `progress` (0 to 1) and `seconds_left` may be None.

    `machine` is the name of the machine that it runs on, "" for this one. A run also has its `precision`, and
    `brief`, its title without the model.
    """

    key: str
    kind: str
    title: str
    detail: str
    is_running: bool = False
    is_paused: bool = False
    progress: float | None = None
    seconds_left: float | None = None
    machine: str = ""
    brief: str = ""
    precision: Precision | None = None


def time_left(items: Iterable[QueueItem]) -> tuple[float, bool]:
    """Return the time left for all items that are not paused, in seconds, and True if some times are
    unknown.
    """
    seconds = [item.seconds_left for item in items if not item.is_paused]
    return sum(known for known in seconds if known is not None), None in seconds


def describe_work(kinds: Iterable[str]) -> str:
    """Return the counts of jobs by kind, for a sentence: "12 runs and a sweep"."""
    counts = Counter(kinds)
    known = [(counts[kind], one, many) for kind, (one, many) in NOUNS.items() if counts[kind]]
    return listed([f"a {one}" if count == 1 else f"{count:,} {many}" for count, one, many in known])


class ItemFactory:
    """Makes the items of the queue. Their durations are estimated from earlier runs.

    Durations are unknown until the `catalog` is set.
    """

    def __init__(self, runs: SavedRuns) -> None:
        self._runs = runs
        self._known: dict[Experiment, float | None] = {}
        self.catalog: Catalog | None = None
        runs.list_changed.connect(self._known.clear)
        runs.run_changed.connect(self._known.clear)

    def make(self, work: Work, view: WorkView | None = None, *, is_running: bool = False) -> QueueItem:
        """Return the item of work, with its view, which a run does not need."""
        state: dict[str, Any] = {
            "is_paused": work.is_paused,
            "is_running": is_running,
            "machine": work.machine,
        }
        if work.kind != RUN:
            item = QueueItem(work.key, work.kind, work.title, _DETAILS[work.kind], **state)
            if view is None or work.kind not in ("profile", SWEEP):
                return item
            estimate = view.estimate if isinstance(view, SweepView) else None
            seconds = None if estimate is None else estimate.seconds_left
            return replace(item, progress=view.progress, seconds_left=seconds)
        record = self._runs.record(work.key)
        if record is None:
            return QueueItem(work.key, RUN, "", "", **state)
        experiment, live = record.experiment, self._runs.opened(work.key)
        brief = record.name if record.has_own_name else record.side
        is_plain = record.has_own_name or experiment.is_script
        title = brief if is_plain else f"{record.side}, {record.model_name}"
        place, count = self._runs.position(work.key)
        of_all = f", {place} of {count}" if count > 1 else ""
        precision = f"{experiment.precision.label}, " if record.has_own_name else ""
        where = f"{record.model_name} on {dataset_words(experiment.dataset)}, {batch_words(experiment)}"
        detail = experiment.command.line if experiment.is_script else f"{precision}{where}"
        seconds = live.seconds_left() if live is not None and is_running else None
        progress = None if live is None else live.progress
        seconds = self.expected_seconds(experiment) if seconds is None else seconds
        return QueueItem(
            work.key,
            RUN,
            f"{title}{of_all}",
            detail,
            **state,
            progress=progress,
            seconds_left=seconds,
            brief=f"{brief}{of_all}",
            precision=experiment.precision,
        )

    def expected_seconds(self, experiment: Experiment) -> float | None:
        """Return the expected duration of a run by the newest runs of this machine. None if unknown."""
        if (catalog := self.catalog) is None or (device := catalog.device(experiment.device)) is None:
            return None
        # repeats, which differ by their seed, take as long
        key = experiment.model_copy(update={"seed": 0})
        if key not in self._known:
            newest = islice(self._runs.records(), _MOST_RUNS)
            model = experiment.command.script if experiment.is_script else experiment.model
            # a script may use any of them
            devices = catalog.devices if experiment.is_script else (device,)
            names = {device.title for device in devices}
            alike = [run for run in newest if _looks_alike(run, experiment, model, names)]
            self._known[key] = KnownRuns(alike).seconds(key)
        return self._known[key]


_MOST_RUNS = 500
"""So many of the newest saved runs are looked at for a duration."""


def _looks_alike(run: RunRecord, experiment: Experiment, model: str, device_names: Collection[str]) -> bool:
    """Return True if the run may be used to estimate the experiment's duration, by its overview.

    `model` is the experiment's model or script.
    """
    try:
        seen = run.overview
        wanted: tuple[str, str, Precision, int]
        wanted = model, experiment.dataset, experiment.precision, experiment.batch_size
        if experiment.is_script:
            # its precision and batch size were observed
            wanted = model, "", seen.precision, seen.batch_size
        if (seen.model, seen.dataset, seen.precision, seen.batch_size) != wanted:
            return False
        machine = run.environment
    except (ProblemError, ValueError):
        # one damaged run must not hide the others
        return False
    return machine is not None and machine.device_name in device_names
