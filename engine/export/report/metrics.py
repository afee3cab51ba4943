"""The metrics of a comparison as tables: one column per side, or for three and more sides a ranking."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from engine.compare.comparison import Comparison, SideReport
from engine.compare.metrics import ACCURACY, ENERGY, LOSS, PEAK_MEMORY, SPEED, Metric, MetricCell, MetricRow
from engine.compare.ranking import MANY, RankedSide, learning_words, ranking
from engine.compare.verdict import is_inconclusive
from engine.export.document import MetricText, Section
from engine.words.numbers import NONE, times

_RANKED = (SPEED, PEAK_MEMORY, LOSS, ACCURACY, ENERGY)
_NOT_RANKED = "not ranked"
_Row = tuple[str | MetricText, ...]


def metric_text(metric: Metric, cell: MetricCell, report: SideReport) -> MetricText:
    """Return a metric as text, with its ratio or else its difference ("same" within the variation of runs).

    The ratio is marked if it is not meaningful according to the side's `report`.
    """
    value = cell.text or metric.text(cell.value)
    if report.is_baseline or cell.value is None:
        return MetricText(value)
    if cell.ratio is not None:
        if caution := report.caution(metric):
            return MetricText(value, f"{times(cell.ratio)}×", caution, is_sound=False)
        low, high = (times(edge) for edge in cell.ratio_interval or (cell.ratio, cell.ratio))
        interval = "" if low == high else f"{low} to {high}"
        return MetricText(value, f"{times(cell.ratio)}×", interval, is_inconclusive=is_inconclusive(cell))
    if metric.has_ratio or cell.difference is None or not math.isfinite(cell.difference):
        return MetricText(value)
    if cell.within_spread:
        return MetricText(value, "same", "within variation")
    difference = metric.difference_text(cell.value, cell.difference)
    return MetricText(value, difference, "variation unknown" if cell.within_spread is None else "")


def speed_note(row: MetricRow) -> str:
    """Return a note on the source of the throughput's intervals, or "" if it has no interval."""
    kinds = {cell.interval_kind for cell in row.cells if cell.interval is not None}
    if len(kinds) == 1:
        return "95% interval over repeats" if "repeats" in kinds else "95% interval within the run"
    return "95% interval over repeats or within a run" if kinds else ""


@dataclass(frozen=True)
class RankingColumn:
    """A column of a ranking: its key, its title and unit, and a text for each row."""

    key: str
    title: str
    unit: str
    texts: tuple[MetricText, ...]


def ranking_columns(comparison: Comparison, rows: Sequence[RankedSide]) -> tuple[RankingColumn, ...]:
    """Return the columns of the ranking's rows, without metrics that no side has."""
    metrics = {row.metric.name: row.metric for row in comparison.metrics}

    def column(metric: Metric, title: str = "") -> RankingColumn:
        texts = tuple(_ranked_text(metric, row) for row in rows)
        return RankingColumn(metric.name, title or metric.title, metric.unit, texts)

    speed, *others = (metrics[metric.name] for metric in _RANKED if metric.name in metrics)
    ratios = tuple(map(_speed_ratio, rows))
    to_baseline = RankingColumn("ratio", f"To {comparison.baseline.title}", "", ratios)
    titles = {LOSS.name: "Final loss"}
    more = (column(metric, titles.get(metric.name, "")) for metric in others)
    columns = (column(speed), to_baseline, *more)
    return tuple(each for each in columns if any(text.value not in ("", NONE) for text in each.texts))


def _ranked_text(metric: Metric, row: RankedSide) -> MetricText:
    cell = row.cells[metric.name]
    value = metric.text(cell.value)
    if cell.value is None:
        return MetricText(value)
    if metric.name == SPEED.name:
        return MetricText(value, _half_width(cell, value))
    text = metric_text(metric, cell, row.report)
    if metric.name not in (LOSS.name, ACCURACY.name):
        return MetricText(value, text.relation)
    words = "" if row.report.is_baseline else learning_words(metric, cell)
    if metric.name == ACCURACY.name:
        return MetricText(value, "" if words == "same" else words)
    if row.report.is_baseline or cell.difference is None or not math.isfinite(cell.difference):
        return MetricText(value)
    return MetricText(metric.difference_text(cell.value, cell.difference), words)


