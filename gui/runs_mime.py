"""Runs on their way between the table and the workspaces: ids of runs, dragged."""

from __future__ import annotations

import json
from collections.abc import Sequence

from PySide6.QtCore import QMimeData

RUNS_MIME_TYPE = "application/x-ammeter-runs"
"""A JSON list of run ids."""


def dragged_runs(runs: Sequence[tuple[str, str]]) -> QMimeData:
    """What is dragged of runs given as (id, name): their ids for this window, their names for others."""
    data = QMimeData()
    data.setData(RUNS_MIME_TYPE, json.dumps([run_id for run_id, _ in runs]).encode())
    data.setText("\n".join(name for _, name in runs))
    return data


def has_runs(data: QMimeData) -> bool:
    """Whether there are runs in what is dragged."""
    return data.hasFormat(RUNS_MIME_TYPE)


def dropped_runs(data: QMimeData) -> tuple[str, ...]:
    """The ids of the runs; none where it is something else."""
    try:
        found = json.loads(bytes(data.data(RUNS_MIME_TYPE).data()))
    except (ValueError, RecursionError):
        return ()
    return tuple(found) if isinstance(found, list) and all(isinstance(one, str) for one in found) else ()
