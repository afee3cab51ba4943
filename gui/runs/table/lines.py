"""The list of saved results: filter, order and texts of its rows. No Qt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from engine.store.record import RunRecord, Status
from engine.words.numbers import times
from gui.runs.table.columns import COMPARED, Column, columns_of
from gui.runs.table.line import Baselines, RunRow, begun, short_time_text
from gui.runs.table.rows import (
    KINDS,
    Heading,
    Item,
    ItemKind,
    Row,
    RowFilter,
    StudyRow,
    day_words,
    items_of,
    name_below,
)
from gui.widgets.table.columns import in_order

_PICTURES_HEADING = ("img/s", "Images trained per second, excluding warm-up")
_DEFAULT_BASELINE = "the first run of its own comparison"
_RANKS = {Status.RUNNING: 2, Status.QUEUED: 1}
_FAILED = (Status.FAILED, Status.INTERRUPTED)


class RunsList:
    """The rows of the results table, without Qt: it groups, sorts and filters runs and studies.

    Sorted by time, the rows are a tree: headings of days, and below them comparisons and studies with their
    runs. In any other order, they are a flat list of runs. `shown` are the visible rows, and `found` the ids
    of the runs that match the filter.

    `lines` has all runs by id. `queue` has the ids of queued runs, next first, and `paused` that of the
    paused run. `tags` has the most frequent tags first.
    """

    def __init__(self) -> None:
        self.lines: dict[str, RunRow] = {}
        self.queue: list[str] = []
        self.baseline: str | None = None
        self.baselines = Baselines()
        self.only_pictures = True
        self.tags: tuple[str, ...] = ()
        self.paused: str | None = None
        self.found: set[str] = set()
        self.items: tuple[Item, ...] = ()
        self.shown: list[Row] = []
        self.columns = columns_of(self)
        self._owners: dict[str, Item] = {}
        self._studies: tuple[StudyRow, ...] = ()
        self._kind: ItemKind | None = None
        self._folded: dict[str, bool] = {}
        self._search = RowFilter()
        self._ordered: list[RunRow] | None = None
        self._column, self._is_descending = Column.WHEN, True

    def replace_runs(self, runs: Iterable[RunRecord]) -> bool:
        """Replace all runs. Return True if anything has changed."""
        lines = {run.id: self._line(run) for run in runs}
        if lines == self.lines:
            return False
        self.lines = lines
        queued = [line.run for line in lines.values() if line.run.status is Status.QUEUED]
        self.queue = [run.id for run in sorted(queued, key=lambda run: run.number)]
        self.only_pictures = all(line.has_pictures for line in lines.values())
        tags = Counter(tag for line in lines.values() for tag in line.run.tags)
        self.tags = tuple(tag for tag, _ in tags.most_common())
        self._arrange()
        return True

    def _line(self, run: RunRecord) -> RunRow:
        line = self.lines.get(run.id)
        # the store returns the same record while a run is unchanged
        return line if line is not None and (line.run is run or line.run == run) else RunRow(run)

    def replace_studies(self, studies: Iterable[StudyRow]) -> bool:
        """Replace all studies. Return True if anything has changed."""
        held, self._studies = self._studies, tuple(studies)
        if held != self._studies:
            self._arrange()
        return held != self._studies

    def use_baseline(self, run_id: str | None) -> None:
        """Set the baseline of all runs. None means the first run of each comparison.

        The default also applies if no run has this id.
        """
        self.baseline = run_id
        self._arrange()

    def _arrange(self) -> None:
        self._ordered = None
        self.baselines = Baselines(self.lines.values(), self.lines.get(self.baseline or ""))
        self.items, self._owners = items_of(self.lines.values(), self._studies, self.baselines)

    def filter_by(self, text: str) -> None:
        """Filter by `text`, as `RowFilter` understands it."""
        self._search = RowFilter(text)

    def show_kind(self, kind: ItemKind | None) -> None:
        """Show the results of one kind, or all for None."""
        self._kind = kind

    def order_by(self, column: Column, is_descending: bool) -> None:
        self._column, self._is_descending, self._ordered = column, is_descending, None

    def known(self, run_id: str) -> RunRecord | None:
        """Return the run of that id, shown or not."""
        line = self.lines.get(run_id)
        return None if line is None else line.run

    def owner(self, run_id: str) -> Item | None:
        """Return the comparison or sweep that a run belongs to, if any."""
        return self._owners.get(run_id)

    def item(self, key: str) -> Item | None:
        """Return the item with that key, shown or not."""
        return next((item for item in self.items if item.key == key), None)

    def is_folded(self, item: Item) -> bool:
        """Return True if the runs of an item are hidden, as at first in sweeps and failed comparisons."""
        return bool(item.lines) and self._folded.get(item.key, item.kind == "sweep" or item.is_failed)

    def set_folded(self, item: Item, is_folded: bool) -> None:
        self._folded[item.key] = is_folded

    def visible_rows(self) -> list[Row]:
        """Return the rows that pass the filter, in order."""
        kinds = (line for line in self.lines.values() if self._is_of_kind(line))
        self.found = {line.key for line in self._search.among(kinds)}
        if self._is_tree:
            return self._tree()
        if self._ordered is None:
            self._ordered = self._in_order()
        runs: list[Row] = [line for line in self._ordered if line.key in self.found]
        bare = [item for item in self.items if not item.lines and self._is_wanted(item)]
        return runs + sorted(bare, key=lambda item: item.when, reverse=True)

    def _in_order(self) -> list[RunRow]:
        column = self.columns[self._column]
        value = column.value or (lambda line: column.text(line).casefold())
        # the pinned are on top in either direction; among equals the newest is first
        newest = sorted(self.lines.values(), key=lambda line: line.run.number, reverse=True)
        whole = in_order(newest, value, descends=self._is_descending)
        return sorted(whole, key=lambda line: not line.run.is_pinned)

    @property
    def _is_tree(self) -> bool:
        return self._column is Column.WHEN

    def _is_of_kind(self, line: RunRow) -> bool:
        return self._kind in (None, "sweep" if line.run.sweep else "comparison")

    def _is_wanted(self, item: Item) -> bool:
        return self._kind in (None, item.kind) and item.study is not None and self._search(item.study)

    def _tree(self) -> list[Row]:
        found = self.found
        roots: list[Item | RunRow] = [
            item
            for item in self.items
            if self._is_wanted(item) or any(line.key in found for line in item.lines)
        ]
        roots += [self.lines[run_id] for run_id in found if run_id not in self._owners]
        roots.sort(key=_place_in_time, reverse=self._is_descending)
        today, words = datetime.now().astimezone().date(), ""
        rows: list[Row] = []
        for root in sorted(roots, key=lambda root: not _is_pinned(root)):
            rank, seconds, _ = _place_in_time(root)
            day = datetime.fromtimestamp(abs(seconds)).astimezone().date()
            heading = "Pinned" if _is_pinned(root) else "In progress" if rank else day_words(day, today)
            if heading != words:
                words = heading
                rows.append(Heading(words))
            rows.append(root)
            if isinstance(root, Item) and not self.is_folded(root):
                rows += self._lines_of(root)
        return rows

    def _lines_of(self, row: Row) -> tuple[RunRow, ...]:
        if not isinstance(row, Item):
            return (row,) if isinstance(row, RunRow) else ()
        # a study is found by its own words, which its runs need not have
        return tuple(line for line in row.lines if line.key in self.found) or row.lines

    def runs_at(self, row: int) -> tuple[RunRecord, ...]:
        """Return the run in a row, or the runs of the item there that pass the filter."""
        return tuple(line.run for line in self._lines_of(self.shown[row]))

    def row_of(self, key: str) -> int | None:
        """Return the row of a run, by its id, or of an item, by its key, or None if it is not shown."""
        return next((row for row, shown in enumerate(self.shown) if shown.key == key), None)

    def is_below(self, row: int) -> bool:
        return self._is_below(self.shown[row])

    def _is_below(self, row: Row) -> bool:
        return isinstance(row, RunRow) and self._is_tree and row.key in self._owners

    def is_base(self, row: int) -> bool:
        """Return True if the run in a row is its own baseline."""
        shown = self.shown[row]
        return isinstance(shown, RunRow) and self.baselines.of(shown) is shown

    def is_spoiled(self, row: int, column: Column = Column.RATIO) -> bool:
        """Return True if a ratio of times is not reliable, because the run or its baseline was disturbed."""
        shown, figure = self.shown[row], COMPARED.get(column)
        if isinstance(shown, Item):
            return column is Column.RATIO and shown.is_spoiled
        if not isinstance(shown, RunRow) or figure is None or not figure.is_of_time:
            return False
        return self.baselines.change(shown, figure) is not None and bool(self.baselines.spoiled(shown))

    def heading(self, column: Column) -> tuple[str, str]:
        """Return the heading of a column, which names the baseline, and its tooltip."""
        if column is Column.SPEED and self.only_pictures:
            return _PICTURES_HEADING
        words, tip = self.columns[column].title, self.columns[column].tip
        if column not in COMPARED:
            return words, tip
        chosen = self.baselines.chosen
        if chosen is None:
            words = "Ratio" if column is Column.RATIO else words.format("first")
            return words, tip.format(_DEFAULT_BASELINE)
        name = chosen.run.name if chosen.run.has_own_name else chosen.run.side
        return words.format(name), tip.format(f"“{chosen.run.title}”")

    def result(self, row: int) -> str:
        """Return the result of a study, or why a run has no metrics. It spans the columns of metrics."""
        shown = self.shown[row]
        if isinstance(shown, Item):
            return shown.result
        if isinstance(shown, Heading) or shown.run.status in (Status.FINISHED, Status.STOPPED):
            return ""
        if shown.run.status in _FAILED:
            return shown.failure if shown.overview.samples_per_second is None else ""
        return self.text(row, Column.STATUS)

    def text(self, row: int, column: Column) -> str:
        shown = self.shown[row]
        if isinstance(shown, Heading):
            return shown.words if column is Column.NAME else ""
        if isinstance(shown, Item):
            return self._item_text(shown, column)
        if column is Column.STATUS and shown.key == self.paused:
            return "Paused"
        if column is Column.WHEN:
            return self._when(shown)
        if column is Column.NAME and self._is_below(shown):
            return name_below(shown, self._owners[shown.key])
        return self.columns[column].text(shown)

    def _item_text(self, item: Item, column: Column) -> str:
        match column:
            case Column.NAME:
                return item.title
            case Column.WHEN:
                return self._moment(item.when, is_pinned=item.is_pinned)
            case Column.MODEL:
                return item.model
            case Column.RATIO:
                return f"{times(item.ratio)}×" if item.ratio is not None else ""
            case Column.SPEED:
                # it is painted across all figures
                return item.result
        return ""

    def _when(self, line: RunRow) -> str:
        if line.run.status is Status.QUEUED:
            return "next" if self.queue[:1] == [line.key] else "later"
        if line.run.status is Status.RUNNING:
            return "now"
        return "" if self._is_below(line) else self._moment(begun(line.run), is_pinned=line.run.is_pinned)

    def _moment(self, moment: datetime, *, is_pinned: bool) -> str:
        if self._is_tree and not is_pinned:
            # the heading above says the day
            return f"{moment.astimezone():%H:%M}"
        return short_time_text(moment, datetime.now().astimezone())

    def tip(self, row: int, column: Column) -> str:
        """Return the tooltip of a cell, or "" for none."""
        shown = self.shown[row]
        if isinstance(shown, RunRow):
            about = self.columns[column].about
            return about(shown) if about is not None else ""
        if isinstance(shown, Heading) or column is Column.TICK:
            return ""
        parts = shown.title, shown.model, shown.result, shown.study.device if shown.study else ""
        return "\n".join(filter(None, parts))

    def spoken(self, row: int, column: Column) -> str:
        """Return the text of a cell for screen readers, except for check boxes."""
        shown, text = self.shown[row], self.text(row, column)
        if isinstance(shown, Heading):
            return shown.words
        caution = ", unreliable" if self.is_spoiled(row, column) else ""
        words = f"{self.heading(column)[0]}: {text}{caution}"
        if column is not Column.NAME:
            return words
        if isinstance(shown, Item):
            folded = f", {'closed' if self.is_folded(shown) else 'open'}" if shown.lines else ""
            return f"{words}, {shown.model}, {KINDS[shown.kind][0]}{folded}"
        run = shown.run
        pinned = ", pinned" if run.is_pinned else ""
        baseline = ", the baseline" if run.id == self.baseline else ""
        note = f". Note: {run.note}" if run.note else ""
        below = "" if run.title == text else f" ({run.title})"
        return f"{words}{below}, {shown.overview.precision.label}{pinned}{baseline}{note}"


def _place_in_time(root: Item | RunRow) -> tuple[int, float, int]:
    if isinstance(root, Item):
        rank, moment, number = root.rank, root.when, root.lines[0].run.number if root.lines else 0
    else:
        rank, moment, number = _RANKS.get(root.run.status, 0), begun(root.run), root.run.number
    # of what waits the next one is on top
    sign = -1 if rank == 1 else 1
    return rank, sign * moment.timestamp(), sign * number


def _is_pinned(root: Item | RunRow) -> bool:
    return root.is_pinned if isinstance(root, Item) else root.run.is_pinned
