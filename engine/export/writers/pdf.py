"""A document as a PDF: A4, with selectable text, charts as lines, and embedded fonts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from engine import __version__
from engine.drawing.pdf import SCALE
from engine.export.document import Answer, Cell, Document, Section
from engine.export.writers.pdf_page import Pages, TableCell
from engine.export.writers.picture import panel
from resources.looks import LIGHT

_GAP = 18.0
_MOST_ROWS = 200
_LEAST_LETTERS, _MOST_LETTERS, _ROOM = 7, 32, 130
"""Letters that a column gets at the least and at the most, and that all columns of a table have."""

Lead = Callable[[Pages], None]


def write_pdf(document: Document, path: Path, lead: Lead | None = None) -> None:
    """Writes the document; `lead` draws what follows its answers. Letters that no font has become boxes."""
    pages = Pages(f"{document.made}.")
    pages.set_title(pages.letters.shown(document.title))
    pages.set_creator(f"Ammeter {__version__}")
    pages.set_lang("en")
    pages.set_creation_date(datetime.now(UTC))
    _head(pages, document)
    if lead is not None:
        lead(pages)
    for section in document.sections:
        _section(pages, section, min(document.most_rows, _MOST_ROWS))
    path.write_bytes(bytes(pages.output()))


def _head(pages: Pages, document: Document) -> None:
    if document.is_named or not document.answers:
        pages.paragraph(document.title, 11 if document.answers else 15, 600, LIGHT.text)
        pages.gap(2)
    pages.paragraph(document.subject, 9)
    pages.gap(6)
    for place, answer in enumerate(document.answers):
        _answer(pages, answer, 19 if place == 0 else 11)
    for text in (document.omitted, document.nothing):
        if text:
            pages.paragraph(text, 9.5)
    if document.warnings:
        pages.gap(8)
        pages.heading("With caution")
        for text in document.warnings:
            pages.paragraph(f"• {text}")
    pages.gap(16)


def _answer(pages: Pages, answer: Answer, size: float) -> None:
    pages.room(4 * size)
    pages.sentence(answer.pieces, size)
    for note in answer.notes:
        pages.gap(2)
        pages.paragraph(note, 9.5)
    pages.gap(6)


def _section(pages: Pages, section: Section, most_rows: int) -> None:
    half = (pages.epw - _GAP) / 2 / SCALE
    width = pages.epw / SCALE if len(section.pictures) == 1 else half
    drawings = [panel(part, width) for part in section.pictures]
    if drawings:
        pages.room(120 + max(drawing.height for drawing in drawings) * SCALE)
    if section.title:
        pages.heading(section.title)
    for text in section.sentences:
        pages.paragraph(text)
        pages.gap(3)
    for first in range(0, len(drawings), 2):
        pages.gap(2)
        pages.drawings(drawings[first : first + 2], _GAP)
    if not (section.is_drawn and drawings):
        _tables(pages, section, most_rows)
    _pairs(pages, section.pairs)
    for text in section.notes:
        pages.gap(2)
        pages.paragraph(text, 8.5)
    pages.gap(14)


def _tables(pages: Pages, section: Section, most_rows: int) -> None:
    """The table, in as many as its columns need, each with the first column."""
    rows, left_out = section.first_rows(most_rows)
    weights = [_letters(section, rows, column) for column in range(len(section.headings))]
    for place, columns in enumerate(_columns(weights) if rows else ()):
        if place:
            pages.gap(10)
        pages.rows(
            [section.headings[column] for column in columns],
            [[_cell(row[column]) for column in columns] for row in rows],
            [weights[column] for column in columns],
            ["RIGHT" if section.headings[column] in section.right else "LEFT" for column in columns],
        )
    if left_out:
        pages.gap(2)
        pages.paragraph(f"{left_out:,} more rows are in the JSON and CSV exports.", 8.5)


def _letters(section: Section, rows: Sequence[Sequence[Cell]], column: int) -> int:
    texts = [_cell(row[column]) for row in rows]
    longest = max(max(len(cell.text), len(cell.small)) for cell in texts)
    return min(_MOST_LETTERS, max(_LEAST_LETTERS, len(section.headings[column]), longest))


def _columns(weights: Sequence[int]) -> Iterator[list[int]]:
    """The columns of each table, split evenly."""
    others = len(weights) - 1
    tables = max(1, -(-sum(weights[1:]) // (_ROOM - weights[0])))
    ends = [round(others * table / tables) for table in range(tables + 1)]
    for first, end in pairwise(ends):
        yield [0, *range(1 + first, 1 + end)]


def _cell(cell: Cell) -> TableCell:
    if isinstance(cell, str):
        return TableCell(cell)
    return TableCell(f"{cell.value}   {cell.beside}" if cell.beside else cell.value, small=cell.interval)


def _pairs(pages: Pages, pairs: Sequence[tuple[str, str]]) -> None:
    """Names and values, two pairs to a row."""
    if not pairs:
        return
    cells = [TableCell(text) for pair in pairs for text in pair]
    cells += [TableCell("")] * (-len(cells) % 4)
    rows = [cells[first : first + 4] for first in range(0, len(cells), 4)]
    pages.rows(["Name", "Value", "Name", "Value"], rows, [1.1, 0.9, 1.1, 0.9], ["LEFT"] * 4)
