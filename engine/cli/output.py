"""Prints the commands' results: runs and comparisons, as text and tables or as a JSON object.

Results go to stdout, as do problems with `--json`. Remarks and progress go to stderr. Metrics that do not
apply to a run are skipped.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table

from engine.compare.details import details_of
from engine.compare.evidence import was_slowed_down
from engine.compare.failure import Failure
from engine.compare.metrics import shown_metrics
from engine.experiment.experiment import all_settings
from engine.experiment.problem import Kind, Problem
from engine.experiment.value import printable
from engine.export.document import Document, Section
from engine.export.writers.text import cell_words
from engine.store.record import RunRecord, Status
from engine.words.names import subject_words
from engine.words.numbers import counted

_WIDTH_WITHOUT_TERMINAL = 160
_MOST_DETAILS = 20


def json_object(value: dict[str, Any]) -> None:
    """Print `value` as the single object of `--json`. NaN and infinity must already be text."""
    sys.stdout.write(json.dumps(value, allow_nan=False) + "\n")
    sys.stdout.flush()


def json_object_of(name: str, entries: Iterable[dict[str, Any]], rest: Callable[[], dict[str, Any]]) -> None:
    """Print the single object of `--json` without keeping it in memory.

    It starts with the list `entries` under the key `name`. The result of `rest` follows.
    """
    sys.stdout.write(f'{{"{name}": [')
    for place, entry in enumerate(entries):
        sys.stdout.write((", " if place else "") + json.dumps(entry, allow_nan=False))
    sys.stdout.write(f"], {json.dumps(rest(), allow_nan=False)[1:]}\n")
    sys.stdout.flush()


def outcome(as_json: bool, value: dict[str, Any], *lines: str) -> None:
    """Print the result of a command: `value` as the single object of `--json`, or else as lines of text."""
    if as_json:
        json_object(value)
    else:
        for text in lines:
            line(text)


def error(problem: Problem, as_json: bool, **values: Any) -> None:
    """Print a problem: on stdout as JSON, together with `values`, or on stderr as two lines."""
    if as_json:
        json_object({"error": problem.model_dump(mode="json"), **values})
    else:
        console = _console(sys.stderr)
        key = problem.key or ""
        # settings are set by their keys, but a script's by options, which the message names
        is_shown = key in all_settings() and not key.startswith("command.")
        console.print(f"ammeter: {printable(problem.message)}{f' ({key})' * is_shown}", soft_wrap=True)
        console.print(f"         {printable(problem.remedy)}", soft_wrap=True)


def failure(failed: Failure) -> None:
    """Print why a run failed, the remedies, and the last output of a process that died, on stderr."""
    console, (title, *others) = _console(sys.stderr), failed.lines()
    console.print(f"ammeter: {printable(title)}", soft_wrap=True)
    for text in others:
        console.print(f"         {printable(text)}", soft_wrap=True)
    if failed.problem.kind is Kind.WORKER_DIED:
        # what the problem calls the details below
        for text in failed.detail.splitlines()[-_MOST_DETAILS:]:
            console.print(f"         | {printable(text)}", soft_wrap=True)


def line(text: str = "") -> None:
    """Print a line on stdout."""
    _console(sys.stdout).print(printable(text), soft_wrap=True)


def source(text: str) -> None:
    """Print the text of a program, with its tabs."""
    sys.stdout.write(f"{printable(text).rstrip()}\n")


def warning(text: str) -> None:
    """Print a remark on stderr, for people and scripts."""
    _console(sys.stderr).print(f"ammeter: {printable(text)}", soft_wrap=True)


def aside(text: str) -> None:
    """Print a remark on stderr, for people: only on a terminal."""
    if sys.stderr.isatty():
        _console(sys.stderr).print(printable(text), soft_wrap=True)


def pairs(rows: Iterable[tuple[str, str]]) -> None:
    """Print names and values, one pair per line."""
    table = Table.grid(padding=(0, 2))
    for name, value in rows:
        table.add_row(printable(name), printable(value))
    _draw(table)


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[str] = ()) -> None:
    """Print a table. The columns in `right` are aligned to the right."""
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in headings:
        grid.add_column(printable(heading), justify="right" if heading in right else "left", overflow="fold")
    for row in rows:
        grid.add_row(*map(printable, row))
    _draw(grid)


def long_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a part of a table of thousands of rows, without folding, which takes a millisecond per row."""
    cells = [headings, *(tuple(map(printable, row)) for row in rows)]
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        padded = (set_cell_size(cell, width) for cell, width in zip(row, widths, strict=True))
        sys.stdout.write("  ".join(padded).rstrip() + "\n")


def document(shown: Document, most_rows: int = 1_000_000) -> None:
    """Print a document: title, answers and sections, without its setup."""
    line(shown.title)
    for answer in shown.answers:
        line(answer.text)
    for text in shown.warnings:
        line(f"Caution: {text}")
    line()
    sections((section for section in shown.sections if section.part == "answer"), most_rows)


def sections(shown: Iterable[Section], most_rows: int = 1_000_000) -> None:
    """Print sections: sentences, and tables of at most `most_rows` rows. Charts alone are skipped."""
    written = (section for section in shown if section.sentences or section.rows or section.notes)
    for place, section in enumerate(written):
        if place:
            line()
        line(section.title)
        for sentence in section.sentences:
            line(sentence)
        if section.pairs:
            pairs(section.pairs)
        rows, more = section.first_rows(most_rows)
        if rows:
            table(section.headings, [list(map(cell_words, row)) for row in rows], section.right)
        if more:
            line(f"{counted(more, 'more row')}. --json prints all.")
        for note in section.notes:
            line(note)


def when(moment: datetime) -> str:
    """Format a time for a list, in local time."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M")


def progress_console() -> Console:
    """Return the console of progress lines, on stderr."""
    return _console(sys.stderr)


def _draw(grid: Table) -> None:
    console = _console(sys.stdout)
    with console.capture() as captured:
        console.print(grid)
    # rich pads every line to the table's width, which is noise in a file
    sys.stdout.writelines(f"{row.rstrip()}\n" for row in captured.get().splitlines())


def _console(stream: Any) -> Console:
    width = None if stream.isatty() else _WIDTH_WITHOUT_TERMINAL
    return Console(file=stream, markup=False, highlight=False, emoji=False, width=width)


def title(run: RunRecord) -> str:
    """Return the model, its data and the precision as text, or the name of a script's side."""
    experiment = run.experiment
    return run.side if experiment.is_script else f"{subject_words(experiment)}, {experiment.precision.label}"


def run_outcome(run: RunRecord) -> str:
    """Return the throughput and the accuracy of a run in short, or else its status."""
    if run.machine and run.status is Status.RUNNING:
        return f"training on {run.machine}"
    found = [figure for figure in shown_metrics([run]) if figure.name in ("samples_per_second", "accuracy")]
    known = [(figure, value) for figure in found if (value := figure.value(run)) is not None]
    text = ", ".join(figure.text_with_unit(value) for figure, value in known)
    return f"{text}, unreliable" if text and was_slowed_down(run.summary) else text or run.status.value


def run_summary(run: RunRecord) -> None:
    """Print the metrics of a run in groups, and its id."""
    line(f"{run.name}: {title(run)}{f' on {run.machine}' if run.machine else ''}")
    groups = details_of(run)
    for heading, rows in groups:
        if heading:
            line(f"\n{heading}")
        pairs(rows)
    if len(groups) > 1:
        line()
    line(f"{run.status.value.capitalize()}. Saved as {run.id}.")
