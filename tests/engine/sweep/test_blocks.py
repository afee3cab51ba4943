"""In a cluster the cells that are compared train on one node, and on another one together if it is lost."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from engine.compare.evidence import evidence_of
from engine.experiment.experiment import Experiment
from engine.experiment.problem import Kind
from engine.experiment.sweep import Axis, Grid, Plan, grid_of
from engine.protocol import jobs
from engine.protocol.events import Finished, Started, Summary
from engine.protocol.jobs import RemotePlace
from engine.store.record import Status
from engine.store.store import Store
from engine.sweep.order import TurnEnded
from engine.sweep.results import Results, results_of
from engine.sweep.sweeper import Sweeper
from engine.worker.launcher import Launcher
from engine.worker.site import Item, Site, WorkerLost
from engine.worker.supervision import ProcessSession, Timeouts
from tests.gui.machines import CATALOG

PRECISIONS = Axis(key="precision", values=("fp32", "bf16"))
SETTINGS = {"model": "linear", "dataset": "synthetic-regression", "device": "cpu", "steps": 40}
PAIR = grid_of(SETTINGS, [PRECISIONS])
GAIN = 1.5
"""How much faster the second precision is, on whatever node."""
SLOWNESS = {"n1": 1.0, "n2": 3.0, "n3": 0.5}


class Worker:
    """Trains in no time, at the pace of its node, or is lost with it."""

    pid, stderr_tail, is_alive, has_spoken = os.getpid(), "", True, True
    is_away, is_waiting, delay_seconds = False, False, 0.0
    place = RemotePlace("cluster", "0" * 32)

    def __init__(self, node: str, started: Callable[..., Started], *, is_lost: bool) -> None:
        self._node, self._started, self._is_lost = node, started, is_lost
        self._items: Iterator[Item] = iter(())

    def send(self, request: jobs.Request) -> None:
        if isinstance(request, jobs.Train):
            self._items = self._said(request.experiment)

    def _said(self, experiment: Experiment) -> Iterator[Item]:
        begun = self._started(experiment)
        environment = begun.environment.model_copy(update={"node": self._node})
        yield begun.model_copy(update={"environment": environment})
        if self._is_lost:
            yield WorkerLost(f"Slurm lost {self._node}.", Kind.NODE_LOST)
        speed = 100.0 / SLOWNESS[self._node] * (GAIN if experiment.precision == "bf16" else 1.0)
        yield Finished(summary=Summary(steps=40, seconds=1.0, step_ms=10.0, samples_per_second=speed))

    def next_item(self, timeout_seconds: float) -> Item | None:
        return next(self._items)

    def close(self, timeout_seconds: float = 2.0) -> int:
        return 0

    def kill(self) -> None:
        """It is none."""

    forget = leave = keep = kill_orphans = ask_where = terminate = discard = kill


class Nodes(Site):
    """A cluster whose next job gets the next of these nodes, unless it is pinned to one."""

    name, keeps_spare, has_nodes = "cluster", False, True

    def __init__(self, *nodes: str) -> None:
        self._free, self.node = iter(nodes), ""
        self.pinned: list[str] = []

    def begin_block(self, node: str = "") -> None:
        self.pinned.append(node)
        self.node = node

    def here(self) -> str:
        self.node = self.node or next(self._free)
        return self.node

    def end_job(self) -> None:
        """As Slurm does; the next one begins unasked."""
        self.node = ""


class Cluster(Launcher):
    """`loses` is asked with each node and how many jobs were started before."""

    def __init__(
        self, site: Nodes, started: Callable[..., Started], loses: Callable[[str, int], bool]
    ) -> None:
        super().__init__(site=site)
        self.nodes, self._started, self._loses, self.count = site, started, loses, 0

    def start(self, job: jobs.Job, keep: Callable[[RemotePlace], None] | None = None) -> ProcessSession:
        node = self.nodes.here()
        worker = Worker(node, self._started, is_lost=self._loses(node, self.count))
        self.count += 1
        if keep is not None:
            keep(worker.place)
        return ProcessSession(worker, job, Timeouts())


class Night:
    """A sweep on such a cluster, piloted already."""

    def __init__(self, store: Store, started: Callable[..., Started]) -> None:
        self.store, self._started, self.id = store, started, ""

    def cluster(self, *nodes: str, loses: Callable[[str, int], bool] = lambda *_: False) -> Cluster:
        return Cluster(Nodes(*nodes), self._started, loses)

    def train(self, cluster: Cluster, grid: Grid = PAIR, **options: Any) -> list[TurnEnded]:
        sweeper = Sweeper(self.store, cluster, CATALOG)
        self.id = self.id or sweeper.prepare("Night", grid, Plan(repeats=3))
        return [event for event in sweeper.run(self.id, **options) if isinstance(event, TurnEnded)]

    @property
    def nodes(self) -> dict[tuple[int, int], str | None]:
        """The node of each run that is finished, by cell and repeat."""
        runs = [run for cell in self.store.sweeps.find(self.id).cells for run in cell.runs]
        assert all(run.status is Status.FINISHED for run in runs)
        return {(run.cell, run.repeat): run.environment and run.environment.node for run in runs}  # type: ignore[misc]

    @property
    def results(self) -> Results:
        record = self.store.sweeps.find(self.id)
        return results_of(
            record, evidence_of(self.store, [run for cell in record.cells for run in cell.runs])
        )


@pytest.fixture
def night(store: Store, started: Callable[..., Started], monkeypatch: pytest.MonkeyPatch) -> Night:
    monkeypatch.setattr("engine.sweep.order.pilot_experiment", lambda experiment: None)
    return Night(store, started)


def test_each_block_has_a_node_and_a_slower_one_changes_no_ratio(night: Night) -> None:
    night.train(night.cluster("n1", "n2", "n3"))
    assert night.nodes == {(cell, repeat): f"n{repeat}" for cell in (0, 1) for repeat in (1, 2, 3)}
    baseline, faster = night.results.cells
    assert faster.ratio == pytest.approx(GAIN) and baseline.ratio == 1.0
    assert faster.ratio_interval == pytest.approx((GAIN, GAIN))
    assert faster.nodes == ("n1", "n2", "n3")


def test_a_node_that_is_lost_takes_its_block_with_it_to_another_one(night: Night) -> None:
    # in the second block, after its first run
    ended = night.train(night.cluster("n1", "n2", "n3", "n1", loses=lambda node, count: count == 3))
    assert [event.problem and event.problem.kind for event in ended].count(Kind.NODE_LOST) == 1
    assert night.nodes == {
        **{(cell, 1): "n1" for cell in (0, 1)},
        **{(cell, 2): "n3" for cell in (0, 1)},
        **{(cell, 3): "n1" for cell in (0, 1)},
    }
    assert night.results.cells[1].ratio == pytest.approx(GAIN)


def test_a_block_is_submitted_again_no_more_than_twice(night: Night) -> None:
    cluster = night.cluster(*["n2"] * 20, loses=lambda node, count: count < 3)
    ended = night.train(cluster)
    record = night.store.sweeps.find(night.id)
    assert [cell.problem and cell.problem.kind for cell in record.cells] == [Kind.NODE_LOST, None]
    assert len([event for event in ended if event.problem]) == 3 and record.ended is not None


def test_a_block_that_was_interrupted_goes_on_on_its_node(night: Night) -> None:
    night.train(night.cluster("n2"), should_yield=lambda: True)
    later = night.cluster("n1", "n3")
    night.train(later)
    assert later.nodes.pinned[0] == "n2"
    assert night.nodes[0, 1] == night.nodes[1, 1] == "n2"
    assert night.results.cells[1].ratio == pytest.approx(GAIN)


def test_a_block_whose_job_ended_between_two_turns_is_trained_again(night: Night) -> None:
    cluster = night.cluster("n1", "n2", "n3", "n1", "n2")
    sweeper = Sweeper(night.store, cluster, CATALOG)
    night.id = sweeper.prepare("Night", PAIR, Plan(repeats=3))
    for event in sweeper.run(night.id):
        if isinstance(event, TurnEnded) and cluster.count == 1:
            cluster.nodes.end_job()
    assert {repeat: node for (_, repeat), node in night.nodes.items()} == {1: "n3", 2: "n1", 3: "n2"}
    assert all(night.nodes[0, repeat] == night.nodes[1, repeat] for repeat in (1, 2, 3))
