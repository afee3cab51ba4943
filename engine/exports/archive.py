"""Runs whole, as a `.zip` that another Ammeter imports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from engine.archives.writer import write_runs
from engine.exports.content import Content
from engine.records.record import RunRecord
from engine.records.whole_runs import WholeRun


def write_archive(content: Content, path: Path) -> None:
    """Writes the runs, oldest first, with all that was recorded of them; checkpoints are left out.

    Raises ProblemError for more than an archive may hold, OSError where the file cannot be written.
    """
    write_runs(lambda: _whole_runs(content), path)


def _whole_runs(content: Content) -> Iterator[WholeRun]:
    groups = {group.id: group for group in content.groups}
    for run in sorted(content.runs, key=_number):
        columns = {name: values.astype(np.float64) for name, values in content.curves[run.id].items()}
        comparison = groups.get(run.comparison) if run.comparison is not None else None
        yield WholeRun(run, content.events[run.id], columns, comparison, content.pictures([run.id]))


def _number(run: RunRecord) -> int:
    return run.number
