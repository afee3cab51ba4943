"""The report of a tuning as a self-contained web page, and its tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from engine import __version__
from engine.export.report.markdown import escaped, table_lines
from engine.export.sections.page import PAGE_WIDTH, page_figure, sections_page
from engine.export.tuning.tables import AGAIN, GAINS, sections
from engine.protocol.tuning import Tuning
from engine.store.saved.study import Study
from engine.sweep.fastest.waterfall import waterfall_drawing
from engine.sweep.fastest.words import title_of


def write_html(study: Study[Tuning], path: Path) -> None:
    """Writes the page."""
    path.write_text(page(study), encoding="utf-8")


def page(study: Study[Tuning]) -> str:
    """The page as text."""
    tuning = study.answer
    drawn = {GAINS: [page_figure(waterfall_drawing(tuning, PAGE_WIDTH))]} if tuning.gains else {}
    first, *others = sections(tuning)
    return sections_page(
        study,
        title_of(tuning),
        [experiment for experiment in (tuning.experiment, tuning.winner) if experiment is not None],
        [replace(first, title="Result"), *others],
        drawn,
        noun="tuning",
        warnings=() if study.problem is None else (study.problem.message,),
    )


def write_markdown(study: Study[Tuning], path: Path) -> None:
    """Writes the sentences and tables, to paste into an issue or a README."""
    path.write_text("\n".join(_lines(study)) + "\n", encoding="utf-8")


def _lines(study: Study[Tuning]) -> Iterator[str]:
    for section in sections(study.answer):
        yield f"## {escaped(section.title)}\n"
        is_command = section.title == AGAIN
        for sentence in section.sentences:
            yield f"```\n{sentence}\n```\n" if is_command else f"{escaped(sentence)}\n"
        if section.rows:
            yield from table_lines(section.headings, section.rows)
            yield ""
    yield f"{escaped(f'Made by Ammeter {__version__} on {study.device_name}')}."
