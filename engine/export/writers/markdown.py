"""A document's words and tables as Markdown, as GitHub reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from engine.experiment.value import printable
from engine.export.document import Cell, Document, Section

_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~$&])")


def write_markdown(document: Document, path: Path) -> None:
    """Writes the sentences and tables, to paste into an issue or a README."""
    path.write_text(markdown(document), encoding="utf-8")


def escaped(text: str) -> str:
    """Text that Markdown shows literally, on one line."""
    return _SPECIAL.sub(r"\\\1", printable(" ".join(text.split())))


def markdown(document: Document) -> str:
    """The sentences and tables, settings and machine."""
    return "\n".join(_lines(document)) + "\n"


def _lines(document: Document) -> Iterator[str]:
    yield f"## {escaped(document.title)}\n"
    answers = (answer.text for answer in document.answers)
    for text in (document.subject, *answers, document.omitted, document.nothing):
        if text:
            yield f"{escaped(text)}\n"
    if document.warnings:
        yield "With caution:\n"
        yield from (f"- {escaped(text)}" for text in document.warnings)
        yield ""
    for section in document.sections:
        if section.part != "appendix" and (section.sentences or section.rows or section.pairs):
            yield from _section(section)
    yield f"{escaped(document.made)}."


def _section(section: Section) -> Iterator[str]:
    yield f"### {escaped(section.title)}\n"
    for text in section.sentences:
        yield f"```\n{text}\n```\n" if section.is_code else f"{escaped(text)}\n"
    yield from table_lines(section.headings, section.rows, section.right)
    yield from table_lines(("Name", "Value"), section.pairs)
    for text in section.notes:
        yield f"{escaped(text)}\n"


def table_lines(
    headings: Sequence[str], rows: Sequence[Sequence[Cell]], right: Sequence[str] = ()
) -> Iterator[str]:
    """A table, the columns named in `right` to the right; nothing without rows."""
    if not rows:
        return
    yield _row(headings)
    yield f"| {' | '.join('---:' if heading in right else '---' for heading in headings)} |"
    yield from map(_row, rows)
    yield ""


def _row(cells: Sequence[Cell]) -> str:
    return f"| {' | '.join(escaped(_text(cell)) for cell in cells)} |"


def _text(cell: Cell) -> str:
    if isinstance(cell, str):
        return cell
    interval = f" ({cell.interval})" if cell.interval else ""
    return f"{cell.value}, {cell.beside}{interval}" if cell.beside else cell.value
