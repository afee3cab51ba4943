"""A run in the table, the baselines of all runs, and the data of dragged runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cached_property, lru_cache

from PySide6.QtCore import QMimeData

from engine.compare.evidence import was_slowed_down
from engine.compare.metrics import SPEED, Metric, is_comparable_across
from engine.experiment.catalog import SYNTHETIC, DataRef
from engine.experiment.experiment import Precision
from engine.experiment.own.code import place_of
from engine.experiment.problem import Kind
from engine.store.record import RunRecord, Status
from engine.words.names import dataset_words, recipe_title

RUNS_MIME_TYPE = "application/x-ammeter-runs"
"""A JSON list of run ids."""
STATUS_WORDS = {
    Status.QUEUED: "Queued",
    Status.RUNNING: "Running",
    Status.FINISHED: "Finished",
    Status.STOPPED: "Stopped",
    Status.FAILED: "Failed",
    Status.INTERRUPTED: "Interrupted",
}


def status_words(run: RunRecord) -> str:
    """Return the status of a run in words, such as "Finished" or "Out of memory"."""
    if run.status is Status.FAILED and run.problem is not None and run.problem.kind is Kind.OUT_OF_MEMORY:
        return "Out of memory"
    return STATUS_WORDS[run.status]


def sized_dataset(dataset: str, image_size: int | None) -> str:
    """Return the dataset, with the image size if the dataset has none of its own."""
    is_sized = dataset == SYNTHETIC and image_size is not None
    return f"{dataset} {image_size}" if is_sized else dataset_words(dataset)


def short_time_text(moment: datetime, now: datetime) -> str:
    """Return a time as short as possible: "14:02", "19 Nov", "Nov 2025"."""
    moment = moment.astimezone(now.tzinfo)
    if moment.date() == now.date():
        return f"{moment:%H:%M}"
    return f"{moment.day} {moment:%b}" if moment.year == now.year else f"{moment:%b} {moment.year}"


def begun(run: RunRecord) -> datetime:
    """Return when the run started, or was queued if it has not started."""
    return run.started or run.created


def dragged_runs(runs: Sequence[tuple[str, str]]) -> QMimeData:
    """Return the drag data of runs given as (id, name): ids for this window, names for other programs."""
    data = QMimeData()
    data.setData(RUNS_MIME_TYPE, json.dumps([run_id for run_id, _ in runs]).encode())
    data.setText("\n".join(name for _, name in runs))
    return data


def has_runs(data: QMimeData) -> bool:
    """Return True if the drag data contains runs."""
    return data.hasFormat(RUNS_MIME_TYPE)


def dropped_runs(data: QMimeData) -> tuple[str, ...]:
    """Return the ids of dropped runs, or none for other data."""
    try:
        ids = json.loads(bytes(data.data(RUNS_MIME_TYPE).data()))
    except (ValueError, RecursionError):
        return ()
    return tuple(ids) if isinstance(ids, list) and all(isinstance(run_id, str) for run_id in ids) else ()


class RunRow:
    """A run in the results table, with the texts and values of its cells.

    Costly ones are made on first use.
    """

    def __init__(self, run: RunRecord) -> None:
        self.run, self.key = run, run.id
        self.overview = run.overview
        self.is_spoiled = was_slowed_down(run.overview)

    @property
    def has_pictures(self) -> bool:
        """True if its samples are images, so that its throughput is in "img/s"."""
        return DataRef(self.overview.dataset).task == "classification"

    def figure(self, figure: Metric) -> float | None:
        """Return the run's value of a metric."""
        # thousands are sorted by their speed, and parsing a summary takes long
        return self.overview.samples_per_second if figure is SPEED else figure.value(self.run)

    @property
    def side(self) -> tuple[object, ...]:
        """A key that is equal for the repeats of one side of a comparison."""
        overview = self.overview
        return self.run.label, overview.precision, overview.recipe, overview.batch_size

    @cached_property
    def failure(self) -> str:
        """How the run failed, in a few words: "failed, net.py:14", "out of memory"."""
        try:
            place = place_of(self.run.detail, self.run.experiment.own_code)
        except ValueError:
            # code that another version kept
            place = None
        words = status_words(self.run).lower()
        return words if place is None else f"{words}, {place.short}"

    @cached_property
    def words(self) -> str:
        """All text that the filter searches, casefolded."""
        run, seen = self.run, self.overview
        own = "\n".join((run.name, *run.tags, run.note)).casefold()
        what = seen.model, seen.dataset, seen.image_size, seen.precision, seen.recipe
        return f"{own}\n{_shared_words(*what, run.status, status_words(run))}"


@lru_cache(maxsize=4_096)
def _shared_words(
    model: str,
    dataset: str,
    image_size: int | None,
    precision: Precision,
    recipe: str,
    status: Status,
    status_text: str,
) -> str:
    # thousands of runs share these
    trained = model, sized_dataset(dataset, image_size), precision.value, precision.label
    return "\n".join((*trained, recipe_title(recipe), status.value, status_text)).casefold()


class Baselines:
    """Finds the baseline of each run in the results table, and compares the run with it.

    The baseline is the `chosen` run, or else the first finished run of the comparison. If that side has
    repeats, each run is compared with the repeat of its own seed.
    """

    def __init__(self, lines: Iterable[RunRow] = (), chosen: RunRow | None = None) -> None:
        self.chosen = chosen
        self._firsts: dict[str, RunRow] = {}
        self._of_seeds: dict[tuple[str, int], RunRow] = {}
        finished = (line for line in lines if line.run.comparison and line.run.status is Status.FINISHED)
        for line in sorted(finished, key=lambda line: line.run.number) if chosen is None else ():
            comparison = line.run.comparison or ""
            if self._firsts.setdefault(comparison, line).side == line.side:
                self._of_seeds.setdefault((comparison, line.overview.seed), line)

    def of(self, line: RunRow) -> RunRow | None:
        """Return the baseline of a run, or None if it has none."""
        if self.chosen is not None:
            return self.chosen
        comparison = line.run.comparison or ""
        return self._of_seeds.get((comparison, line.overview.seed)) or self._firsts.get(comparison)

    def change(self, line: RunRow, figure: Metric = SPEED) -> float | None:
        """Return the ratio of the run's metric to its baseline's, or the difference if it has no ratio.

        Return None if either is missing, or if they count different things.
        """
        baseline, mine = self.of(line), line.figure(figure)
        theirs = None if baseline is None or mine is None else baseline.figure(figure)
        if mine is None or theirs is None or baseline is None or (figure.has_ratio and not theirs):
            return None
        # the settings of thousands are not parsed to learn that they are the same
        is_alike = line.run.status is baseline.run.status is Status.FINISHED
        is_alike = is_alike and line.run.settings_but_precision == baseline.run.settings_but_precision
        if not is_alike and not is_comparable_across(figure, (line.run, baseline.run)):
            return None
        return mine / theirs if figure.has_ratio else mine - theirs

    def spoiled(self, line: RunRow) -> tuple[RunRow, ...]:
        """Return the run, its baseline, or both, if disturbed. Their ratio is then not reliable."""
        lines = dict.fromkeys((line, self.of(line) or line))
        return tuple(line for line in lines if line.is_spoiled)
