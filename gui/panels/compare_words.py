"""The verdict on a side in the pieces of a headline, of which some are said louder than others. No Qt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.records.cells import Cell
from engine.records.comparison import Comparison, SideReport
from engine.records.sides import Side
from engine.records.words import times
from gui.numbers import number

_PERCENT = "\N{NO-BREAK SPACE}%"


@dataclass(frozen=True)
class Piece:
    """A `side` in its precision's colour, a `fact`, a `join`ing word, or an `aside` in small grey."""

    text: str
    role: Literal["side", "fact", "join", "aside"]
    side: Side | None = None


Pieces = tuple[Piece, ...]


def headline_lines(comparison: Comparison, report: SideReport) -> tuple[Pieces, ...]:
    """The verdict in one or two lines; empty where the speeds cannot be compared."""
    cells, base = comparison.cells(report.side.id), comparison.cells(comparison.baseline.id)
    speed = cells["samples_per_second"]
    if speed.ratio is None:
        return ()
    first = (
        *_title(report.side),
        Piece(" trained ", "join"),
        Piece(times(speed.ratio), "fact"),
        Piece(" times as fast as ", "join"),
        *_title(comparison.baseline),
        Piece(f"  ({_certainty(speed, base['samples_per_second'])})", "aside"),
    )
    memory, quality = _memory(cells["peak_memory"]), _quality(cells, base)
    if memory and quality:
        return first, (*memory, Piece(", ", "join"), *quality)
    second = memory or quality
    return (first, second) if second else (first,)


def small_print(report: SideReport) -> str:
    """Why AMP gained little, where the run itself shows a likely reason; "" elsewhere."""
    reason, sentence = report.verdict.reason, report.verdict.sentence
    if reason is None:
        return ""
    told = sentence.find(f"likely since {reason}")
    return sentence[sentence.rfind(". ", 0, told) + 2 :]


def plain(pieces: Pieces) -> str:
    """The pieces as one text."""
    return "".join(piece.text for piece in pieces)


def _title(side: Side) -> Pieces:
    precision, _comma, rest = side.title.partition(", ")
    found = (Piece(precision, "side", side),)
    return (*found, Piece(f" ({rest})", "join")) if rest else found


def _certainty(speed: Cell, base: Cell) -> str:
    if speed.ratio_interval is not None:
        low, high = speed.ratio_interval
        unclear = ", so no difference is shown" if low <= 1.0 <= high else ""
        return f"95{_PERCENT} interval {times(low)} to {times(high)}{unclear}"
    is_alone = max(sum(value is not None for value in cell.values) for cell in (speed, base)) == 1
    return "one run each, so no interval" if is_alone else "too few repeats for an interval"


def _memory(cell: Cell) -> Pieces:
    if cell.ratio is None:
        return ()
    return Piece("in ", "join"), Piece(f"{100 * cell.ratio:.0f}{_PERCENT} of the memory", "fact")


def _quality(cells: dict[str, Cell], base: dict[str, Cell]) -> Pieces:
    for name, words, digits, unit in (
        ("accuracy", "accuracy", 1, _PERCENT),
        ("final_train_loss", "training loss", 3, ""),
    ):
        mine, theirs = cells[name], base[name]
        if mine.value is None or theirs.value is None:
            continue
        both = f"{number(mine.value, digits)}{unit} against {number(theirs.value, digits)}{unit}"
        if mine.within_spread:
            return Piece(f"same {words}", "join"), Piece(f"  ({both}, within spread)", "aside")
        spread = "no spread known" if mine.within_spread is None else "more apart than repeats are"
        return Piece(f"{words} {both}", "join"), Piece(f"  ({spread})", "aside")
    return ()
