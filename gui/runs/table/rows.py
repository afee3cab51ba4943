"""The rows of the table: headings, comparisons and studies with their runs, and the filter. No Qt."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Literal

from engine.experiment.experiment import Experiment, Precision
from engine.store.record import RunRecord, Status
from engine.words.names import recipe_title
from gui.runs.table.line import Baselines, RunRow, begun, sized_dataset, status_words

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

    `ratio` compares two sides. `is_spoiled` is True if a disturbed run makes it unreliable.
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

    @property
    def key(self) -> str:
        return f"{self.kind} {self.id}"

    @property
    def run_ids(self) -> tuple[str, ...]:
        """The ids of its runs, oldest first."""
        return tuple(line.key for line in self.lines)

    @property
    def is_pinned(self) -> bool:
        return any(line.run.is_pinned for line in self.lines)

    @property
    def rank(self) -> int:
        """The sort rank: 2 if running, 1 if waiting, else 0."""
        states = {line.run.status for line in self.lines}
        if Status.RUNNING in states or (self.study is not None and self.study.is_unfinished):
            return 2
        return 1 if Status.QUEUED in states else 0


Row = Heading | Item | RunRow


def items_of(
    lines: Iterable[RunRow], studies: Sequence[StudyRow], baselines: Baselines
) -> tuple[tuple[Item, ...], dict[str, Item]]:
    """Return the comparisons, sweeps and other studies, and the item of each run in one, by run id."""
    groups: dict[tuple[ItemKind, str], list[RunRow]] = {}
    for line in sorted(lines, key=lambda line: line.run.number):
        run = line.run
        if run.sweep is not None:
            groups.setdefault(("sweep", run.sweep), []).append(line)
        elif run.comparison is not None:
            groups.setdefault(("comparison", run.comparison), []).append(line)
    sweeps = {study.id: study for study in studies if study.kind == "sweep"}
    items = []
    for (kind, group_id), mates in groups.items():
        if kind == "sweep":
            items.append(_study(sweeps.get(group_id), tuple(mates)))
        elif len(mates) > 1:
            items.append(_comparison(group_id, tuple(mates), baselines))
    owners = {line.key: item for item in items for line in item.lines}
    bare = (study for study in studies if ("sweep", study.id) not in groups)
    return (*items, *map(_study, bare)), owners


def _study(study: StudyRow | None, lines: tuple[RunRow, ...] = ()) -> Item:
    if study is None:
        # the runs of a sweep that is gone
        run = lines[0].run
        return Item("sweep", run.sweep or "", run.sweep_name, lines[0].overview.model, begun(run), lines)
    model = lines[0].overview.model if lines else study.model
    named = study.kind, study.id, study.title, model, study.when
    return Item(*named, lines, study.result, study.ratio, is_failed=study.is_failed, study=study)


def _comparison(comparison: str, lines: tuple[RunRow, ...], baselines: Baselines) -> Item:
    is_failed = all(line.run.status is Status.FAILED for line in lines)
    sides: dict[str, list[RunRow]] = {}
    for line in lines:
        sides.setdefault(_side_of(line), []).append(line)
    models = tuple(dict.fromkeys(line.overview.model for line in lines))
    later = list(sides.values())[1] if len(sides) == 2 else []
    ratios = [ratio for line in later if (ratio := baselines.change(line)) is not None]
    return Item(
        "comparison",
        comparison,
        _title(lines, tuple(sides)),
        models[0] if len(models) == 1 else f"{len(models)} models",
        min(begun(line.run) for line in lines),
        lines,
        lines[0].failure if is_failed else "",
        statistics.geometric_mean(ratios) if ratios and min(ratios) > 0 else None,
        any(baselines.spoiled(line) for line in later),
        is_failed,
    )


def _side_of(line: RunRow) -> str:
    seen = line.overview
    unnamed = f"{seen.precision.label}, {recipe_title(seen.recipe)}, batch {seen.batch_size}"
    return line.run.label or unnamed


def _own_name(run: RunRecord) -> str:
    # what the user called the runs of a comparison: "Paper" of "Paper, FP32, repeat 2"; "" for nothing
    return run.name.partition(f", {run.label}")[0] if run.label and f", {run.label}" in run.name else ""


def name_of_side(run: RunRecord, name: str) -> str:
    """Return a run's name after its comparison is renamed to `name`."""
    rest = run.name[len(own) :] if (own := _own_name(run)) else f", {run.label or run.title}"
    return f"{name}{rest}"


def _title(lines: Sequence[RunRow], sides: Sequence[str]) -> str:
    names = {_own_name(line.run) for line in lines}
    if len(names) == 1 and (name := names.pop()):
        return name
    if len(sides) == 2 and None not in [line.run.label for line in lines]:
        return f"{sides[0]} against {sides[1]}"
    precisions = {line.overview.precision for line in lines}
    return f"{len(sides)} precisions" if len(sides) == len(precisions) > 2 else f"{len(lines):,} runs"


def name_below(line: RunRow, item: Item) -> str:
    """Return a run's name below its item: how it differs, unless the user has named it."""
    run = line.run
    is_named = not _own_name(run) and run.has_own_name and run.name != run.label
    if is_named or item.kind == "sweep" or run.label is None:
        return run.title
    seeds = sorted(mate.overview.seed for mate in item.lines if mate.run.label == run.label)
    if len(seeds) < 2:
        return run.label
    return f"{run.label}, repeat {seeds.index(line.overview.seed) + 1:,}"


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
