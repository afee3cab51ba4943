"""A small sweep in a real cluster, of whose two nodes one is lost."""

from __future__ import annotations

import pytest

from engine.compare.sides import node_of
from engine.experiment.problem import Kind
from engine.experiment.sweep import Axis, Plan, grid_of
from engine.machines.remote_site import launcher_on
from engine.protocol.events import Samples
from engine.store.record import Status
from engine.store.store import Store
from engine.sweep.order import TurnEnded, TurnStarted
from engine.sweep.results import results_of
from engine.sweep.sweeper import Sweeper
from tests.gui.machines import CATALOG
from tests.slurm import NODES, Cluster

SETTINGS = {"model": "linear", "dataset": "synthetic-regression", "device": "cpu", "steps": 600}
PAIR = grid_of(SETTINGS, [Axis(key="precision", values=("fp32", "bf16"))])


@pytest.mark.slow
def test_the_block_of_a_lost_node_is_trained_again_on_the_other(
    cluster: Cluster, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.sweep.order.pilot_experiment", lambda experiment: None)
    cluster.talk("training_worker.py")
    turns, problems, lost = 0, [], ""
    with launcher_on(cluster.machine) as launcher:
        sweeper = Sweeper(store, launcher, CATALOG)
        sweep = sweeper.prepare("Night", PAIR, Plan(repeats=1))
        for event in sweeper.run(sweep):
            turns += isinstance(event, TurnStarted)
            # in the second turn: the first is done, and is taken again
            if isinstance(event, Samples) and turns == 2 and not lost:
                lost = cluster.jobs()[0].split()[-1]
                cluster.kill_node(lost)
            if isinstance(event, TurnEnded) and event.problem is not None:
                problems.append(event.problem.kind)
    assert problems == [Kind.NODE_LOST] and turns == 4
    record = store.sweeps.find(sweep)
    runs = [run for cell in record.cells for run in cell.runs]
    (other,) = set(NODES) - {lost}
    assert [(run.status, node_of(run)) for run in runs] == [(Status.FINISHED, other)] * 2
    assert results_of(record).cells[1].ratio == pytest.approx(1.5)
    assert cluster.folders() == []
