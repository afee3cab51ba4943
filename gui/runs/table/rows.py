"""The rows of the list of results: runs, comparisons, studies and headings, and the filter. No Qt views."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import cached_property, lru_cache
from typing import Literal

from PySide6.QtCore import QMimeData

from engine.compare.evidence import was_slowed_down
from engine.compare.metrics import SPEED, Metric, is_comparable_across
from engine.experiment.catalog import SYNTHETIC, DataRef
from engine.experiment.experiment import Experiment, Precision
from engine.experiment.own.code import place_of
from engine.experiment.problem import Kind
from engine.store.record import RunRecord, Status
from engine.words.names import dataset_words, recipe_title

RUNS_MIME_TYPE = "application/x-ammeter-runs"
"""A JSON list of run ids."""


def status_words(run: RunRecord) -> str:
    """Return the status of a run in words, such as "Finished" or "Out of memory"."""
    if run.status is Status.FAILED and run.problem is not None and run.problem.kind is Kind.OUT_OF_MEMORY:
        return "Out of memory"
    return run.status.value.capitalize()


def sized_dataset(dataset: str, image_size: int | None) -> str:
    """Return the dataset, with the image size if the dataset does not define one."""
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


PlaceInTime = tuple[int, float, int]
"""A rank (2: running, 1: waiting, 0: over), seconds since the epoch, and a run's number.

What waits has negative seconds, as the next one is on top.
"""
_RANKS = {Status.RUNNING: 2, Status.QUEUED: 1}


def _place_in_time(rank: int, moment: datetime, number: int) -> PlaceInTime:
    sign = -1 if rank == 1 else 1
    return rank, sign * moment.timestamp(), sign * number


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
    """A run in the list of results, with the texts and values of its cells.

    `baseline` is the run that it is compared with, `item` its comparison or sweep, and `repeat` its number
    among the repeats of a side, 0 without any. Costly texts are made on first use.
    """

    def __init__(self, run: RunRecord) -> None:
        self.run, self.key = run, run.id
        self.overview = run.overview
        self.is_spoiled = was_slowed_down(run.overview)
        self.baseline: RunRow | None = None
        self.item: Item | None = None
        self.repeat = 0

    @cached_property
    def place_in_time(self) -> PlaceInTime:
        """The key that sorts it among all rows by time."""
        return _place_in_time(_RANKS.get(self.run.status, 0), begun(self.run), self.run.number)

    @property
    def has_pictures(self) -> bool:
        """True if its samples are images, so that its throughput is in "img/s"."""
        return not self.overview.is_script and DataRef(self.overview.dataset).task == "classification"

    @property
    def is_pinned(self) -> bool:
        return self.run.is_pinned

    @property
    def group(self) -> str:
        """The name that the user gave the comparison: "Paper" of "Paper, FP32, repeat 2", or ""."""
        label = self.run.label
        return self.run.name.partition(f", {label}")[0] if label and f", {label}" in self.run.name else ""

    @property
    def has_own_name(self) -> bool:
        """True if the user or a sweep named this run by itself."""
        run = self.run
        return run.has_own_name and (run.sweep is not None or (not self.group and run.name != run.label))

    @property
    def name(self) -> str:
        """The name of the run, or else its side and the number of its repeat: "BF16 AMP, repeat 2"."""
        if self.has_own_name:
            return self.run.name
        return f"{self.run.side}, repeat {self.repeat:,}" if self.repeat else self.run.side

    @property
    def about(self) -> str:
        """Model and batch size, after the precision unless the name has it: "resnet50, 64"."""
        seen = self.overview
        precision = seen.precision.label if self.has_own_name else ""
        batch = f"{seen.batch_size:,}" if seen.batch_size else ""
        return ", ".join(filter(None, (precision, self.run.model_name, batch)))

    def figure(self, figure: Metric) -> float | None:
        """Return the run's value of a metric."""
        # thousands are sorted by their speed, and parsing a summary takes long
        return self.overview.samples_per_second if figure is SPEED else figure.value(self.run)

    def change(self, figure: Metric = SPEED) -> float | None:
        """Return the ratio of a metric to the baseline's, or the difference for a metric without a ratio.

        None if either value is missing, or if they measure different quantities.
        """
        baseline, mine = self.baseline, self.figure(figure)
        theirs = None if baseline is None or mine is None else baseline.figure(figure)
        if mine is None or theirs is None or baseline is None or (figure.has_ratio and not theirs):
            return None
        # the settings of thousands are not parsed to learn that they are the same
        is_alike = self.run.status is baseline.run.status is Status.FINISHED
        is_alike = is_alike and self.run.settings_but_precision == baseline.run.settings_but_precision
        if not is_alike and not is_comparable_across(figure, (self.run, baseline.run)):
            return None
        return mine / theirs if figure.has_ratio else mine - theirs

    def disturbed(self) -> tuple[RunRow, ...]:
        """Return the run, its baseline, or both, if disturbed. Their ratio is then not reliable."""
        return tuple(row for row in dict.fromkeys((self, self.baseline or self)) if row.is_spoiled)

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


