"""Runs of very many steps: blocks are joined as they come, and curves need not read every step."""

from __future__ import annotations

import sqlite3
import tracemalloc
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from engine.curves import MOST_ROWS as MOST_CURVE_ROWS
from engine.experiment.experiment import Experiment
from engine.protocol.events import Epoch, Finished, Samples, Summary
from engine.store import samples
from engine.store.recorder import Recorder
from engine.store.samples import MOST_ROWS
from engine.store.store import Store

Batch = Callable[..., Samples]


def columns(first: int, count: int) -> dict[str, np.ndarray]:
    """Noisy steps from number `first` on, with a spike now and then."""
    generator = np.random.default_rng(first)
    step = np.arange(first, first + count, dtype=float)
    loss = generator.normal(1, 0.1, count)
    loss[:: count // 3 or 1] = 9 + first / 1e9
    return {"step": step, "seconds": step / 100, "loss": loss, "samples_per_second": np.full(count, 64.0)}


def write(store: Store, run_id: str, steps: int, at_once: int, first: int = 1) -> None:
    """Writes steps as they are recorded, a transaction a batch."""
    for begin in range(first, steps + 1, at_once):
        with store._connection.writing() as connection:
            samples.append(connection, run_id, columns(begin, min(at_once, steps + 1 - begin)))


def counts(path: Path) -> tuple[int, int, int]:
    """Blocks, their rows, and outlines."""
    with closing(sqlite3.connect(path)) as connection:
        blocks, rows = connection.execute("SELECT count(*), total(rows) FROM samples").fetchone()
        return blocks, int(rows), connection.execute("SELECT count(*) FROM outlines").fetchone()[0]


def test_blocks_are_joined_while_a_run_is_recorded(path: Path, store: Store) -> None:
    run_id = store.add(Experiment()).id
    write(store, run_id, 300_000, 300)
    blocks, rows, outlines = counts(path)
    assert rows == 300_000 and blocks < 300 and 2 <= outlines <= 5
    np.testing.assert_array_equal(store.samples(run_id)["step"], np.arange(1, 300_001))


def test_a_run_is_recorded_and_ended_with_one_block_in_memory(store, started):
    run = store.add(Experiment(device="cpu"))
    store.begin(run.id)
    write(store, run.id, 1_000_000, 20_000)
    with closing(Recorder(store, run.id, resumes=False)) as recorder:
        tracemalloc.start()
        recorder.add([started(total_steps=1_000_000), Finished(summary=Summary(steps=0), stopped=True)])
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 8 * MOST_ROWS * 4 * 8 < 1_000_000 * 4 * 8
    summary = store.run(run.id).summary
    assert summary is not None and (summary.steps, summary.seconds) == (1_000_000, 10_000.0)
    assert summary.final_train_loss == pytest.approx(store.samples(run.id)["loss"].mean())


def test_figures_of_a_run_without_an_end_are_of_all_its_blocks(store, started):
    run = store.add(Experiment(device="cpu"))
    epoch = Epoch(epoch=1, step=150_000, seconds=1.0, train_loss=3.0)
    store.record(run.id, [started(), epoch])
    with store._connection.writing() as connection:
        for first in (1, 70_001, 140_001):
            part = columns(first, 70_000)
            part["loss"][70_001 - first if first == 70_001 else 0 : 10 if first == 70_001 else 0] = np.nan
            samples.append(connection, run.id, part | {"grad_scale": np.full(70_000, float(first))})
    summary, whole = store.summary_so_far(run.id), store.samples(run.id)
    assert (summary.steps, summary.final_grad_scale, summary.first_nan_step) == (210_000, 140_001.0, 70_001)
    assert summary.final_train_loss == pytest.approx(whole["loss"][whole["step"] > 150_000].mean())


@pytest.fixture
def long(store: Store, monkeypatch: pytest.MonkeyPatch) -> str:
    """A run that counts as long, of 300,000 steps."""
    monkeypatch.setattr(samples, "_MANY_ROWS", 100_000)
    run_id = store.add(Experiment()).id
    write(store, run_id, 300_000, 10_000)
    with store._connection.writing() as connection:
        samples.compact(connection, run_id)
    return run_id


def test_curves_are_read_from_outlines(path: Path, store: Store, long: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        # of a block that has an outline nothing else is needed
        connection.execute(
            "UPDATE samples SET data = x'00' WHERE (run, position) IN (SELECT run, position FROM outlines)"
        )
    curves = store.curves(long)
    bins, rows = curves.bins(), curves.column("loss")
    steps = np.diff(bins["step"], prepend=0)
    assert steps.sum() == bins["step"][-1] == 300_000 and len(curves) <= MOST_CURVE_ROWS
    parts = [columns(first, 10_000)["loss"] for first in range(1, 300_001, 10_000)]
    whole = np.concatenate(parts)
    assert np.average(bins["loss"], weights=steps) == pytest.approx(whole.mean())
    assert (rows.min(), rows.max()) == (whole.min(), whole.max())
    assert (rows > 8).sum() >= 30, "each spike is seen"


def test_a_block_without_an_outline_is_read_itself(path: Path, store: Store, long: str) -> None:
    known = store.curves(long).bins()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM outlines")
    again = store.curves(long).bins()
    assert again["step"][-1] == known["step"][-1]
    for bins in (again, known):
        weights = np.diff(bins["step"], prepend=0)
        assert np.average(bins["loss"], weights=weights) == pytest.approx(store.samples(long)["loss"].mean())


def test_what_a_resumed_run_trains_again_is_dropped_with_its_outlines(path, store, long):
    with store._connection.writing() as connection:
        samples.cut(connection, long, 131_500)
    assert store.samples(long)["step"].tolist() == list(range(1, 131_501))
    write(store, long, 200_000, 7_000, first=131_501)
    assert store.samples(long)["step"].tolist() == list(range(1, 200_001))
    assert store.curves(long).bins()["step"][-1] == 200_000
    store.remove([long])
    assert counts(path) == (0, 0, 0)


def test_what_is_left_of_a_block_may_be_joined_to_those_before_it(store, monkeypatch):
    monkeypatch.setattr(samples, "MOST_ROWS", 10)
    monkeypatch.setattr(samples, "_JOINED_BLOCKS", 2)
    run_id = store.add(Experiment()).id
    write(store, run_id, 12, 6)
    with store._connection.writing() as connection:
        samples.cut(connection, run_id, 9)
    assert store.samples(run_id)["step"].tolist() == list(range(1, 10))
