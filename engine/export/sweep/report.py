"""The report of a sweep as a self-contained web page, and its cells in Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from engine import __version__
from engine.experiment.experiment import Experiment
from engine.experiment.sweep.grid import Grid
from engine.export.report.markdown import escaped, table_lines
from engine.export.sections.page import PAGE_WIDTH, page_figure, sections_page
from engine.export.sections.section import Section, first_rows
from engine.export.sweep.pictures import HEAT_MAP, LINES, SCATTER, drawings, subject
from engine.store.saved.sweeps import SweepRecord
from engine.sweep.answers import answers
from engine.sweep.columns import columns_of, notes_of
from engine.sweep.reading import results_of
from engine.sweep.results import Results

_MOST_ROWS = 1_000
_TITLES = {HEAT_MAP: "Heat map", LINES: "Lines", SCATTER: "Trade-offs"}


def write_html(record: SweepRecord, path: Path) -> None:
    """Writes the page."""
    path.write_text(page(record), encoding="utf-8")


def page(record: SweepRecord) -> str:
    """The page as text."""
    results = results_of(record)
    drawn = drawings(results, PAGE_WIDTH)
    figures = {_TITLES[name]: [page_figure(drawing)] for name, drawing in drawn.items()}
    return sections_page(
        record,
        record.name,
        _experiments(record.grid),
        [
            Section("Result", answers(results)),
            *(Section(title, ()) for title in figures),
            cells_section(results, _MOST_ROWS),
        ],
        figures,
        noun="sweep",
        warnings=() if record.problem is None else (record.problem.message,),
    )


def cells_section(results: Results, most_rows: int | None = None) -> Section:
    """The cells as a table, the first `most_rows` of them."""
    columns = columns_of(results)
    rows = [tuple(column.text(cell) for column in columns) for cell in results.cells]
    kept, left_out = first_rows(rows, most_rows)
    right = tuple(column.heading for column in columns if column.is_number)
    headings = tuple(column.heading for column in columns)
    return Section("Cells", (), headings, kept, right, left_out, notes_of(results))


def write_markdown(record: SweepRecord, path: Path) -> None:
    """Writes the sentences and the table, to paste into an issue or a README."""
    path.write_text("\n".join(_lines(record)) + "\n", encoding="utf-8")


def _lines(record: SweepRecord) -> Iterator[str]:
    results = results_of(record)
    yield f"## {escaped(record.name)}\n"
    yield f"{escaped(subject(record))}\n"
    for sentence in answers(results):
        yield f"{escaped(sentence)}\n"
    section = cells_section(results)
    yield from table_lines(section.headings, section.rows)
    for note in section.notes:
        yield f"{escaped(note)}\n"
    yield f"{escaped(f'Made by Ammeter {__version__} from sweep {record.id}')}."


def _experiments(grid: Grid) -> list[Experiment]:
    """Cells that have all values of all axes between them, one axis after the other."""
    cells = {0: grid.cells[0]}
    for axis, values in enumerate(grid.axes):
        for place in range(len(values.values)):
            places = [place if other == axis else 0 for other in range(len(grid.axes))]
            cells[grid.index(places)] = grid.cells[grid.index(places)]
    return [cell.experiment for cell in cells.values()]
