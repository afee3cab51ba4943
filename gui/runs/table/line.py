"""A line of the runs table: what it shows of a run, and dragging runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from functools import cached_property, lru_cache

from PySide6.QtCore import QMimeData

from engine.compare.evidence import is_spoiled
from engine.compare.figures import SPEED, Figure
from engine.experiment.catalog import SYNTHETIC, DataRef
from engine.experiment.experiment import Precision
from engine.experiment.own.code import place_of
from engine.experiment.problem import Kind
from engine.store.record import RunRecord, Status
from engine.words.names import dataset_words, recipe_title

_STATUS_WORDS = {
    Status.QUEUED: "Queued",
    Status.RUNNING: "Running",
    Status.FINISHED: "Finished",
    Status.STOPPED: "Stopped",
    Status.FAILED: "Failed",
    Status.INTERRUPTED: "Interrupted",
}
STATUS_ORDER = tuple(_STATUS_WORDS)


def status_words(run: RunRecord) -> str:
    """The status of a run: "Finished", "Out of memory"."""
    if run.status is Status.FAILED and run.problem is not None and run.problem.kind is Kind.OUT_OF_MEMORY:
        return "Out of memory"
    return _STATUS_WORDS[run.status]


def sized_dataset(dataset: str, image_size: int | None) -> str:
    """The dataset, with the picture size where the dataset has none of its own."""
    if dataset == SYNTHETIC and image_size is not None:
        return f"{dataset} {image_size}"
    return dataset_words(dataset)


def moment_words(moment: datetime, now: datetime) -> str:
    """A moment, as short as possible: "14:02", "19 Nov", "Nov 2025"."""
    moment, today = moment.astimezone(now.tzinfo), now
    if moment.date() == today.date():
        return f"{moment:%H:%M}"
    return f"{moment.day} {moment:%b}" if moment.year == today.year else f"{moment:%b} {moment.year}"


def begun(run: RunRecord) -> datetime:
    """When the run began, or was queued if it has not begun."""
    return run.started or run.created


RUNS_MIME_TYPE = "application/x-ammeter-runs"
"""A JSON list of run ids."""


def dragged_runs(runs: Sequence[tuple[str, str]]) -> QMimeData:
    """The drag data of runs given as (id, name): ids for this window, names for other programs."""
    data = QMimeData()
    data.setData(RUNS_MIME_TYPE, json.dumps([run_id for run_id, _ in runs]).encode())
    data.setText("\n".join(name for _, name in runs))
    return data


def has_runs(data: QMimeData) -> bool:
    """Whether the drag data holds runs."""
    return data.hasFormat(RUNS_MIME_TYPE)


def dropped_runs(data: QMimeData) -> tuple[str, ...]:
    """The ids of dropped runs; none for other data."""
    try:
        ids = json.loads(bytes(data.data(RUNS_MIME_TYPE).data()))
    except (ValueError, RecursionError):
        return ()
    return tuple(ids) if isinstance(ids, list) and all(isinstance(run_id, str) for run_id in ids) else ()


class Line:
    """A run with what the table shows of it; costly parts are worked out on first use."""

    def __init__(self, run: RunRecord) -> None:
        self.run = run
        self.overview = run.overview
        self.is_spoiled = is_spoiled(run.overview)

    @property
    def has_pictures(self) -> bool:
        """Whether its samples are pictures, so that its speed is one of "img/s"."""
        return DataRef(self.overview.dataset).task == "classification"

    def figure(self, figure: Figure) -> float | None:
        """The run's value of a figure."""
        # thousands are sorted by their speed, and parsing a summary takes long
        return self.overview.samples_per_second if figure is SPEED else figure.value(self.run)

    @property
    def key(self) -> str:
        return self.run.id

    @property
    def side(self) -> tuple[object, ...]:
        """The same for the repeats of a side of its comparison."""
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
        run, overview = self.run, self.overview
        own = "\n".join((run.name, *run.tags, run.note)).casefold()
        shared = _shared_words(
            overview.model,
            overview.dataset,
            overview.image_size,
            overview.precision,
            overview.recipe,
            run.status,
            status_words(run),
        )
        return f"{own}\n{shared}"


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
    texts = (
        model,
        sized_dataset(dataset, image_size),
        precision.value,
        precision.label,
        recipe_title(recipe),
        status.value,
        status_text,
    )
    return "\n".join(texts).casefold()