def set_baselines(rows: Iterable[RunRow], chosen: RunRow | None = None) -> None:
    """Set the baseline of each row: the `chosen` run, or else the first finished run of its comparison.

    If that side has repeats, each run is compared with the repeat of its own seed.
    """
    known = sorted(rows, key=lambda row: row.run.number)
    firsts: dict[str, RunRow] = {}
    of_seeds: dict[tuple[str, int], RunRow] = {}
    for row in known if chosen is None else ():
        comparison = row.run.comparison if row.run.status is Status.FINISHED else None
        if comparison and firsts.setdefault(comparison, row).side == row.side:
            of_seeds.setdefault((comparison, row.overview.seed), row)
    for row in known:
        comparison = row.run.comparison or ""
        row.baseline = chosen or of_seeds.get((comparison, row.overview.seed)) or firsts.get(comparison)


StudyKind = Literal["limit", "numerics", "profile", "sweep", "tune"]
ItemKind = Literal["comparison", "limit", "numerics", "profile", "sweep", "tune"]
KINDS: dict[ItemKind, tuple[str, str]] = {
    "comparison": ("Comparisons", "compare"),
    "limit": ("Largest batch", "limit"),
    "numerics": ("Numerics", "pulse"),
    "profile": ("Profiles", "profile"),
    "sweep": ("Sweeps", "sweep"),
    "tune": ("Tunings", "tune"),
}
"""The name of each kind in the chooser, and its icon."""


@dataclass(frozen=True)
class StudyRow:
    """A saved batch-size search, numerics study, profile, sweep or tuning, as a row of the results table.

    `result` is a text of a few words, and `ratio` the speedup, if any. `experiment` has the settings for *Use
    these settings*. `is_unfinished` is True while the study runs or waits.
    """

    kind: StudyKind
    id: str
    title: str
    model: str
    when: datetime
    result: str = ""
    ratio: float | None = None
    device: str = ""
    experiment: Experiment | None = field(default=None, compare=False, repr=False)
    is_failed: bool = False
    is_unfinished: bool = False

    @property
    def words(self) -> str:
        """All text that the filter searches, casefolded."""
        return "\n".join((self.title, self.model, self.result, self.device, KINDS[self.kind][0])).casefold()


@dataclass(frozen=True)
class Heading:
    """A heading in the results table, above the rows of a day, or above running or pinned rows."""

    words: str

    @property
    def key(self) -> str:
        return f"heading {self.words}"


