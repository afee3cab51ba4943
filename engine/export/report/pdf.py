"""The report as a PDF: A4, with selectable text, charts as lines, embedded fonts, and the race's card.

The card's words and figures are text; only its pictures are bitmaps.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from fpdf import FPDF

from engine.compare.sides import Side
from engine.drawing.bitmap import Painter
from engine.drawing.blocks import Blocks
from engine.drawing.pdf import SCALE, draw
from engine.drawing.shapes import Drawing
from engine.export.content import Content
from engine.export.pictures.charts import Charts
from engine.export.pictures.race import race_source_if_any
from engine.export.pictures.sheet import panel
from engine.export.report.pdf_page import Pages, TableCell
from engine.export.report.report import Answer, Report, omitted_words, report_of
from engine.export.report.tables import FigureLine
from engine.export.timing.tables import BAR, answers
from engine.protocol.timing.timing import Timing
from engine.race.card import Card, page_card
from engine.race.parts import WIDE
from engine.timing.bar_picture import bars_drawing
from resources.looks import LIGHT

_FINER = 2.5
"""Pixels of the pictures per pixel of the drawing."""

_QUALITY = 85


def race_height(pdf: FPDF, card: Card) -> float:
    """The height of the card at the full width of the page, in points."""
    return float(card.height * pdf.epw / card.sizes.width)


def draw_race(pdf: FPDF, card: Card) -> None:
    """Draws the card at the end of the race, over the page's full width, at the current position."""
    left, top, scale = pdf.l_margin, pdf.get_y(), pdf.epw / card.sizes.width
    draw(pdf, card.drawing(card.scene.end), LIGHT, (left, top), scale)
    for blocks in card.blocks(card.scene.end):
        grid = blocks.grid
        corner = (left + blocks.x * scale, top + blocks.y * scale)
        pdf.image(_bitmap(blocks, card.ground), *corner, grid.width * scale, grid.height * scale)
    pdf.set_xy(left, top + race_height(pdf, card))


def _bitmap(blocks: Blocks, ground: str) -> io.BytesIO:
    """The lane as a JPEG on the colour of the page."""
    painter = Painter.blank(Drawing(blocks.grid.width, blocks.grid.height, ()), ground, LIGHT, _FINER)
    painter.paint_blocks(replace(blocks, x=0.0, y=0.0))
    packed = io.BytesIO()
    painter.image.save(packed, "JPEG", quality=_QUALITY, subsampling=0)
    packed.seek(0)
    return packed


_GAP = 18.0
_MOST_COLUMNS = 4


def write_pdf(content: Content, path: Path) -> None:
    """Writes the report in the order of the web page; letters that no font has become boxes."""
    report, charts = report_of(content), Charts(content)
    pages = Pages(report.made)
    pages.set_title(pages.letters.shown(report.title))
    pages.set_creator(f"Ammeter {content.version}")
    pages.set_lang("en")
    pages.set_creation_date(content.created)
    _answers(pages, report)
    _race(pages, content, report)
    _figures(pages, report)
    if content.timing is not None:
        _timing(pages, content.timing)
    _charts(pages, charts)
    _settings(pages, report)
    _method(pages, report)
    _runs(pages, report)
    path.write_bytes(bytes(pages.output()))


def _answers(pages: Pages, report: Report) -> None:
    if report.is_named:
        pages.paragraph(report.title, 11, 600, LIGHT.text)
        pages.gap(2)
    pages.paragraph(report.subject, 9)
    pages.gap(6)
    for place, answer in enumerate(report.answers):
        _answer(pages, answer, 19 if place == 0 else 11)
    if report.omitted_sides:
        pages.paragraph(omitted_words(report), 9.5)
    if report.doubts:
        pages.gap(8)
        pages.heading("With caution")
        for doubt in report.doubts:
            pages.paragraph(f"• {doubt}")
    pages.gap(16)


def _answer(pages: Pages, answer: Answer, size: float) -> None:
    pages.room(4 * size)
    pages.sentence(answer.pieces, size)
    for note in answer.notes:
        pages.gap(2)
        pages.paragraph(note, 9.5)
    pages.gap(6)


def _race(pages: Pages, content: Content, report: Report) -> None:
    source = race_source_if_any(content, report)
    if source is None:
        return
    scene = source.scene
    card = page_card(scene, WIDE)
    pages.room(80 + race_height(pages, card))
    pages.heading(scene.title)
    pages.paragraph(scene.sentence)
    pages.gap(10)
    draw_race(pages, card)
    pages.gap(18)


