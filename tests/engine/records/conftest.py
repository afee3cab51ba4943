"""A store of its own for each test, and runs to put in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from engine.events import Environment, Samples, Started, Summary
from engine.experiment import Experiment
from engine.records.record import RunRecord, Status
from engine.records.store import Store

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
