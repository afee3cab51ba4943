"""Runs as text for a person."""

from __future__ import annotations

from collections.abc import Sequence

from engine.cli import output
from engine.cli.summary import summary_groups
from engine.records.figures import figures
from engine.records.record import RunRecord
from engine.text import shortened


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


def runs_table(runs: Sequence[RunRecord]) -> None:
    """Saved runs, one a line."""
    shown = [figure for figure in figures(runs) if figure.name in _IN_LIST]
    numbers = [f"{figure.title}, {figure.unit}" for figure in shown]
    headings = ["Id", "Name", "Status", "When", "Model", "Dataset", "Precision", "Recipe", "Batch", *numbers]
    has_tags = any(run.tags for run in runs)
    rows = [
        [
            run.id,
            shortened(run.name),
            run.status.value,
            run.created.astimezone().strftime("%Y-%m-%d %H:%M"),
            run.experiment.model,
            run.experiment.dataset,
            run.experiment.precision.label,
            run.experiment.step.recipe,
            f"{run.experiment.batch_size:,}",
            *(figure.text(figure.value(run)) for figure in shown),
            *([", ".join(run.tags)] if has_tags else []),
        ]
        for run in runs
    ]
    output.table([*headings, *(["Tags"] if has_tags else [])], rows, ["Batch", *numbers])


_IN_LIST = ("samples_per_second", "peak_memory", "accuracy")
