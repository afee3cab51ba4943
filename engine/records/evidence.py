"""What is known of a run beside its record: how fast each block of steps was, and how its epochs went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.events import Epoch, Event, Started
from engine.records.record import RunRecord
from engine.records.store import Store


@dataclass(frozen=True)
class Evidence:
    """What is known of one run beside its record.

    `block_speeds` are the samples a second of each whole block after warm-up, `epochs` those that ended,
    `notes` what the worker remarked on precision and settings when it started.
    """

    run: RunRecord
    block_speeds: NDArray[np.float64]
    epochs: tuple[Epoch, ...]
    notes: tuple[str, ...] = ()


def evidence_of(store: Store, runs: Sequence[RunRecord]) -> tuple[Evidence, ...]:
    """The evidence of each run, in their order. Raises ProblemError where the store cannot be read."""
    return tuple(evidence_from(run, store.events(run.id), store.samples(run.id)) for run in runs)


def evidence_from(run: RunRecord, events: Sequence[Event], samples: Mapping[str, NDArray[Any]]) -> Evidence:
    """The evidence of a run whose events and samples are at hand."""
    return Evidence(
        run,
        block_speeds(run, samples),
        epochs=tuple(event for event in events if isinstance(event, Epoch)),
        notes=tuple(note for event in events if isinstance(event, Started) for note in event.notes),
    )


def block_speeds(run: RunRecord, samples: Mapping[str, NDArray[Any]]) -> NDArray[np.float64]:
    """Samples per second of each whole block of `measure.block_steps` steps after warm-up.

    Of a block that is the harmonic mean over its steps: samples by time, for batches of one size. Blocks with
    a step whose speed is not a number are left out.
    """
    speeds = samples.get("samples_per_second")
    if speeds is None:
        return np.empty(0)
    block_steps = run.experiment.measure.block_steps
    counted = np.asarray(speeds, dtype=np.float64)[warm_steps(run, samples) :]
    whole = len(counted) // block_steps * block_steps
    blocks = counted[:whole].reshape(-1, block_steps)
    usable = blocks[np.all(np.isfinite(blocks) & (blocks > 0), axis=1)]
    return np.asarray(1.0 / np.mean(1.0 / usable, axis=1), dtype=np.float64)


def warm_steps(run: RunRecord, samples: Mapping[str, NDArray[Any]]) -> int:
    """Compiling and capturing make the warm-up longer than was asked for."""
    asked = run.experiment.measure.warmup_steps
    seconds, summary = samples.get("seconds"), run.summary
    if seconds is None or summary is None or not (summary.compile_seconds or summary.capture_seconds):
        return asked
    return max(asked, int(np.searchsorted(seconds, (summary.warmup_seconds or 0.0) * (1 + 1e-9), "right")))
