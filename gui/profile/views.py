"""The interactive parts of a profile: bars of a step's parts, the roofline, and the tables of its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from PySide6.QtCore import QRectF
from PySide6.QtWidgets import QSizePolicy

from engine.drawing.shapes import Drawing
from engine.profile import tables as measured
from engine.profile.charts import (
    PartPlace,
    RooflinePoint,
    bars_drawing,
    part_places,
    roofline_drawing,
    roofline_points,
)
from engine.profile.names import part_meaning, part_phrase, part_title, side_names
from engine.profile.tables import NO_UNITS, NOUNS, TABLES, SideRow, Table, count_text, ms_text, side_rows
from engine.protocol.profile import Profiles, StepPart, StepProfile, TimeRow
from engine.words.numbers import number, share_text
from gui.charts.painter import InteractiveDrawing
from gui.widgets import Button, Segmented
from gui.widgets.table import Column, ColumnGroup, FilteredTable, Look, ResultTable
from gui.widgets.table.columns import GROWS

_LARGEST = 3


class Bars(InteractiveDrawing[PartPlace]):
    """A chart with one bar per profile, divided into the parts of a step. Each part can be clicked."""

    def __init__(self) -> None:
        super().__init__("Where a step's time goes")
        self._profiles: Profiles | None = None
        self._names: Sequence[str] = ()

    def show_answer(self, answer: Profiles) -> None:
        """Show profiles, of which at least one is known."""
        self._profiles, self._names = answer, side_names(answer)
        self.redraw()

    def drawn(self, width: float) -> tuple[Drawing, Sequence[PartPlace]]:
        if self._profiles is None:
            return Drawing(width, 0, ()), ()
        return bars_drawing(self._profiles, width), part_places(self._profiles, width)

    def tip(self, spot: PartPlace) -> str:
        assert self._profiles is not None  # or there are no spots
        profile = self._profiles.sides[spot.side].profile
        assert profile is not None  # only profiles have parts
        ms, share = profile.bar.ms(spot.part), share_text(profile.bar.fraction(spot.part))
        name = f"{self._names[spot.side]}: " if len(self._names) > 1 else ""
        lines = [
            f"{name}{part_title(spot.part, profile)}, {number(ms)} ms, {share} of the step",
            f"{part_meaning(spot.part, profile)}.",
        ]
        rows = [row for row in profile.kernels if row.part is spot.part][:_LARGEST]
        return "\n".join([*lines, *(f"{number(row.ms)} ms  {row.name}" for row in rows)])

    def outline(self, spot: PartPlace) -> QRectF:
        return QRectF(spot.x, spot.y, spot.width, spot.height).adjusted(-1.5, -1.5, 0.5, 0.5)


_LOWEST, _HIGHEST, _PART = 300.0, 460.0, 0.5
"""The height of the chart: a part of its width, within limits."""


class Roofline(InteractiveDrawing[RooflinePoint]):
    """The roofline chart of profiles: the throughput of kernels over their arithmetic intensity."""

    def __init__(self) -> None:
        super().__init__("Roofline")
        self._profiles: Profiles | None = None
        self._names: Sequence[str] = ()

    def show_answer(self, answer: Profiles) -> None:
        """Show profiles, of which at least one is known."""
        self._profiles, self._names = answer, side_names(answer)
        self.redraw()

    def drawn(self, width: float) -> tuple[Drawing, Sequence[RooflinePoint]]:
        if self._profiles is None:
            return Drawing(width, 0, ()), ()
        height = min(max(_PART * width, _LOWEST), _HIGHEST)
        marks = roofline_points(self._profiles, width, height)
        return roofline_drawing(self._profiles, width, height), marks[::-1]

    def stops(self) -> Sequence[RooflinePoint]:
        return self.spots()[::-1]

    def tip(self, spot: RooflinePoint) -> str:
        assert self._profiles is not None  # or there are no spots
        row, profile = spot.row, self._profiles.sides[spot.place].profile
        assert profile is not None and row.flops and row.moved_bytes  # or there is no mark
        share = profile.share_of_step(row)
        name = f"{self._names[spot.place]}: " if len(self._names) > 1 else ""
        lines = (
            row.name,
            f"{name}{number(row.ms)} ms{'' if share is None else f', {share_text(share)} of the step'}",
            f"{number(row.tflops)} TFLOP/s, {number(row.gb_per_second)} GB/s, "
            f"{number(row.flops / row.moved_bytes)} FLOP/byte",
        )
        return "\n".join(lines)

    def outline(self, spot: RooflinePoint) -> QRectF:
        half = spot.size / 2 + 2
        return QRectF(spot.x - half, spot.y - half, 2 * half, 2 * half)


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
        ColumnGroup(name, side.experiment.precision) for name, side in zip(names, profiles.sides, strict=True)
    ]
    name, *others = measured.columns_of(profiles, table, rows)
    return [
        Column(name.heading, name.text, name.value, name.tip, width=_LEAST_NAME, widest=GROWS),
        *(_number(column, None if column.side is None else groups[column.side], groups) for column in others),
    ]


def _number(
    column: measured.SideColumn, group: ColumnGroup | None, groups: list[ColumnGroup]
) -> Column[SideRow]:
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
