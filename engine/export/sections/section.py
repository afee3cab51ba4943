"""A section: sentences, and a table of what matters most."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.protocol.numerics.advice import Advice
from engine.words.numbers import NONE

Cells = tuple[str, ...]


@dataclass(frozen=True)
class Section:
    """A part of an answer; the columns named in `right` hold numbers. `left_out` counts further rows."""

    title: str
    sentences: tuple[str, ...]
    headings: Cells = ()
    rows: tuple[Cells, ...] = ()
    right: Cells = ()
    left_out: int = 0
    notes: tuple[str, ...] = ()


def first_rows(rows: Sequence[Cells], most: int | None) -> tuple[tuple[Cells, ...], int]:
    """At most so many rows, all without a limit, and how many are left out."""
    kept = tuple(rows if most is None else rows[:most])
    return kept, len(rows) - len(kept)


ADVICE = ("Advice", "Evidence", "Try")


def advice_cells(item: Advice) -> Cells:
    """A row under the headings `ADVICE`."""
    return item.message, item.evidence, _settings(item.changes)


def _settings(changes: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{key}={value}" for key, value in changes) or NONE
