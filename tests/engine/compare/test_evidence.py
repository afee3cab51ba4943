"""What is known of a run beside its record: its blocks after warm-up, its epochs and what holds it back."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from engine.compare.evidence import block_speeds, evidence_of
from engine.curves import Curves
from engine.experiment.experiment import Experiment, Measure
from engine.protocol.events import Epoch, Finished, Samples, Started, Summary
from engine.statistics import drift
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


def test_a_run_of_merged_steps_has_the_evidence_of_all_of_them(record: Callable[..., RunRecord]) -> None:
    generator = np.random.default_rng(0)
    run = record(1, Experiment(measure=Measure(warmup_steps=10, block_steps=10)))
    steps = np.arange(1.0, 1_000_001)
    speeds = np.where(steps <= 500_000, 1_000.0, 1_300.0) * generator.normal(1, 0.02, len(steps))
    speeds[:10] = 1.0
    whole = {"step": steps, "samples_per_second": speeds}
    curves = Curves()
    curves.extend(whole)
    curves.settle()
    merged = curves.bins()
    blocks, all_blocks = block_speeds(run, merged), block_speeds(run, whole)
    assert 10_000 < len(blocks) < 40_000 < len(all_blocks)
    assert drift(blocks) == pytest.approx(drift(all_blocks), rel=0.01)
    assert 1 / np.mean(1 / blocks) == pytest.approx(1 / np.mean(1 / all_blocks), rel=1e-4)
    few = record(2, Experiment(measure=Measure(warmup_steps=10, block_steps=100_000)))
    np.testing.assert_allclose(block_speeds(few, merged), block_speeds(few, whole), rtol=1e-3)


def test_merged_steps_that_compiled_are_warm_up_too(record: Callable[..., RunRecord]) -> None:
    run = record(1, SHORT, compile_seconds=30.0, warmup_seconds=32.0)
    columns = {
        "step": np.array([4.0, 8.0, 12.0, 16.0]),
        "seconds": np.array([31.0, 32.2, 32.4, 32.6]),
        "samples_per_second": np.array([1.0, 2.0, 5.0, 5.0]),
    }
    np.testing.assert_allclose(block_speeds(run, columns), [5.0, 5.0])