@dataclass(frozen=True)
class Item:
    """A row of the results table that may have runs below it: a comparison or a study, such as a sweep.

    `batch` is the batch size if all its runs share it. `ratio` compares two sides. `is_spoiled` is True if a
    disturbed run makes it unreliable.
    """

    kind: ItemKind
    id: str
    title: str
    model: str
    when: datetime
    lines: tuple[RunRow, ...] = ()
    result: str = ""
    ratio: float | None = None
    is_spoiled: bool = False
    is_failed: bool = False
    study: StudyRow | None = None
    batch: int | None = None

    @property
    def key(self) -> str:
        return f"{self.kind} {self.id}"

    @property
    def about(self) -> str:
        """Model and batch size: "resnet50, 64"."""
        return self.model if self.batch is None else f"{self.model}, {self.batch:,}"

    @property
    def run_ids(self) -> tuple[str, ...]:
        """The ids of its runs, oldest first."""
        return tuple(line.key for line in self.lines)

    @property
    def is_pinned(self) -> bool:
        return any(line.is_pinned for line in self.lines)

    @cached_property
    def place_in_time(self) -> PlaceInTime:
        """The key that sorts it among all rows by time."""
        rank = max((_RANKS.get(line.run.status, 0) for line in self.lines), default=0)
        if self.study is not None and self.study.is_unfinished:
            rank = _RANKS[Status.RUNNING]
        return _place_in_time(rank, self.when, self.lines[0].run.number if self.lines else 0)


Row = Heading | Item | RunRow


def items_of(rows: Iterable[RunRow], studies: Sequence[StudyRow]) -> tuple[Item, ...]:
    """Return the comparisons, sweeps and other studies, and set the `item` of each run in one."""
    groups: dict[tuple[ItemKind, str], list[RunRow]] = {}
    for row in sorted(rows, key=lambda row: row.run.number):
        run, row.item, row.repeat = row.run, None, 0
        if run.sweep is not None:
            groups.setdefault(("sweep", run.sweep), []).append(row)
        elif run.comparison is not None:
            groups.setdefault(("comparison", run.comparison), []).append(row)
    sweeps = {study.id: study for study in studies if study.kind == "sweep"}
    items = []
    for (kind, group_id), mates in groups.items():
        if kind == "sweep":
            items.append(_study(sweeps.get(group_id), tuple(mates)))
        elif len(mates) > 1:
            items.append(_comparison(group_id, tuple(mates)))
    for item in items:
        for row in item.lines:
            row.item = item
    bare = (study for study in studies if ("sweep", study.id) not in groups)
    return (*items, *map(_study, bare))


def _study(study: StudyRow | None, rows: tuple[RunRow, ...] = ()) -> Item:
    if study is None:
        # the runs of a sweep that is gone
        run = rows[0].run
        return Item("sweep", run.sweep or "", run.sweep_name, rows[0].overview.model, begun(run), rows)
    model = rows[0].overview.model if rows else study.model
    has_batch = study.experiment is not None and study.kind in ("numerics", "profile", "tune")
    return Item(
        *(study.kind, study.id, study.title, model, study.when, rows, study.result, study.ratio),
        is_failed=study.is_failed,
        study=study,
        batch=study.experiment.batch_size if has_batch and study.experiment else None,
    )


def _comparison(comparison: str, rows: tuple[RunRow, ...]) -> Item:
    is_failed = all(row.run.status is Status.FAILED for row in rows)
    sides: dict[str, list[RunRow]] = {}
    for row in rows:
        sides.setdefault(_side_of(row), []).append(row)
    for side in sides.values():
        for number, row in enumerate(sorted(side, key=lambda row: row.overview.seed), 1):
            row.repeat = number if len(side) > 1 and row.run.label else 0
    models = tuple(dict.fromkeys(row.overview.model for row in rows))
    batches = {row.overview.batch_size for row in rows}
    later = list(sides.values())[1] if len(sides) == 2 else []
    ratios = [ratio for row in later if (ratio := row.change()) is not None]
    return Item(
        "comparison",
        comparison,
        _title(rows, tuple(sides)),
        models[0] if len(models) == 1 else f"{len(models)} models",
        min(begun(row.run) for row in rows),
        rows,
        rows[0].failure if is_failed else "",
        statistics.geometric_mean(ratios) if ratios and min(ratios) > 0 else None,
        any(row.disturbed() for row in later),
        is_failed,
        batch=batches.pop() or None if len(batches) == 1 else None,
    )


def _side_of(row: RunRow) -> str:
    seen = row.overview
    unnamed = f"{seen.precision.label}, {recipe_title(seen.recipe)}, batch {seen.batch_size}"
    return row.run.label or unnamed


