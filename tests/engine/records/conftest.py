"""A store of its own for each test, and runs to put in it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.compare.comparison import Comparison, compare
from engine.compare.evidence import evidence_from
from engine.experiment.experiment import Experiment, Precision
from engine.experiment.problem import Problem
from engine.protocol.events import Environment, Samples, Started, Summary
from engine.race.race import Race, race_of
from engine.store import schema
from engine.store.journal import Columns
from engine.store.record import RunRecord, Status
from engine.store.store import Store

ENVIRONMENT = Environment(
    device_name="a card", device_memory_mib=24_576, torch="2.11", python="3.13", os="Linux", ammeter="0.1"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "ammeter.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with Store(path) as opened:
        yield opened


@pytest.fixture
def older(path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Leaves a store of that version at `path`, with a run in it: "Old", of seed 3."""

    def make(version: int) -> None:
        with monkeypatch.context() as then:
            then.setattr("engine.store.database.MIGRATIONS", schema.MIGRATIONS[:version])
            then.setattr("engine.store.database.VERSION", version)
            Store(path).close()
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(
                "INSERT INTO runs (id, number, name, status, created, experiment, owner)"
                " VALUES ('0123456789ab', 1, 'Old', 'finished', 1e9, ?, '{}')",
                (Experiment(seed=3).to_json(),),
            )
            assert connection.execute("PRAGMA user_version").fetchone() == (version,)

    return make


@pytest.fixture
def started() -> Callable[..., Started]:
    def make(experiment: Experiment | None = None, total_steps: int = 100) -> Started:
        return Started(
            experiment=experiment or Experiment(),
            environment=ENVIRONMENT,
            total_steps=total_steps,
            steps_per_epoch=50,
            parameters=11,
            loss_name="cross-entropy",
            loss_unit="nats",
        )

    return make


@pytest.fixture
def batch() -> Callable[..., Samples]:
    def make(first: int, rows: int, **columns: tuple[float, ...]) -> Samples:
        steps = tuple(range(first, first + rows))
        return Samples(
            step=steps,
            seconds=tuple(0.01 * step for step in steps),
            loss=columns.pop("loss", tuple(1.0 / step for step in steps)),
            samples_per_second=tuple(1_000.0 for _ in steps),
            learning_rate=tuple(0.001 for _ in steps),
            **columns,
        )

    return make


@pytest.fixture
def record() -> Callable[..., RunRecord]:
    """Makes a run that ended, without a store; keywords of the summary beside the others."""

    def make(
        number: int,
        experiment: Experiment,
        *,
        label: str | None = None,
        status: Status = Status.FINISHED,
        environment: Environment | None = ENVIRONMENT,
        comparison: str | None = None,
        **figures: Any,
    ) -> RunRecord:
        moment = datetime(2026, 1, 1, tzinfo=UTC)
        return RunRecord(
            id=f"{number:012x}",
            number=number,
            name=f"Run {number}",
            status=status,
            created=moment,
            started=moment,
            ended=moment,
            experiment=experiment,
            environment=environment,
            summary=Summary(**figures),
            problem=None,
            detail="",
            comparison=comparison,
            label=label,
            total_steps=None,
        )

    return make


class Racers:
    """Runs that gather, each with its curve, and the race of two of them."""

    GPU = ENVIRONMENT.model_copy(update={"device_name": "a GPU", "cuda": "13.0"})
    CPU = ENVIRONMENT.model_copy(update={"device_name": "a processor"})

    def __init__(self, record: Callable[..., RunRecord]) -> None:
        self._record = record
        self.runs: list[RunRecord] = []
        self.curves: dict[str, Columns] = {}
        self.notes: tuple[str, ...] = ()

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
        noted = [replace(one, notes=self.notes) for one in evidence]
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
