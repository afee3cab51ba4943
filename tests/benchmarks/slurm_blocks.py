"""Trains a sweep in blocks over a cluster of two nodes, of which one is killed in the middle of a block.

    uv run python tests/benchmarks/slurm_blocks.py [--repeats 2] [--kill-at 10]

Slurm's daemons are real, and both nodes are this machine; the worker is a stand-in that trains nothing, on
the second node three times slower. Aim: each of the 24 cells once per repeat, both runs of a ratio on one
node, and each ratio the true one, 1.5.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest

from engine.compare.sides import node_of
from engine.experiment.repeats import Plan
from engine.experiment.sweep import Axis, grid_of
from engine.machines.remote_site import launcher_on
from engine.protocol.events import Samples
from engine.store.record import Status
from engine.store.store import Store
from engine.sweep.order import TurnEnded, TurnStarted
from engine.sweep.results import results_of
from engine.sweep.sweeper import Sweeper
from tests.gui.machines import CATALOG
from tests.slurm import Cluster, cluster_here

_BASE = {"model": "linear", "dataset": "synthetic-regression", "device": "cpu", "steps": 600, "epochs": None}
_AXES = (
    Axis(key="precision", values=("fp32", "bf16")),
    Axis(key="batch_size", values=(16, 32, 64)),
    Axis(key="optimizer.learning_rate", values=(0.001, 0.003, 0.01, 0.03)),
)


def train(cluster: Cluster, store: Store, repeats: int, kill_at: int) -> str:
    """Trains the sweep, kills the node of the turn `kill_at`, and returns the sweep's id."""
    with launcher_on(cluster.machine) as launcher:
        sweeper = Sweeper(store, launcher, CATALOG)
        sweep_id = sweeper.prepare("Blocks", grid_of(_BASE, _AXES), Plan(repeats=repeats))
        turns = 0
        for event in sweeper.run(sweep_id):
            if isinstance(event, TurnStarted):
                turns += event.turn.kind == "run"
            elif isinstance(event, Samples) and turns == kill_at:
                turns += 1
                node = cluster.jobs()[-1].split()[-1]
                print(f"killed {node} in turn {kill_at}")
                cluster.kill_node(node)
            elif isinstance(event, TurnEnded) and event.problem is not None:
                print(f"turn of cell {event.turn.cell}: {event.problem.message}")
    return sweep_id


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--kill-at", type=int, default=10)
    options = parser.parse_args()
    began = time.monotonic()
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory() as folder,
        cluster_here(patch) as cluster,
        Store(Path(folder, "ammeter.sqlite")) as store,
    ):
        cluster.talk("training_worker.py")
        record = store.sweeps.find(train(cluster, store, options.repeats, options.kill_at))
        results = results_of(record)
        print(f"{'cell':42} {'nodes':8} {'ratio':>6}  interval")
        for cell in results.cells:
            low, high = cell.ratio_interval or (0.0, 0.0)
            nodes = " ".join(f"{node_of(run)}" for run in record.cells[cell.index].runs)
            print(f"{cell.name:42} {nodes:8} {cell.ratio or 0:6.3f}  {low:.3f} to {high:.3f}")
        runs = [run for cell in record.cells for run in cell.runs]
        of_nodes = Counter(run.environment.node for run in runs if run.environment)
        count = len({(run.cell, run.repeat) for run in runs if run.status is Status.FINISHED})
        print(
            f"{count} of {options.repeats * len(record.cells)} turns finished once, {len(runs)} runs in all"
        )
        print(f"by node: {dict(of_nodes)}; {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