def _timing(pages: Pages, timing: Timing) -> None:
    drawing = bars_drawing(timing, pages.epw / SCALE)
    pages.room(120 + drawing.height * SCALE)
    pages.heading(BAR)
    for text in answers(timing):
        pages.paragraph(text)
    pages.gap(8)
    pages.drawings([drawing], _GAP)
    pages.gap(18)


def _figures(pages: Pages, report: Report) -> None:
    against = f", with ratios to {report.baseline.title}" if len(report.sides) > 1 else ""
    for columns in _columns(report.sides) if report.figures else ():
        titles = [side.title for side in report.sides[columns]]
        pages.heading(f"Figures{against}")
        pages.rows(
            ["Metric", *titles],
            [[TableCell(_metric(line)), *_cells(line, columns)] for line in report.figures],
            [1.3, *[1.0] * len(titles)],
            ["LEFT", *["RIGHT"] * len(titles)],
        )
        pages.gap(14)


def _columns(sides: Sequence[Side]) -> list[slice]:
    """The sides of each table, split evenly."""
    tables = -(-len(sides) // _MOST_COLUMNS)
    ends = [round(len(sides) * table / tables) for table in range(tables + 1)]
    return [slice(first, end) for first, end in pairwise(ends)]


def _metric(line: FigureLine) -> str:
    return f"{line.title}, {line.unit}" if line.unit else line.title


def _cells(line: FigureLine, columns: slice) -> list[TableCell]:
    return [
        TableCell(f"{cell.value}   {cell.beside}" if cell.beside else cell.value, small=cell.interval)
        for cell in line.cells[columns]
    ]


def _charts(pages: Pages, charts: Charts) -> None:
    half = (pages.epw - _GAP) / 2 / SCALE
    pairs = (
        (charts.chart("throughput"), charts.chart("memory")),
        (charts.chart("loss", "step"), charts.chart("loss", "seconds")),
        (charts.chart("accuracy", "step"), charts.chart("accuracy", "seconds")),
    )
    for pair in pairs:
        drawings = [panel(chart, charts, half) for chart in pair if chart is not None]
        if drawings:
            _pair(pages, drawings)


def _pair(pages: Pages, drawings: Sequence[Drawing]) -> None:
    pages.drawings(drawings, _GAP)
    pages.gap(16)


def _settings(pages: Pages, report: Report) -> None:
    for columns in _columns(report.sides) if report.differing else ():
        titles = [side.title for side in report.sides[columns]]
        pages.heading("What differs")
        pages.rows(
            ["Setting", *titles],
            [[TableCell(line.title), *map(TableCell, line.values[columns])] for line in report.differing],
            [1.3, *[1.0] * len(titles)],
            ["LEFT"] * (1 + len(titles)),
        )
        pages.gap(14)
    if report.shared:
        pages.heading("Settings that all share" if report.differing else "Settings")
        _pairs(pages, [(line.title, line.values[0]) for line in report.shared])


def _pairs(pages: Pages, pairs: Iterable[tuple[str, str]]) -> None:
    """Names and values, two pairs to a row."""
    cells = [TableCell(text) for pair in pairs for text in pair]
    cells += [TableCell("")] * (-len(cells) % 4)
    rows = [cells[first : first + 4] for first in range(0, len(cells), 4)]
    pages.rows(["Name", "Value", "Name", "Value"], rows, [1.1, 0.9, 1.1, 0.9], ["LEFT"] * 4)
    pages.gap(14)


def _method(pages: Pages, report: Report) -> None:
    machine = [(line.title, line.values[0]) for line in report.environment if line.is_shared]
    if machine:
        pages.heading("Environment")
        _pairs(pages, machine)
    pages.heading("How it was measured")
    for sentence in report.method:
        pages.paragraph(sentence)
        pages.gap(3)
    pages.gap(11)


def _runs(pages: Pages, report: Report) -> None:
    pages.heading("Runs")
    pages.rows(
        ["Run", "Side", "Seed", "Status", "Started", "Id"],
        [
            [TableCell(text) for text in (run.name, run.side, run.seed, run.status, run.when, run.id)]
            for run in report.runs
        ],
        [1.6, 1.4, 0.5, 0.8, 1.1, 0.9],
        ["LEFT"] * 6,
    )
