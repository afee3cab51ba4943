"""The rows of the table: which the filter shows, and in what order. No Qt.

The filter takes words, and words with a key such as `tag:paper`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from engine.experiment.experiment import Precision
from engine.store.record import RunRecord, Status
from engine.words.names import recipe_title
from gui.runs.table.baselines import Baselines
from gui.runs.table.cells import sorter
from gui.runs.table.columns import Column
from gui.runs.table.line import Line, begun, sized_dataset, status_words
from gui.runs.table.rows import Heading, Item, ItemKind, Row, StudyRow, day_words, items_of


def ordered(lines: Iterable[Line], column: Column, is_descending: bool, baselines: Baselines) -> list[Line]:
    """The lines by a column, the pinned ones on top in either direction.

    Lines without a value are last, and among equals the newest is first.
    """
    value_of, sign = sorter(column, baselines), 1 if is_descending else -1
    valued: list[tuple[Any, int, Line]] = []
    silent: list[Line] = []
    for line in lines:
        value = value_of(line)
        if value is None:
            silent.append(line)
        else:
            # run numbers are unique, so that lines themselves are never compared
            valued.append((value, sign * line.run.number, line))
    valued.sort(reverse=is_descending)
    silent.sort(key=lambda line: -line.run.number)
    whole = [line for _, _, line in valued] + silent
    pinned = [line for line in whole if line.run.is_pinned]
    return pinned + [line for line in whole if not line.run.is_pinned] if pinned else whole


_PLACES: dict[str, Callable[[Line], str]] = {
    "name": lambda line: line.run.name,
    "tag": lambda line: "\n".join(line.run.tags),
    "note": lambda line: line.run.note,
    "model": lambda line: line.overview.model,
    "dataset": lambda line: sized_dataset(line.overview.dataset, line.overview.image_size),
    "precision": lambda line: f"{line.overview.precision.value}\n{line.overview.precision.label}",
    "recipe": lambda line: recipe_title(line.overview.recipe),
    "batch": lambda line: str(line.overview.batch_size),
    "folder": lambda line: line.run.folder,
    "sweep": lambda line: f"{line.run.sweep}\n{line.run.sweep_name}" if line.run.sweep else "",
    "status": lambda line: f"{line.run.status.value}\n{status_words(line.run)}",
}
TIP = (
    "Shows what has every word in its name, tags, note, model, dataset, precision, recipe or"
    " status. A key looks in one place alone: tag:paper, model:resnet50, precision:fp16, status:failed,"
    ' batch:64, folder:thesis, sweep:lr; quotes keep words together: tag:"figure 2".'
)

_TERM = re.compile(r'(?:(\w+):(?:"([^"]*)"?|(\S*)))|"([^"]*)"?|(\S+)')
_WHOLE = {
    "precision": frozenset(precision.value for precision in Precision),
    "status": frozenset(status.value for status in Status),
}


class Search:
    """A filter as typed; case makes no difference, and an unknown key is an ordinary word."""

    def __init__(self, text: str = "") -> None:
        self._terms = tuple(_term(match) for match in _TERM.finditer(text.casefold()))

    def __call__(self, line: Line | StudyRow) -> bool:
        """Whether the run or study passes the filter."""
        return all(fits(line) for fits in self._terms)

    def among(self, lines: Iterable[Line]) -> list[Line]:
        """Those of the lines that pass the filter, in their order."""
        found = list(lines)
        # term by term: asking for all terms of every line takes twice as long
        for fits in self._terms:
            found = [line for line in found if fits(line)]
        return found


def _place_of(key: str, row: Line | StudyRow) -> str:
    """What a row says in the place of that key; a study has no more than a name and a model."""
    if isinstance(row, Line):
        return _PLACES[key](row)
    return {"name": row.title, "model": row.model}.get(key, "")


def _term(match: re.Match[str]) -> Callable[[Line | StudyRow], bool]:
    key, *values = match.groups()
    value = next((part for part in values if part is not None), "")
    if key is None or key not in _PLACES:
        wanted = f"{key}:{value}" if key else value
        return lambda line: wanted in line.words
    # a folder in quotes is that folder alone
    is_whole_folder = key == "folder" and match[2] is not None
    if value and (is_whole_folder or key == "batch" or value in _WHOLE.get(key, ())):
        # "fp16" must not find fp16-unscaled, nor 64 find 640
        return lambda line: value in _place_of(key, line).casefold().split("\n")
    return lambda line: bool(said := _place_of(key, line)) and value in said.casefold()


_RANKS = {Status.RUNNING: 2, Status.QUEUED: 1}


class RunsList:
    """`lines` by the runs' ids. `queue` holds the ids of queued runs, the next one first;
    `only_pictures`: whether all runs train on pictures.

    In the order of time the rows are a tree: comparisons and studies with their runs below them, under the
    headings of the days. In any other order runs stand alone: the fastest of all is found so. `found` has the
    ids of those that pass the filter.
    """

    def __init__(self) -> None:
        self.lines: dict[str, Line] = {}
        self.queue: list[str] = []
        self.baselines = Baselines()
        self.only_pictures = True
        self.owners: dict[str, Item] = {}
        self.found: set[str] = set()
        self.items: tuple[Item, ...] = ()
        self._studies: tuple[StudyRow, ...] = ()
        self._kind: ItemKind | None = None
        self._folded: dict[str, bool] = {}
        self._tags: Counter[str] = Counter()
        self._folders: Counter[str] = Counter()
        self._baseline: str | None = None
        self._search = Search()
        self._in_order: list[Line] | None = None
        self._column, self._is_descending = Column.WHEN, True

    def take(self, runs: Iterable[RunRecord]) -> bool:
        """Holds these runs and no others; whether anything has changed."""
        lines = {run.id: self._line(run) for run in runs}
        if lines == self.lines:
            return False
        self.lines = lines
        queued = [line.run for line in lines.values() if line.run.status is Status.QUEUED]
        self.queue = [run.id for run in sorted(queued, key=lambda run: run.number)]
        self._arrange()
        self.only_pictures = all(line.has_pictures for line in lines.values())
        self._tags = Counter(tag for line in lines.values() for tag in line.run.tags)
        self._folders = Counter(line.run.folder for line in lines.values() if line.run.folder)
        return True

    def take_studies(self, studies: Iterable[StudyRow]) -> bool:
        """Holds these studies and no others; whether anything has changed."""
        held, self._studies = self._studies, tuple(studies)
        if held == self._studies:
            return False
        self._arrange()
        return True

    @property
    def baseline(self) -> str | None:
        """The id of the chosen baseline, there or not; None for the default."""
        return self._baseline

    def measure_against(self, run_id: str | None) -> None:
        """Chooses the baseline of all runs; None for the first run of each one's comparison.

        The default also holds while there is no such run.
        """
        self._baseline = run_id
        self._arrange()

    def _arrange(self) -> None:
        self._in_order = None
        self.baselines = Baselines(self.lines.values(), self.lines.get(self._baseline or ""))
        self.items, self.owners = items_of(self.lines.values(), self._studies, self.baselines)

    def find(self, text: str) -> None:
        """Filters by `text`, as `Search` understands it."""
        self._search = Search(text)

    def choose_kind(self, kind: ItemKind | None) -> None:
        """Shows what is of one kind; None for everything."""
        self._kind = kind

    def sort(self, column: Column, is_descending: bool) -> None:
        """Chooses the order."""
        self._column, self._is_descending, self._in_order = column, is_descending, None

    @property
    def is_tree(self) -> bool:
        """Whether runs stand below their comparisons."""
        return self._column is Column.WHEN

    def is_folded(self, item: Item) -> bool:
        """Whether the runs of an item are hidden: at first those of a sweep, or of what failed as a whole."""
        return bool(item.lines) and self._folded.get(item.key, item.kind == "sweep" or item.is_failed)

    def fold(self, item: Item, is_folded: bool) -> None:
        """Hides or shows the runs of an item."""
        self._folded[item.key] = is_folded

    def in_view(self) -> list[Row]:
        """The rows that pass the filter, in order."""
        shown = (line for line in self.lines.values() if self._is_of_kind(line))
        self.found = {line.run.id for line in self._search.among(shown)}
        if self.is_tree:
            return self._tree()
        if self._in_order is None:
            self._in_order = ordered(self.lines.values(), self._column, self._is_descending, self.baselines)
        runs: list[Row] = [line for line in self._in_order if line.run.id in self.found]
        bare = [item for item in self.items if not item.lines and self._is_shown(item)]
        return runs + sorted(bare, key=lambda item: item.when, reverse=True)

    def tags(self) -> tuple[str, ...]:
        """The tags in use, the most frequent first."""
        return tuple(tag for tag, _ in self._tags.most_common())

    def folders(self) -> dict[str, int]:
        """The folders that runs are in, by name, with how many are in each."""
        return {name: self._folders[name] for name in sorted(self._folders, key=str.casefold)}

    def _line(self, run: RunRecord) -> Line:
        line = self.lines.get(run.id)
        # the store returns the same record while a run is unchanged
        is_same = line is not None and (line.run is run or line.run == run)
        return line if line is not None and is_same else Line(run)

    def _is_of_kind(self, line: Line) -> bool:
        return self._kind is None or self._kind == ("sweep" if line.run.sweep else "comparison")

    def _is_shown(self, item: Item) -> bool:
        return self._kind in (None, item.kind) and item.study is not None and self._search(item.study)

    def _tree(self) -> list[Row]:
        found = self.found
        roots: list[Item | Line] = [
            item
            for item in self.items
            if self._is_shown(item) or any(line.run.id in found for line in item.lines)
        ]
        roots += [self.lines[run_id] for run_id in found if run_id not in self.owners]
        roots.sort(key=_place_in_time, reverse=self._is_descending)
        pinned = [root for root in roots if _is_pinned(root)]
        rows: list[Row] = [Heading("Pinned")] if pinned else []
        for root in pinned:
            rows += self._with_runs(root)
        return rows + self._by_days([root for root in roots if not _is_pinned(root)])

    def _by_days(self, roots: Sequence[Item | Line]) -> list[Row]:
        today, words = datetime.now().astimezone().date(), ""
        rows: list[Row] = []
        for root in roots:
            rank, seconds, _ = _place_in_time(root)
            day = datetime.fromtimestamp(abs(seconds)).astimezone().date()
            heading = "In progress" if rank else day_words(day, today)
            if heading != words:
                words = heading
                rows.append(Heading(words))
            rows += self._with_runs(root)
        return rows

    def _with_runs(self, root: Item | Line) -> list[Row]:
        is_alone = isinstance(root, Line) or self.is_folded(root)
        return [root] if is_alone else [root, *self.lines_of(root)]

    def lines_of(self, row: Row) -> tuple[Line, ...]:
        """The run of a row, or those of an item that pass the filter."""
        if isinstance(row, Line):
            return (row,)
        if isinstance(row, Heading):
            return ()
        # a study is found by its own words, which its runs need not have
        return tuple(line for line in row.lines if line.run.id in self.found) or row.lines


def _place_in_time(root: Item | Line) -> tuple[int, float, int]:
    if isinstance(root, Item):
        rank, moment, number = root.rank, root.when, root.lines[0].run.number if root.lines else 0
    else:
        rank, moment, number = _RANKS.get(root.run.status, 0), begun(root.run), root.run.number
    # of what waits the next one is on top
    sign = -1 if rank == 1 else 1
    return rank, sign * moment.timestamp(), sign * number


def _is_pinned(root: Item | Line) -> bool:
    return root.is_pinned if isinstance(root, Item) else root.run.is_pinned
