"""What the rows of the table say: in cells, tooltips and headings, and read aloud."""

from __future__ import annotations

from datetime import datetime

from PySide6.QtCore import Qt

from engine.store.record import Status
from engine.words.numbers import times
from gui.runs.table.cells import cell_text, cell_tip
from gui.runs.table.columns import COMPARED, HEADINGS, PICTURES_HEADING, Column
from gui.runs.table.line import Line, begun, moment_words
from gui.runs.table.lines import RunsList
from gui.runs.table.rows import KINDS, Heading, Item, Row, name_below
from gui.widgets.labels import plain_tip

_DEFAULT_BASELINE = "the first run of its own comparison"
_RATIO = "Ratio"
_TICKED = {Qt.CheckState.Checked: "ticked", Qt.CheckState.PartiallyChecked: "ticked in part"}


class RowTexts:
    """Of the rows of a list; `paused` is the id of the run that is paused."""

    def __init__(self, runs: RunsList) -> None:
        self._runs = runs
        self.paused: str | None = None

    def heading(self, column: Column) -> tuple[str, str]:
        """A column's heading, which names the baseline, and what the column means."""
        if column is Column.SPEED and self._runs.only_pictures:
            return PICTURES_HEADING
        words, tip = HEADINGS[column]
        if column not in COMPARED:
            return words, tip
        chosen = self._runs.baselines.chosen
        if column is Column.RATIO and chosen is None:
            return _RATIO, tip.format(_DEFAULT_BASELINE)
        of = _DEFAULT_BASELINE if chosen is None else f"“{chosen.run.name}”"
        return words.format(self._runs.baselines.name), tip.format(of)

    def is_below(self, row: Row) -> bool:
        """Whether a row is that of a run below its item."""
        return isinstance(row, Line) and self._runs.is_tree and row.run.id in self._runs.owners

    def is_spoiled(self, row: Row, column: Column) -> bool:
        """Whether a comparison of times means nothing, since the run or its baseline was disturbed."""
        if isinstance(row, Item):
            return column is Column.RATIO and row.is_spoiled
        baselines, figure = self._runs.baselines, COMPARED.get(column)
        if not isinstance(row, Line) or figure is None or not figure.is_of_time:
            return False
        return baselines.change(row, figure) is not None and bool(baselines.spoiled(row))

    def result(self, row: Row) -> str:
        """What stands across the columns of figures: the outcome of a study, or why a run has no figures."""
        if isinstance(row, Item):
            return row.result
        if isinstance(row, Heading) or row.run.status in (Status.FINISHED, Status.STOPPED):
            return ""
        if row.run.status in (Status.FAILED, Status.INTERRUPTED):
            return row.failure if row.overview.samples_per_second is None else ""
        return self._status(row)

    def text(self, row: Row, column: Column) -> str:
        """The text of a cell."""
        if isinstance(row, Heading):
            return row.words if column is Column.NAME else ""
        if isinstance(row, Item):
            return self._item_text(row, column)
        if column is Column.STATUS:
            return self._status(row)
        if column is Column.WHEN:
            return self._when(row)
        if column is Column.NAME and self.is_below(row):
            return name_below(row, self._runs.owners[row.run.id])
        return cell_text(row, column, self._runs.baselines)

    def tip(self, row: Row, column: Column) -> str | None:
        """The tooltip of a cell; None for none."""
        if isinstance(row, Line):
            return cell_tip(row, column, self._runs.baselines)
        if isinstance(row, Heading) or column is Column.TICK:
            return None
        parts = (row.title, row.model, row.result, row.study.device if row.study else "")
        return plain_tip("\n".join(filter(None, parts)))

    def spoken(self, row: Row, column: Column, tick: Qt.CheckState) -> str:
        """A cell as a screen reader says it."""
        if isinstance(row, Heading):
            return row.words
        name = row.title if isinstance(row, Item) else row.run.name
        if column is Column.TICK:
            return f"{name}, {_TICKED.get(tick, 'not ticked')}"
        caution = ", not clean" if self.is_spoiled(row, column) else ""
        told = f"{self.heading(column)[0]}: {self.text(row, column)}{caution}"
        if column is not Column.NAME:
            return told
        if isinstance(row, Item):
            folded = f", {'closed' if self._runs.is_folded(row) else 'open'}" if row.lines else ""
            return f"{told}, {row.model}, {KINDS[row.kind][0]}{folded}"
        run = row.run
        pinned = ", pinned" if run.is_pinned else ""
        baseline = ", the baseline" if run.id == self._runs.baseline else ""
        note = f". Note: {run.note}" if run.note else ""
        below = "" if run.name == self.text(row, column) else f" ({run.name})"
        return f"{told}{below}, {row.overview.precision.label}{pinned}{baseline}{note}"

    def _status(self, line: Line) -> str:
        is_paused = line.run.id == self.paused
        return "Paused" if is_paused else cell_text(line, Column.STATUS, self._runs.baselines)

    def _when(self, line: Line) -> str:
        if line.run.status is Status.QUEUED:
            return "next" if self._runs.queue[:1] == [line.run.id] else "later"
        if line.run.status is Status.RUNNING:
            return "now"
        if self.is_below(line):
            return ""
        return self._moment(begun(line.run), is_pinned=line.run.is_pinned)

    def _moment(self, moment: datetime, *, is_pinned: bool) -> str:
        if self._runs.is_tree and not is_pinned:
            # the heading above says the day
            return f"{moment.astimezone():%H:%M}"
        return moment_words(moment, datetime.now().astimezone())

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
            case Column.FOLDER:
                folders = {line.run.folder for line in item.lines}
                return folders.pop() if len(folders) == 1 else ""
        return ""
