"""The report's words and tables as Markdown, as GitHub reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from engine.experiment.text import printable
from engine.export.content import Content
from engine.export.report.report import Report, omitted_words, report_of
from engine.export.report.tables import FigureText

_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~$&])")


def write_markdown(content: Content, path: Path) -> None:
    path.write_text(markdown(content), encoding="utf-8")


def markdown(content: Content) -> str:
    """The tables, settings and machine, to paste into an issue or a README."""
    return "\n".join(_lines(report_of(content))) + "\n"


def escaped(text: str) -> str:
    """Text that Markdown shows literally, on one line."""
    return _SPECIAL.sub(r"\\\1", printable(" ".join(text.split())))


def _lines(report: Report) -> Iterator[str]:
    yield f"## {escaped(report.title)}\n"
    yield f"{escaped(report.subject)}\n"
    for answer in report.answers:
        yield f"{escaped(answer.text)}\n"
    if report.omitted_sides:
        yield f"{omitted_words(report)}\n"
    if report.doubts:
        yield "With caution:\n"
        yield from (f"- {escaped(doubt)}" for doubt in report.doubts)
        yield ""
    titles = [side.title for side in report.sides]
    figures = [
        [f"{line.title}, {line.unit}" if line.unit else line.title, *map(_figure, line.cells)]
        for line in report.figures
    ]
    yield from table_lines(["Metric", *titles], figures, right=True)
    if report.differing:
        yield from table_lines(["Differs", *titles], [[one.title, *one.values] for one in report.differing])
    shared = [line for line in (*report.environment, *report.shared) if line.is_shared]
    yield from table_lines(["Shared", ""], [[line.title, line.values[0]] for line in shared])
    yield f"{escaped(report.made)}."


def _figure(cell: FigureText) -> str:
    interval = f" ({cell.interval})" if cell.interval else ""
    return f"{cell.value}, {cell.beside}{interval}" if cell.beside else cell.value


def table_lines(
    headings: Sequence[str], rows: Sequence[Sequence[str]], *, right: bool = False
) -> Iterator[str]:
    """A table, the columns after the first to the `right`; nothing without rows."""
    if not rows:
        return
    yield _row(headings)
    yield _row(["---", *(["---:" if right else "---"] * (len(headings) - 1))], escape=False)
    for row in rows:
        yield _row(row)
    yield ""


def _row(cells: Sequence[str], *, escape: bool = True) -> str:
    return f"| {' | '.join(map(escaped, cells) if escape else cells)} |"
