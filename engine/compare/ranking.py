"""The ranking of a comparison: its sides by throughput, and the small print below the sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from engine.compare.comparison import Comparison, SideReport, learned_worse
from engine.compare.metrics import LOSS, SPEED, Metric, MetricCell
from engine.compare.sides import Side, is_interleaved
from engine.compare.verdict import Piece, Pieces
from engine.words.names import listed
from engine.words.numbers import counted

MANY = 3
"""The number of sides from which a comparison is shown as a ranking."""

_FASTEST, _BASELINE = "fastest", "baseline"


@dataclass(frozen=True)
class RankedSide:
    """One row of a ranking. `place` is None for a side that is not ranked, and its last tag is the reason.

    `cells` are the side's metrics by name.
    """

    report: SideReport
    place: int | None
    tags: tuple[str, ...]
    cells: Mapping[str, MetricCell]

    @property
    def side(self) -> Side:
        return self.report.side

    @property
    def is_disturbed(self) -> bool:
        return self.report.is_disturbed


def ranking(comparison: Comparison) -> tuple[RankedSide, ...]:
    """Return the sides by throughput, highest first, and then the sides that cannot be ranked.

    A side cannot be ranked if it was disturbed, has no throughput, or trained differently from the baseline.
    """
    ranked: list[RankedSide] = []
    reasons = {report.side.id: _ranking_obstacle(report, comparison) for report in comparison.reports}

    def order(report: SideReport) -> tuple[bool, float]:
        speed = comparison.cells(report.side.id)[SPEED.name].value
        return bool(reasons[report.side.id]), -(speed or 0.0)

    for place, report in enumerate(sorted(comparison.reports, key=order), start=1):
        reason = reasons[report.side.id]
        is_first = place == 1 and not reason and len(comparison.sides) > 1
        tags = (_FASTEST if is_first else "", _BASELINE if report.is_baseline else "", reason)
        cells = comparison.cells(report.side.id)
        ranked.append(RankedSide(report, None if reason else place, tuple(filter(None, tags)), cells))
    return tuple(ranked)


def _ranking_obstacle(report: SideReport, comparison: Comparison) -> str:
    speed = comparison.cells(report.side.id)[SPEED.name]
    if report.is_disturbed:
        return "disturbed"
    if speed.value is None:
        return "not measured"
    is_other = speed.ratio is None or any(doubt.kind == "workload" for doubt in report.doubts)
    return "not comparable" if is_other and not report.is_baseline else ""


def learning_words(metric: Metric, cell: MetricCell) -> str:
    """Return whether a side's loss or accuracy is the "same", "worse" or "better". "" if that is unknown."""
    if cell.within_spread is None or (not cell.difference and not cell.within_spread):
        return ""
    if cell.within_spread:
        return "same"
    is_higher = (cell.difference or 0.0) > 0
    return "worse" if is_higher is (metric.name == LOSS.name) else "better"


def headline(report: SideReport) -> tuple[Pieces, ...]:
    """Return the sentence on a side as lines, without the text in brackets."""
    lines = [tuple(piece for piece in line if piece.role != "aside") for line in report.verdict.lines]
    if report.verdict.kind == "ratio" and len(lines) > 1:
        lines[0] = (*lines[0], Piece(","))
    return tuple(lines)


def quiet_clauses(comparison: Comparison, report: SideReport) -> tuple[str, ...]:
    """Return the small print below the sentence on a side, in clauses without periods.

    They are the interval, the sides that are not ranked or learned worse, and the notes.
    """
    asides = [piece.bare for line in report.verdict.lines for piece in line if piece.role == "aside"]
    if report.verdict.speedup_ci is not None and asides:
        asides[0] += _runs_words(comparison, report.side)
    left_out = _left_out(comparison, report) if len(comparison.sides) >= MANY else ()
    clauses = (*asides[:1], *left_out, *report.verdict.notes, *asides[1:])
    # a file's name keeps its case
    names = tuple(side.label for side in comparison.sides if side.is_script)
    starts = (clause[:1] if names and clause.startswith(names) else clause[:1].upper() for clause in clauses)
    whole = (start + clause[1:].rstrip(".") for start, clause in zip(starts, clauses, strict=True))
    return tuple(dict.fromkeys(whole))


def _runs_words(comparison: Comparison, side: Side) -> str:
    baseline = comparison.baseline
    counts = sorted({len(comparison.cells(each.id)[SPEED.name].known) for each in (side, baseline)})
    runs = f"{counted(counts[0], 'run')} each" if len(counts) == 1 else f"{counts[0]} and {counts[1]} runs"
    return f", {runs}{', alternating' if is_interleaved(side, baseline) else ''}"


def _left_out(comparison: Comparison, report: SideReport) -> Iterator[str]:
    others = [row for row in ranking(comparison) if row.report is not report and not row.report.is_baseline]
    for tag in ("disturbed", "not measured", "not comparable"):
        titles = [row.side.title for row in others if tag in row.tags]
        if titles:
            was, is_ = ("was", "is") if len(titles) == 1 else ("were", "are")
            verb = is_ if tag == "not comparable" else was
            yield f"{listed(titles)} {verb} {tag} and {is_} not ranked"
    worse = [row for row in others if row.place is not None and learned_worse(row.report, row.cells)]
    if worse:
        yield f"{listed([row.side.title for row in worse])} learned worse"