def _half_width(cell: MetricCell, value: str) -> str:
    low, high = cell.interval or (0.0, 0.0)
    text = f"{(high - low) / 2:,.{len(value.partition('.')[2])}f}"
    return f"±{text}" if text.strip("0.") else ""


def _speed_ratio(row: RankedSide) -> MetricText:
    cell = row.cells[SPEED.name]
    if row.report.is_baseline or cell.ratio is None:
        return MetricText("")
    text = metric_text(SPEED, cell, row.report)
    words = text.interval if row.place is not None else _NOT_RANKED
    return MetricText(text.relation, words, is_sound=text.is_sound, is_inconclusive=text.is_inconclusive)


def further_columns(comparison: Comparison, rows: Sequence[RankedSide]) -> tuple[RankingColumn, ...]:
    """Return the metrics that the ranking does not show, without metrics that no side has."""
    ranked = {metric.name for metric in _RANKED}
    columns = []
    for metric in (row.metric for row in (*comparison.metrics, *comparison.observed)):
        cells = [row.cells[metric.name] for row in rows]
        if metric.name not in ranked and any(cell.text or cell.value is not None for cell in cells):
            pairs = zip(rows, cells, strict=True)
            texts = tuple(metric_text(metric, cell, row.report) for row, cell in pairs)
            columns.append(RankingColumn(metric.name, metric.title, metric.unit, texts))
    return tuple(columns)


def metrics_sections(comparison: Comparison) -> Iterator[Section]:
    """Yield the tables of the metrics that any side has, with ratios to the baseline."""
    if len(comparison.sides) >= MANY:
        rows = ranking(comparison)
        title = f"Ranking, relative to {comparison.baseline.title}"
        yield _sides_as_rows(title, rows, ranking_columns(comparison, rows))
        if further := further_columns(comparison, rows):
            yield replace(_sides_as_rows("Further metrics", rows, further), notes=_same(comparison))
        return
    titles = tuple(side.title for side in comparison.sides)
    known = [row for row in comparison.metrics if any(cell.value is not None for cell in row.cells)]
    known += comparison.observed
    lines: tuple[_Row, ...] = tuple(
        (_heading_with_unit(row.metric.title, row.metric.unit), *_metric_texts(row, comparison))
        for row in known
    )
    if lines:
        title = f"Metrics, with ratios to {comparison.baseline.title}" if len(titles) > 1 else "Metrics"
        headings = ("Metric", *titles)
        yield Section(
            title,
            headings=headings,
            rows=lines,
            right=titles,
            notes=_same(comparison),
            template="metrics.html",
        )


def _same(comparison: Comparison) -> tuple[str, ...]:
    return (f"{comparison.same}.",) if comparison.same else ()


def _metric_texts(row: MetricRow, comparison: Comparison) -> tuple[MetricText, ...]:
    pairs = zip(row.cells, comparison.reports, strict=True)
    return tuple(metric_text(row.metric, cell, report) for cell, report in pairs)


def _sides_as_rows(title: str, sides: Sequence[RankedSide], columns: Sequence[RankingColumn]) -> Section:
    headings = tuple(_heading_with_unit(column.title, column.unit) for column in columns)
    rows: tuple[_Row, ...] = tuple(
        (
            str(side.place or NONE),
            MetricText(side.side.title, ", ".join(side.tags)),
            *(column.texts[place] for column in columns),
        )
        for place, side in enumerate(sides)
    )
    right = ("Rank", *headings)
    return Section(
        title, headings=("Rank", "Side", *headings), rows=rows, right=right, template="ranking.html"
    )


def _heading_with_unit(title: str, unit: str) -> str:
    return f"{title}, {unit}" if unit else title
