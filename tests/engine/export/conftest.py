"""What the tests of the exports share: runs to export."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.experiment.experiment import experiment_from
from engine.export.content import Content, content_of
from engine.protocol.events import Environment, Epoch, Finished, Samples, Summary
from engine.protocol.summary import RankMetrics
from engine.store.store import Store
from tests.records import ENVIRONMENT, started_of

HOSTILE_NAMES = (
    '=cmd|"/C calc"!A0',
    "</script><script>document.title = 'stolen'</script> & \"quotes\" '",
    "../../etc/passwd",
    "\N{GRINNING FACE} \u6f22 \N{HEBREW LETTER SHIN}\N{RIGHT-TO-LEFT OVERRIDE}gpj.exe",
    r"$\alpha_{x}% & # ~ ^ \input{x} | `code` [l](http://x) **b**",
    "tab\tand\nline\x07",
)


@pytest.fixture
def exports_store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "exported" / "ammeter.sqlite") as opened:
        yield opened


@pytest.fixture
def trained(exports_store: Store) -> Callable[..., str]:
    """Puts a run into the store as a worker would have told it, and gives its id."""

    def make(
        precision: str = "fp32",
        *,
        name: str | None = None,
        speed: float = 1_000.0,
        steps: int = 100,
        losses: Any = None,
        ends: bool = True,
        environment: Environment = ENVIRONMENT,
        speed_note: str | None = None,
        peak_mib: float = 2_048.0,
        ranks: tuple[RankMetrics, ...] = (),
        **settings: Any,
    ) -> str:
        experiment = experiment_from({"precision": precision, "steps": steps, "device": "cuda:0", **settings})
        run = exports_store.add(experiment, name=name)
        exports_store.begin(run.id)
        loss = 2.0 + np.cos(np.arange(steps)) / 10 if losses is None else np.asarray(losses, dtype=float)
        numbers = np.arange(1, steps + 1)
        seconds = numbers * experiment.step_samples / speed
        samples = Samples(
            step=tuple(numbers.tolist()),
            seconds=tuple(seconds.tolist()),
            loss=tuple(loss.tolist()),
            samples_per_second=(speed,) * steps,
            learning_rate=(0.1 + 0.2,) * steps,
            grad_scale=(65_536.0,) * steps if experiment.uses_scaler else None,
        )
        epoch = Epoch(
            epoch=1,
            step=steps,
            seconds=float(seconds[-1]),
            train_loss=float(loss[-1]),
            validation_accuracy=0.5,
        )
        summary = Summary(
            steps=steps,
            samples_per_second=speed,
            speed_note=speed_note,
            step_ms=1_000.0 * experiment.step_samples / speed,
            peak_allocated_mib=peak_mib,
            final_train_loss=float(loss[-1]),
            final_validation_accuracy=0.5,
            seconds=float(seconds[-1]),
            ranks=ranks,
        )
        started = started_of(experiment, steps, steps, environment)
        exports_store.record(run.id, [started, samples, epoch])
        if ends:
            exports_store.record(run.id, [Finished(summary=summary)])
        return run.id

    return make


@pytest.fixture
def pair(exports_store: Store, trained: Callable[..., str]) -> Content:
    """FP32 against FP16, a run each."""
    return content_of(exports_store, [trained("fp32"), trained("fp16", speed=2_500.0)])


@pytest.fixture
def hostile(exports_store: Store, trained: Callable[..., str]) -> Content:
    """Runs that ended in every way, under names that mean harm."""
    diverged = np.concatenate([np.linspace(2, 1, 50), [np.inf, -np.inf], np.full(48, np.nan)])
    ids = [
        trained("fp32", name=HOSTILE_NAMES[0]),
        trained("fp16", name=HOSTILE_NAMES[1], losses=diverged, speed=2_500.0),
        trained("bf16", name=HOSTILE_NAMES[2], steps=3, losses=[np.nan] * 3),
        trained("tf32", name=HOSTILE_NAMES[3], ends=False),
        trained("default", name=HOSTILE_NAMES[4], steps=1),
        exports_store.add(experiment_from({"precision": "fp16-unscaled"}), name=HOSTILE_NAMES[5]).id,
    ]
    return content_of(exports_store, ids)
