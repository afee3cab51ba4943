"""The tables of a report, as text: figures, settings and the machine."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.compare.comparison import Comparison, SettingRow, SideReport
from engine.compare.figures import Cell as FigureCell
from engine.compare.figures import Figure
from engine.compare.sides import Side
from engine.compare.verdict import is_open
from engine.experiment.experiment import FACTS, setting_title
from engine.export.document import Cell, FigureText
from engine.protocol.events import Environment
from engine.words.numbers import NONE, memory_text, times


@dataclass(frozen=True)
class SettingLine:
    """A setting or a fact, with one value for each side; `key` is its name in an experiment."""

    key: str
    title: str
    values: tuple[str, ...]

    @property
    def is_shared(self) -> bool:
        return len(set(self.values)) == 1


def figure_rows(comparison: Comparison) -> tuple[tuple[Cell, ...], ...]:
    """The figures that at least one side has, each after its name and unit."""
    return tuple(
        (
            f"{row.figure.title}, {row.figure.unit}" if row.figure.unit else row.figure.title,
            *(
                figure_text(row.figure, cell, report)
                for cell, report in zip(row.cells, comparison.reports, strict=True)
            ),
        )
        for row in comparison.figures
        if any(cell.value is not None for cell in row.cells)
    )


def figure_text(figure: Figure, cell: FigureCell, report: SideReport) -> FigureText:
    """The figure as text, with its ratio or, where that means nothing, its difference ("same" within spread).

    A ratio that allows no conclusion is marked, by the side's `report`.
    """
    value = figure.text(cell.value)
    if report.is_baseline or cell.value is None:
        return FigureText(value)
    caution = report.caution(figure)
    if cell.ratio is not None and caution:
        return FigureText(value, f"{times(cell.ratio)}×", caution, is_sound=False)
    if cell.ratio is not None:
        low, high = (times(edge) for edge in cell.ratio_interval or (cell.ratio, cell.ratio))
        interval = "" if low == high else f"{low} to {high}"
        return FigureText(value, f"{times(cell.ratio)}×", interval, is_open=is_open(cell))
    if figure.has_ratio or cell.difference is None or not math.isfinite(cell.difference):
        return FigureText(value)
    if cell.within_spread:
        return FigureText(value, "same", "within spread")
    difference = figure.difference_text(cell.value, cell.difference)
    return FigureText(value, difference, "no spread known" if cell.within_spread is None else "")


def setting_lines(rows: Iterable[SettingRow]) -> tuple[SettingLine, ...]:
    """Settings in words, without the facts of the machine."""
    return tuple(
        SettingLine(row.key, setting_title(row.key), row.texts if row.differs else _all_alike(row.texts))
        for row in rows
        if row.key not in FACTS
    )


def _all_alike(texts: tuple[str, ...]) -> tuple[str, ...]:
    """The only known value for every side; else the texts as they are."""
    known = {text for text in texts if text != NONE}
    return (*known,) * len(texts) if len(known) == 1 else texts


def environment_lines(sides: Sequence[Side]) -> tuple[SettingLine, ...]:
    """The machine and software of each side; the runs of a side may differ in some of it."""
    lines = []
    for key, title in FACTS.items():
        values = tuple(_distinct(_fact(run.environment, key) for run in side.runs) for side in sides)
        if any(value != NONE for value in values):
            # a run that has not begun has no machine yet
            lines.append(SettingLine(key, title, _all_alike(values)))
    return tuple(lines)


def _fact(environment: Environment | None, key: str) -> str:
    value = getattr(environment, key, None)
    if value is None:
        return NONE
    return memory_text(value) if key == "device_memory_mib" else str(value)


def _distinct(values: Iterable[str]) -> str:
    return " / ".join(dict.fromkeys(values))
