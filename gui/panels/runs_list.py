"""The runs of the table: which the filter shows, in what order, what they say of each other. No Qt."""

from __future__ import annotations

from collections import Counter

from engine.records.record import RunRecord, Status
from gui.panels.runs_columns import Column
from gui.panels.runs_line import Baselines, Line
from gui.panels.runs_order import comes_before, ordered
from gui.panels.runs_search import Search


class RunsList:
    """`lines` by the runs' ids; `shown` are those that pass the filter, in order.

    `queue` holds the ids of the runs that wait, the next one first; `only_pictures`, whether all of them
    train on pictures.
    """

    def __init__(self) -> None:
        self.lines: dict[str, Line] = {}
        self.shown: list[Line] = []
        self.queue: list[str] = []
        self.baselines = Baselines()
        self.only_pictures = True
        self._tags: Counter[str] = Counter()
        self._search = Search()
        self._in_order: list[Line] | None = None
        self._column, self._is_descending = Column.WHEN, True

    def find(self, text: str) -> None:
        """Filters by `text`, as `Search` understands it."""
        self._search = Search(text)
        self.show()

    def sort(self, column: Column, is_descending: bool) -> None:
        """Puts what is shown in another order."""
        self._column, self._is_descending = column, is_descending
        self._in_order = None
        self.show()

    @property
    def is_sorted_by_ratio(self) -> bool:
        return self._column is Column.RATIO

    def show(self) -> None:
        """Finds anew what is shown."""
        if self._in_order is None:
            self._in_order = ordered(self.lines.values(), self._column, self._is_descending, self.baselines)
        self.shown = [line for line in self._in_order if self._search(line)]

    def derive(self) -> None:
        """Works out anew what the runs say of each other, after some have changed."""
        self._in_order = None
        lines = self.lines.values()
        queued = [line.run for line in lines if line.run.status is Status.QUEUED]
        self.queue = [run.id for run in sorted(queued, key=lambda run: run.number)]
        self.baselines = Baselines(lines)
        self.only_pictures = all(line.has_pictures for line in lines)
        self._tags = Counter(tag for line in lines for tag in line.run.tags)

    def tags(self) -> tuple[str, ...]:
        """The tags that runs have, those of the most runs first."""
        return tuple(tag for tag, _ in self._tags.most_common())

    def differs(self, run: RunRecord) -> bool:
        """Whether the run is new, or not as it was."""
        line = self.lines.get(run.id)
        # the store hands out the same record of a run that has not changed
        return line is None or (line.run is not run and line.run != run)

    def row_of(self, run_id: str) -> int | None:
        """Where a run is shown; None if the filter hides it."""
        line = self.lines.get(run_id)
        return next((row for row, shown in enumerate(self.shown) if shown is line), None)

    def place_of(self, line: Line, row: int | None) -> int | None:
        """Where a line belongs, with the one in `row` taken out; None if the filter hides it."""
        if not self._search(line):
            return None
        low, high = 0, len(self.shown) - (row is not None)
        while low < high:
            middle = (low + high) // 2
            other = self.shown[middle + 1 if row is not None and middle >= row else middle]
            if comes_before(other, line, self._column, self._is_descending, self.baselines):
                low = middle + 1
            else:
                high = middle
        return low
