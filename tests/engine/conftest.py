"""Stores, runs and workers for the tests of the engine."""

from __future__ import annotations

import math
import sqlite3
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.compare.comparison import Comparison, compare
from engine.compare.evidence import evidence_from
from engine.curves import Columns
from engine.experiment.experiment import Experiment, Precision
from engine.experiment.problem import Kind, Problem
from engine.protocol.events import (
    Environment,
    Epoch,
    Failed,
    Finished,
    Log,
    Samples,
    Skipped,
    Started,
    Summary,
)
from engine.protocol.summary import RankMetrics
from engine.race.race import Race, race_of
from engine.store.record import RunRecord, Status
from engine.store.schema import VERSION
from engine.store.store import Store
from engine.worker.launcher import Launcher
from engine.worker.supervision import Timeouts
from tests.records import ENVIRONMENT, record_of, samples_of, started_of

__all__ = ["ENVIRONMENT", "samples_of", "started_of"]

TINY: dict[str, Any] = {
    "model": "linear",
    "dataset": "synthetic-regression",
    "samples": 20,
    "batch_size": 10,
    "steps": 20,
    "device": "cpu",
    "measure": {"warmup_steps": 1, "block_steps": 2},
    "optimizer": {"name": "sgd", "learning_rate": 0.01},
}
HOSTILE_NAME = "\"quoted\" <b>bold</b> ../../up & 'so' 🙂 ‮שלום‬"


@pytest.fixture(scope="session")
def fill() -> Callable[[Store], None]:
    return add_runs


def add_runs(opened: Store) -> None:
    """Adds runs that finished side by side, one that failed with NaN, one that runs and one that waits."""
    pair = opened.add_comparison("FP32 and <FP16>")
    for precision in (Precision.FP32, Precision.FP16):
        run = opened.add(
            Experiment(precision=precision), name=HOSTILE_NAME, comparison=pair, label=precision.label
        )
        opened.begin(run.id)
        first = [
            started_of(run.experiment, 60, 60),
            _samples(1, 40),
            Skipped(steps=(3,)),
            Log(message="two\nlines"),
        ]
        opened.record(run.id, first)
        last = [
            _samples(41, 20),
            Epoch(epoch=1, step=60, seconds=0.6, train_loss=math.inf, validation_accuracy=0.5),
            Finished(
                summary=Summary(
                    steps=60,
                    samples_per_second=12.5,
                    final_train_loss=math.nan,
                    ranks=(RankMetrics(device="cuda:0", peak_mib=math.pi), RankMetrics(device="cuda:1")),
                )
            ),
        ]
        opened.record(run.id, last)
    failed, running, _queued = (opened.add(Experiment(seed=seed)) for seed in (1, 2, 3))
    opened.begin(failed.id)
    nan = _samples(1, 3, loss=(1.0, math.nan, -math.inf))
    problem = Problem(kind=Kind.NOT_A_NUMBER, message="The loss is NaN.", remedy="Lower the rate.")
    opened.record(
        failed.id, [started_of(failed.experiment, 60, 60), nan, Failed(problem=problem, detail="Trace")]
    )
    opened.begin(running.id)
    opened.record(running.id, [started_of(running.experiment, 60, 60), _samples(1, 25)])


def _samples(first: int, rows: int, **columns: tuple[float, ...]) -> Samples:
    steps = tuple(range(first, first + rows))
    speeds = tuple(1_000.0 + 1 / step for step in steps)
    scales = tuple(65_536.0 for _ in steps)
    return samples_of(first, rows, **{"samples_per_second": speeds, "grad_scale": scales, **columns})


SCRIPTED = """
import json, os, signal, subprocess, sys, time
def say(**event):
    sys.stdout.write(json.dumps(event) + chr(10)); sys.stdout.flush()
def started(**more):
    say(event="started", experiment=job["experiment"], environment=dict(device_name="CPU",
        device_memory_mib=1.0, torch="0", python="3", os="os", ammeter="0"), total_steps=30,
        steps_per_epoch=10, parameters=1, loss_name="mean squared error", loss_unit="", **more)
def samples(first, last):
    steps = list(range(first, last + 1))
    column = [float(step) for step in steps]
    say(event="samples", step=steps, seconds=column, loss=column, samples_per_second=column,
        learning_rate=column)
def finished(steps, stopped):
    say(event="finished", summary=dict(steps=steps), stopped=stopped)
say(event="ready", pid=os.getpid(), python="3", torch="0", ammeter="0")
line = sys.stdin.readline()
if not line:
    sys.exit()
job = json.loads(line)
open(sys.argv[1], "w").write(line)
"""


