"""The rows of the table: headings, comparisons and studies, and the runs below them. No Qt."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Literal

from engine.experiment.experiment import Experiment
from engine.store.record import RunRecord, Status
from engine.words.names import recipe_title
from gui.runs.table.baselines import Baselines
from gui.runs.table.line import Line, begun

StudyKind = Literal["limit", "numerics", "profile", "sweep", "tune"]
ItemKind = Literal["comparison", "limit", "numerics", "profile", "sweep", "tune"]
KINDS: dict[ItemKind, tuple[str, str]] = {
    "comparison": ("Comparisons", "compare"),
    "limit": ("Limits", "limit"),
    "numerics": ("Numerics", "pulse"),
    "profile": ("Profiles", "profile"),
    "sweep": ("Sweeps", "sweep"),
    "tune": ("Tunings", "tune"),
}
"""What the chooser calls each kind, and its icon."""


@dataclass(frozen=True)
class StudyRow:
    """A saved limit, numerics, profile, sweep or tuning, as the table shows it.

    `result` is what came out, in a few words; `ratio` its gain, None where it has none. `experiment` is what
    *Use these settings* puts into the form. `is_unfinished` while it runs or waits.
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
        kind = KINDS[self.kind][0]
        return "\n".join((self.title, self.model, self.result, self.device, kind)).casefold()


@dataclass(frozen=True)
class Heading:
    """A line above the rows of a day, of what is in progress, or of what is pinned."""

    words: str

    @property
    def key(self) -> str:
        return f"heading {self.words}"


@dataclass(frozen=True)
class Item:
    """A comparison with its runs, or a study; the runs of a sweep are below it.

    `ratio` is that of two sides. It `is_spoiled` where a disturbed run makes it mean nothing.
    """

    kind: ItemKind
    id: str
    title: str
    model: str
    when: datetime
    lines: tuple[Line, ...] = ()
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
        return tuple(line.run.id for line in self.lines)

    @property
    def is_pinned(self) -> bool:
        return any(line.run.is_pinned for line in self.lines)

    @property
    def rank(self) -> int:
        """What is in progress stands above what waits, and that above the rest."""
        states = {line.run.status for line in self.lines}
        if Status.RUNNING in states or (self.study is not None and self.study.is_unfinished):
            return 2
        return 1 if Status.QUEUED in states else 0


Row = Heading | Item | Line


def items_of(
    lines: Iterable[Line], studies: Sequence[StudyRow], baselines: Baselines
) -> tuple[tuple[Item, ...], dict[str, Item]]:
    """The comparisons, sweeps and other studies; and the item of each run that belongs to one, by its id."""
    groups: dict[tuple[ItemKind, str], list[Line]] = {}
    for line in lines:
        run = line.run
        if run.sweep is not None:
            groups.setdefault(("sweep", run.sweep), []).append(line)
        elif run.comparison is not None:
            groups.setdefault(("comparison", run.comparison), []).append(line)
    known = {study.id: study for study in studies if study.kind == "sweep"}
    items = []
    for (kind, group_id), mates in groups.items():
        mates.sort(key=lambda line: line.run.number)
        if kind == "sweep":
            items.append(_sweep(group_id, tuple(mates), known.get(group_id)))
        elif len(mates) > 1:
            items.append(_comparison(group_id, tuple(mates), baselines))
    owners = {line.run.id: item for item in items for line in item.lines}
    bare = (study for study in studies if ("sweep", study.id) not in groups)
    return (*items, *map(_bare, bare)), owners


def _bare(study: StudyRow) -> Item:
    return Item(
        study.kind,
        study.id,
        study.title,
        study.model,
        study.when,
        result=study.result,
        ratio=study.ratio,
        is_failed=study.is_failed,
        study=study,
    )


def _sweep(sweep_id: str, lines: tuple[Line, ...], study: StudyRow | None) -> Item:
    first = lines[0]
    return Item(
        "sweep",
        sweep_id,
        study.title if study is not None else first.run.sweep_name,
        first.overview.model,
        study.when if study is not None else begun(first.run),
        lines,
        "" if study is None else study.result,
        None if study is None else study.ratio,
        is_failed=study is not None and study.is_failed,
        study=study,
    )


def _comparison(comparison: str, lines: tuple[Line, ...], baselines: Baselines) -> Item:
    is_failed = all(line.run.status is Status.FAILED for line in lines)
    sides: dict[str, list[Line]] = {}
    for line in lines:
        sides.setdefault(side_of(line), []).append(line)
    models = tuple(dict.fromkeys(line.overview.model for line in lines))
    later = list(sides.values())[1] if len(sides) == 2 else []
    ratios = [ratio for line in later if (ratio := baselines.ratio(line)) is not None]
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


def side_of(line: Line) -> str:
    """The side of its comparison: "FP32"."""
    if line.run.label:
        return line.run.label
    recipe = recipe_title(line.overview.recipe)
    return f"{line.overview.precision.label}, {recipe}, batch {line.overview.batch_size}"


def _own_name(run: RunRecord) -> str:
    """What the user called the runs of a comparison: "Paper" of "Paper, FP32, repeat 2"; "" for nothing."""
    return run.name.partition(f", {run.label}")[0] if run.label and f", {run.label}" in run.name else ""


def name_of_side(run: RunRecord, name: str) -> str:
    """A run's name where its comparison is called `name`."""
    rest = run.name[len(own) :] if (own := _own_name(run)) else f", {run.label or run.name}"
    return f"{name}{rest}"


def _title(lines: Sequence[Line], sides: Sequence[str]) -> str:
    names = {_own_name(line.run) for line in lines}
    if len(names) == 1 and (name := names.pop()):
        return name
    labels = [line.run.label for line in lines]
    if len(sides) == 2 and None not in labels:
        return f"{sides[0]} against {sides[1]}"
    precisions = {line.overview.precision for line in lines}
    if len(sides) == len(precisions) > 2:
        return f"{len(sides)} precisions"
    return f"{len(lines):,} runs"


def name_below(line: Line, item: Item) -> str:
    """What a run is called below its item: only how it differs, unless the user has named it."""
    run = line.run
    is_named = not _own_name(run) and run.name not in (f"Run {run.number}", run.label)
    if is_named or item.kind == "sweep" or run.label is None:
        return run.name
    seeds = sorted(mate.overview.seed for mate in item.lines if mate.run.label == run.label)
    if len(seeds) < 2:
        return run.label
    return f"{run.label}, repeat {seeds.index(line.overview.seed) + 1:,}"


def day_words(day: date, today: date) -> str:
    """The heading of a day: "Today", "Yesterday", "Monday", "3 March", "3 March 2025"."""
    if day == today:
        return "Today"
    if day == today - timedelta(days=1):
        return "Yesterday"
    if today - timedelta(days=7) < day < today:
        return f"{day:%A}"
    return f"{day.day} {day:%B}" if day.year == today.year else f"{day.day} {day:%B} {day.year}"
