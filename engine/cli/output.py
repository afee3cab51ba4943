"""What the verbs print: one JSON object, or text and tables on stdout; problems and progress on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from engine.problem import Problem
from engine.text import printable

_WIDTH_WITHOUT_TERMINAL = 160


def json_object(value: dict[str, Any]) -> None:
    """The one object of `--json`. `value` holds no NaN and no infinity: they travel as text."""
    sys.stdout.write(json.dumps(value, allow_nan=False) + "\n")
    sys.stdout.flush()


def error(problem: Problem, as_json: bool, **beside: Any) -> None:
    """A problem: as JSON on stdout, with what is to stand `beside` it, or as two lines on stderr."""
    if as_json:
        json_object({"error": problem.model_dump(mode="json"), **beside})
    else:
        console = _console(sys.stderr)
        console.print(f"ammeter: {printable(problem.message)}", soft_wrap=True)
        console.print(f"         {printable(problem.remedy)}", soft_wrap=True)


def line(text: str = "") -> None:
    _console(sys.stdout).print(printable(text), soft_wrap=True)


def warning(text: str) -> None:
    """A remark on stderr that is told to scripts too."""
    _console(sys.stderr).print(f"ammeter: {printable(text)}", soft_wrap=True)


def aside(text: str) -> None:
    """A remark on stderr, for a person only."""
    if sys.stderr.isatty():
        _console(sys.stderr).print(printable(text), soft_wrap=True)


def pairs(rows: Iterable[tuple[str, str]]) -> None:
    """Names and values, one pair a line."""
    table = Table.grid(padding=(0, 2))
    for name, value in rows:
        table.add_row(printable(name), printable(value))
    _draw(table)


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[str] = ()) -> None:
    """A table; the columns named in `right` are numbers, aligned to the right."""
    drawn = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in headings:
        drawn.add_column(printable(heading), justify="right" if heading in right else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*map(printable, row))
    _draw(drawn)


def progress_console() -> Console:
    return _console(sys.stderr)


def _draw(drawn: Table) -> None:
    console = _console(sys.stdout)
    with console.capture() as captured:
        console.print(drawn)
    # rich fills every line to the table's width, which is noise in a file
    sys.stdout.writelines(f"{row.rstrip()}\n" for row in captured.get().splitlines())


def _console(stream: Any) -> Console:
    width = None if stream.isatty() else _WIDTH_WITHOUT_TERMINAL
    return Console(file=stream, markup=False, highlight=False, emoji=False, width=width)
