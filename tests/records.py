"""Runs and events as workers tell them, of an environment that is no machine's."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from engine.experiment.experiment import Experiment, Precision, experiment_from
from engine.protocol.events import Environment, Samples, Started, Summary
from engine.protocol.summary import Observed
from engine.store.record import RunRecord, Status

ENVIRONMENT = Environment(
    device_name="a card", device_memory_mib=24_576, torch="2.11", python="3.13", os="Linux", ammeter="0.1"
)


def samples_of(first: int, rows: int, **columns: tuple[float, ...]) -> Samples:
    """Samples of `rows` steps from `first` on, a hundredth of a second each."""
    steps = tuple(range(first, first + rows))
    usual = {
        "seconds": tuple(0.01 * step for step in steps),
        "loss": tuple(1.0 / step for step in steps),
        "samples_per_second": tuple(1_000.0 for _ in steps),
        "learning_rate": tuple(0.001 for _ in steps),
    }
    return Samples(step=steps, **{**usual, **columns})


def started_of(
    experiment: Experiment | None = None,
    total_steps: int = 100,
    steps_per_epoch: int = 50,
    environment: Environment = ENVIRONMENT,
    resumed_step: int | None = None,
) -> Started:
    """The event of a run that begins."""
    return Started(
        experiment=experiment or Experiment(),
        environment=environment,
        total_steps=total_steps,
        steps_per_epoch=steps_per_epoch,
        parameters=11,
        loss_name="cross-entropy",
        loss_unit="nats",
        resumed_step=resumed_step,
    )


def record_of(
    number: int,
    experiment: Experiment,
    *,
    label: str | None = None,
    status: Status = Status.FINISHED,
    environment: Environment | None = ENVIRONMENT,
    comparison: str | None = None,
    minutes: float = 0.0,
    **figures: Any,
) -> RunRecord:
    """A run that ended, without a store; keywords of the summary beside the others."""
    moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)
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


def script_run(
    number: int,
    line: str,
    *,
    precision: Precision = Precision.FP32,
    observed: Mapping[str, Any] | None = None,
    folder: str = "",
    steps: int = 220,
    torch: str = "2.15",
    **more: Any,
) -> RunRecord:
    """A measured command that ended, with its `observed` values. None: it was not started yet."""
    seen = None if observed is None else Observed(**{"parameters": {"float32": 124_300_000}, **observed})
    batch = None if seen is None else seen.batch_size
    experiment = experiment_from(
        {"command": {"line": line, "folder": folder}, "steps": steps, "seed": number, "precision": precision}
        | ({} if seen is None else {"batch_size": batch or 1})
    )
    environment = None if seen is None else ENVIRONMENT.model_copy(update={"torch": torch, "cuda": "13.0"})
    given = {"comparison": "c", "minutes": number, "environment": environment, "observed": seen} | more
    return record_of(number, experiment, **given)
