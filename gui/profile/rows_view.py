"""The tables of profiles: kernels, operations or modules, with the sides next to each other."""

from __future__ import annotations

from collections.abc import Iterator

from PySide6.QtWidgets import QSizePolicy

from engine.profile import tables as measured
from engine.profile.names import part_phrase, part_title, side_names
from engine.profile.tables import NO_UNITS, NOUNS, TABLES, SideRow, Table, count_text, ms_text, side_rows
from engine.protocol.profile import Profiles, StepPart, StepProfile, TimeRow
from engine.words.numbers import share_text
from gui.widgets import Button, Segmented
from gui.widgets.table import Column, FilteredTable, Group, Look, ResultTable
from gui.widgets.table.columns import GROWS

_LEAST_NAME = 180
_FILTER_TIP = "Filter rows by name or launching operation"
_TABLE_TIP = "Choose what to list: kernels, the operations that launch them, or modules"
_WAITING = "The device runs no kernels while it waits."
_STRONG = ("ms", "Ratio")


class RowsView(FilteredTable[SideRow]):
    """A table of the kernels, operations or modules of the profiles, with a filter."""

    def __init__(self) -> None:
        self._profiles: Profiles | None = None
        self.shown_part: StepPart | None = None
        """The part whose rows are shown. None for the rows of all parts."""
        self.choice = Segmented([(table, table.capitalize()) for table in TABLES], "Table", _TABLE_TIP)
        self.part = Button("One part", "toggle", "Show the rows of all parts again", "cross")
        table = ResultTable[SideRow](
            "Rows",
            key=lambda row: row.name,
            about=self._about,
            found_by=lambda row: " ".join([row.name, *(cell.operation or "" for cell in row.known)]),
        )
        super().__init__(table, "row", _FILTER_TIP, before=(self.choice,), after=(self.part,))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.choice.changed.connect(self._show)
        self.part.clicked.connect(lambda: self.show_part(None))

    def show_answer(self, answer: Profiles) -> None:
        """Show the tables of profiles."""
        self._profiles = answer
        self._show()

    def show_part(self, part: StepPart | None) -> None:
        """Show only the rows that belong to a part of the step. For None, show all rows."""
        self.shown_part = part
        self._show()

    def open_table(self, table: Table) -> None:
        self.choice.set_value(table)
        self._show()

    def shown_table(self) -> Table:
        return next(table for table in TABLES if table == self.choice.value())

    def _show(self) -> None:
        profiles, table = self._profiles, self.shown_table()
        if profiles is None or not profiles.measured():
            return
        rows = side_rows(profiles, table)
        self.table.setAccessibleName(table.capitalize())
        self.table.show_rows(rows, _columns(profiles, table, rows))
        self._show_part(profiles.measured()[0])
        noun = NOUNS[table].lower()
        notes = dict.fromkeys(note for side in profiles.measured() for note in side.notes)
        self.show_count(" ".join([f"The profile has no {noun}s.", *notes]), noun)

    def _show_part(self, profile: StepProfile) -> None:
        part = self.shown_part
        words = part_title(part, profile) if part is not None else ""
        self.part.setText(words)
        self.part.setAccessibleName(f"Only {words}")
        self.part.setChecked(True)
        self.part.setVisible(part is not None)
        if part is None:
            self.keep(None)
        else:
            waits = part in (StepPart.COMMUNICATION, StepPart.HOST, StepPart.DATA)
            self.keep(lambda row: any(cell.part is part for cell in row.known), _WAITING if waits else "")

    def _about(self, row: SideRow) -> str:
        return "\n".join([row.name, *_lines(self._profiles, row)]) if self._profiles is not None else ""


def _columns(profiles: Profiles, table: Table, rows: tuple[SideRow, ...]) -> list[Column[SideRow]]:
    names = side_names(profiles)
    groups = [
        Group(name, side.experiment.precision) for name, side in zip(names, profiles.sides, strict=True)
    ]
    name, *others = measured.columns_of(profiles, table, rows)
    return [
        Column(name.heading, name.text, name.value, name.tip, width=_LEAST_NAME, widest=GROWS),
        *(_number(column, None if column.side is None else groups[column.side], groups) for column in others),
    ]


def _number(column: measured.Column, group: Group | None, groups: list[Group]) -> Column[SideRow]:
    weight = 500 if column.heading in _STRONG else 400

    def look(row: SideRow) -> Look:
        if not column.shows_units:
            return Look(weight)
        return Look(weight, mark="cross-outline" if column.text(row) == NO_UNITS else "check")

    return Column(
        column.heading,
        column.text,
        column.value,
        column.tip,
        width=column.width,
        is_number=True,
        is_dispensable=column.is_in_tip,
        look=look,
        group=group if len(groups) > 1 else None,
    )


def _lines(profiles: Profiles, row: SideRow) -> Iterator[str]:
    names = side_names(profiles)
    for name, side, cell in zip(names, profiles.sides, row.cells, strict=True):
        if cell is not None and side.profile is not None:
            words = ", ".join(_facts(cell, side.profile))
            yield f"{name}: {words}" if len(names) > 1 else words


def _facts(cell: TimeRow, profile: StepProfile) -> Iterator[str]:
    yield f"{ms_text(cell.ms)} ms"
    share = profile.share_of_step(cell)
    if share is not None:
        yield f"{share_text(share)} of the step"
    yield f"{count_text(cell.calls)} call{'' if cell.calls == 1 else 's'}"
    yield part_phrase(cell.part, profile)
    if cell.format is not None:
        yield f"in {cell.format.upper()}"
    if cell.operation is not None:
        yield f"launched by {cell.operation}"
    if cell.backward_ms is not None:
        yield f"{ms_text(cell.backward_ms)} ms of it in the backward pass"