@pytest.fixture
def scripted(tmp_path: Path) -> Iterator[Callable[..., Launcher]]:
    """Makes launchers of workers that say what a script has them say, and keep their job in `job.json`."""
    launchers: list[Launcher] = []

    def make(body: str, limits: Timeouts | None = None) -> Launcher:
        script = tmp_path / f"worker_{len(launchers)}.py"
        script.write_text(SCRIPTED + textwrap.dedent(body))
        command = (sys.executable, str(script), str(tmp_path / "job.json"))
        launchers.append(Launcher(limits=limits, command=command))
        return launchers[-1]

    yield make
    for launcher in launchers:
        launcher.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "ammeter.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with Store(path) as opened:
        yield opened


@pytest.fixture
def older(path: Path) -> Callable[..., None]:
    """Leaves a store of the format before this one, at `path` or elsewhere, with the run "Old"."""

    def make(place: Path = path) -> None:
        with Store(place) as store:
            store.add(Experiment(), name="Old")
        with closing(sqlite3.connect(place)) as connection:
            connection.execute(f"PRAGMA user_version = {VERSION - 1}")

    return make


@pytest.fixture
def started() -> Callable[..., Started]:
    return started_of


@pytest.fixture
def batch() -> Callable[..., Samples]:
    return samples_of


@pytest.fixture
def record() -> Callable[..., RunRecord]:
    """Makes a run that ended, without a store; keywords of the summary beside the others."""
    return record_of


class Racers:
    """Runs that gather, each with its curve, and the race of two of them."""

    GPU = ENVIRONMENT.model_copy(update={"device_name": "a GPU", "cuda": "13.0"})
    CPU = ENVIRONMENT.model_copy(update={"device_name": "a processor"})

    def __init__(self, record: Callable[..., RunRecord]) -> None:
        self._record = record
        self.runs: list[RunRecord] = []
        self.curves: dict[str, Columns] = {}
        self.hardly_faster: str | None = None

    def add(
        self,
        precision: Precision,
        speed: float | None,
        *,
        steps: int = 200,
        speeds: Sequence[float] | None = None,
        environment: Environment = GPU,
        status: Status = Status.FINISHED,
        problem: Problem | None = None,
        figures: Mapping[str, Any] | None = None,
        comparison: str | None = None,
        **settings: Any,
    ) -> RunRecord:
        """A run at `speed` samples a second; of `speeds` each counted step has its own."""
        device = "cpu" if environment is self.CPU else "cuda:0"
        asked = Experiment(precision=precision, device=device, **settings)
        known = {"samples_per_second": speed, **(figures or {})}
        number = len(self.runs) + 1
        made = self._record(
            number, asked, status=status, environment=environment, comparison=comparison, **known
        )
        run = replace(made, problem=problem)
        # a warm-up that is counted would take so long that every time is wrong
        warm = [0.001] * asked.measure.warmup_steps
        values = np.array(warm + list([speed or 1.0] * steps if speeds is None else speeds))
        self.curves[run.id] = {"step": np.arange(1.0, len(values) + 1), "samples_per_second": values}
        self.runs.append(run)
        return run

    def compared(self, baseline: RunRecord | None = None) -> Comparison:
        evidence = [evidence_from(run, (), self.curves.get(run.id, {})) for run in self.runs]
        noted = [replace(one, little_gain_reason=self.hardly_faster) for one in evidence]
        return compare(noted, baseline.id if baseline else None)

    def race(self, baseline: RunRecord | None = None, side_id: str | None = None) -> Race:
        return race_of(self.compared(baseline), self.curves, side_id)

    def of_two(
        self,
        full: float | None,
        mixed: float | None,
        *,
        mine: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> Race:
        """The race of one run each of the same training at these speeds; `mine` is the mixed run's alone."""
        self.add(Precision.FP32, full, **settings)
        self.add(Precision.FP16, mixed, **{**settings, **(mine or {})})
        return self.race()

    def repeated(self, speeds: Sequence[tuple[float, float]], **figures: Sequence[float]) -> Race:
        """The race of repeats of both; of a figure each run has one, in pairs as the speeds are."""
        for seed, pair in enumerate(speeds):
            for side, precision in enumerate((Precision.FP32, Precision.FP16)):
                told = {name: values[2 * seed + side] for name, values in figures.items()}
                self.add(precision, pair[side], seed=seed, comparison="c", figures=told)
        return self.race()


@pytest.fixture
def racers(record: Callable[..., RunRecord]) -> Racers:
    return Racers(record)
