"""Runs and comparisons as text for a person."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from typing import Any

from engine.cli import output
from engine.cli.summary import summary_groups
from engine.records.comparison import Figure, figures
from engine.records.record import RunRecord
from engine.records.variants import Variant

_NONE = "–"


def run_summary(run: RunRecord) -> None:
    """One run's outcome in groups of figures, and its id."""
    experiment = run.experiment
    output.line(f"{run.name}: {experiment.model} on {experiment.dataset}, {experiment.precision.label}")
    groups = summary_groups(run)
    for title, rows in groups:
        if title:
            output.line(f"\n{title}")
        output.pairs(rows)
    if len(groups) > 1:
        output.line()
    output.line(f"{run.status.value.capitalize()}; saved as {run.id}.")


def comparison(runs: Sequence[RunRecord], variants: Sequence[Variant]) -> None:
    """The figures of each side (the median over its repeats), their ratios to the first, and the verdicts."""
    by_id = {run.id: run for run in runs}
    sides = [[by_id[run_id] for run_id in variant.ids] for variant in variants]
    headings = ["", *(variant.label for variant in variants)]
    rows = [_row(figure, sides) for figure in figures(runs)]
    output.table(headings, [row for row in rows if any(cell != _NONE for cell in row[1:])], headings[1:])
    for variant in variants:
        output.line(variant.verdict)
    for variant in variants:
        output.line(f"{variant.label} saved as {', '.join(variant.ids)}.")


def variant_dict(variant: Variant) -> dict[str, Any]:
    """A side of a comparison as plain JSON values."""
    values = dataclasses.asdict(variant)
    return {**values, "ids": list(variant.ids), "speedup_ci": list(variant.speedup_ci or ()) or None}


def runs_table(runs: Sequence[RunRecord]) -> None:
    """Saved runs, one a line."""
    shown = [figure for figure in figures(runs) if figure.name in _IN_LIST]
    numbers = [f"{figure.title}, {figure.unit}" for figure in shown]
    headings = ["Id", "Name", "Status", "When", "Model", "Dataset", "Precision", "Recipe", "Batch", *numbers]
    rows = [
        [
            run.id,
            run.name,
            run.status.value,
            run.created.astimezone().strftime("%Y-%m-%d %H:%M"),
            run.experiment.model,
            run.experiment.dataset,
            run.experiment.precision.label,
            (run.summary.recipe if run.summary else None) or run.experiment.step.recipe,
            f"{run.experiment.batch_size:,}",
            *(figure.text(figure.value(run)) for figure in shown),
        ]
        for run in runs
    ]
    output.table(headings, rows, ["Batch", *numbers])


_IN_LIST = ("samples_per_second", "peak_memory", "accuracy")


def _row(figure: Figure, sides: list[list[RunRecord]]) -> list[str]:
    medians = [_median([figure.value(run) for run in side]) for side in sides]
    title = f"{figure.title}, {figure.unit}" if figure.unit else figure.title
    cells = [figure.text(medians[0])]
    for value in medians[1:]:
        ratio = value / medians[0] if figure.has_ratio and value is not None and medians[0] else None
        cells.append(figure.text(value) + (f" ({ratio:.2f}×)" if ratio is not None else ""))
    return [title, *cells]


def _median(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
