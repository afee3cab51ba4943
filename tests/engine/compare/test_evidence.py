"""What is known of a run beside its record: its blocks after warm-up, its epochs and what holds it back."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from engine.compare.evidence import block_speeds, evidence_of
from engine.experiment.experiment import Experiment, Measure
from engine.protocol.events import Epoch, Finished, Samples, Started, Summary
from engine.store.record import RunRecord
from engine.store.store import Store

SHORT = Experiment(measure=Measure(warmup_steps=2, block_steps=3))


def test_blocks_are_whole_and_begin_after_the_warm_up(record: Callable[..., RunRecord]) -> None:
    run = record(1, SHORT)
    speeds = np.array([1.0, 1.0, 2.0, 4.0, 4.0, 9.0, 9.0, 9.0, 5.0])
    np.testing.assert_allclose(block_speeds(run, {"samples_per_second": speeds}), [3.0, 9.0])
    assert len(block_speeds(run, {})) == 0
    broken = np.array([1.0, 1.0, np.nan, 4.0, 4.0, 0.0, 9.0, 9.0])
    assert len(block_speeds(run, {"samples_per_second": broken})) == 0


def test_steps_that_compiled_are_warm_up_too(record: Callable[..., RunRecord]) -> None:
    run = record(1, SHORT, compile_seconds=30.0, warmup_seconds=32.0)
    columns = {
        "samples_per_second": np.array([1.0, 1.0, 0.1, 1.0, 5.0, 5.0, 5.0]),
        "seconds": np.array([0.5, 1.0, 31.0, 32.0, 32.2, 32.4, 32.6]),
    }
    np.testing.assert_allclose(block_speeds(run, columns), [5.0])


def test_evidence_is_read_from_the_store(
    store: Store, started: Callable[..., Started], batch: Callable[..., Samples]
) -> None:
    whole, empty = store.add(SHORT), store.add(SHORT)
    slow = "FP16 AMP is slow here"
    epoch = Epoch(epoch=1, step=8, seconds=0.1, train_loss=1.0)
    begun = started(SHORT).model_copy(update={"hardly_faster": slow})
    store.record(whole.id, [begun, batch(1, 8), epoch, Finished(summary=Summary())])
    found = evidence_of(store, [store.run(whole.id), empty])
    assert [one.run.id for one in found] == [whole.id, empty.id]
    np.testing.assert_allclose(found[0].block_speeds, [1_000.0, 1_000.0])
    assert (found[0].epochs, found[0].hardly_faster) == ((epoch,), slow)
    assert len(found[1].block_speeds) == 0 and found[1].epochs == ()
