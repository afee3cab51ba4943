"""Workload files of a few lines, and runs of them in this process."""

from __future__ import annotations

import sys
from multiprocessing import resource_tracker
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from engine.experiment.experiment import Experiment, experiment_from
from engine.experiment.own.code import with_code
from engine.protocol.events import Event, Finished, Samples, Summary
from engine.protocol.jobs import Control
from engine.training.runs.loop import train

SHORT = {
    "batch_size": 4,
    "samples": 16,
    "steps": 6,
    "device": "cpu",
    "measure": {"warmup_steps": 1, "block_steps": 1},
}


@pytest.fixture(scope="session", autouse=True)
def _tracker() -> None:
    """Python's own helper of spawned processes lives as long as the tests do: it is nobody's to end."""
    if hasattr(resource_tracker, "ensure_running") and sys.platform != "win32":
        resource_tracker.ensure_running()


class OwnRuns:
    """Writes workload files into an empty folder, and trains them for a few steps in this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, text: str, name: str = "net.py") -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
        return path

    def experiment(self, path: Path | str, /, **settings: Any) -> Experiment:
        asked = {**SHORT, **settings, "model": str(path)}
        return experiment_from(with_code(asked, names_model=True, names_dataset="dataset" in settings))

    def events(self, experiment: Experiment, **more: Any) -> list[Event]:
        return list(train(experiment, Control(), **more))

    def losses(self, experiment: Experiment) -> tuple[float, ...]:
        batches = [event for event in self.events(experiment) if isinstance(event, Samples)]
        return tuple(loss for batch in batches for loss in batch.loss)

    def summary(self, experiment: Experiment) -> Summary:
        (finished,) = [event for event in self.events(experiment) if isinstance(event, Finished)]
        return finished.summary


@pytest.fixture
def own(tmp_path: Path) -> OwnRuns:
    return OwnRuns(tmp_path)