def name_of_side(row: RunRow, name: str) -> str:
    """Return a run's name after its comparison is renamed to `name`."""
    rest = row.run.name[len(row.group) :] if row.group else f", {row.run.label or row.run.title}"
    return f"{name}{rest}"


def _title(rows: Sequence[RunRow], sides: Sequence[str]) -> str:
    groups = {row.group for row in rows}
    if len(groups) == 1 and (name := groups.pop()):
        return name
    if len(sides) == 2 and None not in [row.run.label for row in rows]:
        return f"{sides[0]} and {sides[1]}"
    precisions = {row.overview.precision for row in rows}
    return f"{len(sides)} precisions" if len(sides) == len(precisions) > 2 else f"{len(rows):,} runs"


@lru_cache(maxsize=4_096)  # of thousands of rows many have the same day
def day_words(day: date, today: date) -> str:
    """Return the heading of a day: "Today", "Yesterday", "Monday", "3 March", "3 March 2025"."""
    if day in (today, today - timedelta(days=1)):
        return "Today" if day == today else "Yesterday"
    if today - timedelta(days=7) < day < today:
        return f"{day:%A}"
    return f"{day.day} {day:%B}" if day.year == today.year else f"{day.day} {day:%B} {day.year}"


TIP = (
    "Show results with every word in the name, tags, note, model, dataset, precision, optimizations or"
    " status. Search one field with tag:paper, model:resnet50, precision:fp16, status:failed, batch:64"
    ' or sweep:lr. Quotes keep words together: tag:"table 2".'
)
_PLACES: dict[str, Callable[[RunRow], str]] = {
    "name": lambda line: line.run.name,
    "tag": lambda line: "\n".join(line.run.tags),
    "note": lambda line: line.run.note,
    "model": lambda line: line.overview.model,
    "dataset": lambda line: sized_dataset(line.overview.dataset, line.overview.image_size),
    "precision": lambda line: f"{line.overview.precision.value}\n{line.overview.precision.label}",
    "recipe": lambda line: recipe_title(line.overview.recipe),
    "batch": lambda line: str(line.overview.batch_size),
    "sweep": lambda line: f"{line.run.sweep}\n{line.run.sweep_name}" if line.run.sweep else "",
    "status": lambda line: f"{line.run.status.value}\n{status_words(line.run)}",
}
_TERM = re.compile(r'(?:(\w+):(?:"([^"]*)"?|(\S*)))|"([^"]*)"?|(\S+)')
_WHOLE = {
    "precision": frozenset(precision.value for precision in Precision),
    "status": frozenset(status.value for status in Status),
}


class RowFilter:
    """The filter of the results table, parsed from typed text: words, and keys with a value (`tag:paper`).

    Case is ignored. A word with an unknown key is a plain word.
    """

    def __init__(self, text: str = "") -> None:
        self._terms = tuple(_term(match) for match in _TERM.finditer(text.casefold()))

    def __call__(self, line: RunRow | StudyRow) -> bool:
        """True if the run or study passes the filter."""
        return all(fits(line) for fits in self._terms)

    def among(self, lines: Iterable[RunRow]) -> list[RunRow]:
        """Return the lines that pass the filter, in their order."""
        found = list(lines)
        # term by term: asking for all terms of every line takes twice as long
        for fits in self._terms:
            found = [line for line in found if fits(line)]
        return found


def _place_of(key: str, row: RunRow | StudyRow) -> str:
    if isinstance(row, RunRow):
        return _PLACES[key](row)
    return {"name": row.title, "model": row.model}.get(key, "")


def _term(match: re.Match[str]) -> Callable[[RunRow | StudyRow], bool]:
    key, *values = match.groups()
    value = next((part for part in values if part is not None), "")
    if key is None or key not in _PLACES:
        wanted = f"{key}:{value}" if key else value
        return lambda line: wanted in line.words
    if value and (key == "batch" or value in _WHOLE.get(key, ())):
        # "fp16" must not find fp16-unscaled, nor 64 find 640
        return lambda line: value in _place_of(key, line).casefold().split("\n")
    return lambda line: bool(said := _place_of(key, line)) and value in said.casefold()
