"""Timings of runs: which are known, and why others cannot be made on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.experiment.checks import Catalog
from engine.protocol.events import Environment
from engine.protocol.timing.timing import Timing, TimingSide
from engine.runner import Runner
from engine.store.record import RunRecord
from engine.store.store import Store
from engine.worker.launcher import Launcher, Target
from gui.session.engine_thread import EngineThread
from gui.session.orders.timings import Timings, baseline_first

CARD = Environment(
    device_name="A card", device_memory_mib=24_576, torch="2.11", python="3.12", os="Linux", ammeter="0.1"
)
LINEAR = {"model": "linear", "dataset": "synthetic-regression", "device": "cpu"}


@pytest.fixture
def timings(saved: Store, tmp_path: Path) -> Iterator[Timings]:
    thread = EngineThread(tmp_path / "ammeter.sqlite", Launcher())
    yield Timings(saved, thread)
    thread.shut_down()


@pytest.fixture
def catalog(saved: Store) -> Catalog:
    with Launcher(Target.THREAD) as launcher:
        return Runner(saved, launcher).catalog()


def test_a_timing_is_of_exactly_its_runs_in_their_order(
    timings: Timings, saved: Store, trained: Callable[..., RunRecord], timing: Timing
) -> None:
    half, single = trained("fp16", 200.0), trained("fp32", 100.0)
    runs = baseline_first([half, single])
    assert runs == (single, half)
    ids = [run.id for run in runs]
    sides = tuple(
        TimingSide(experiment=run.experiment, run_id=run.id, profile=side.profile)
        for run, side in zip(runs, timing.sides, strict=True)
    )
    for _ in range(2):
        kept = saved.timings.add(Timing(sides=sides), device_name="A card")
        saved.timings.record(kept, 0, sides[0])
    assert timings.of_runs(ids) == kept
    assert timings.of_runs(ids[:1]) is None and timings.of_runs(ids[::-1]) is None
    saved.timings.delete(kept)
    assert timings.of_runs(ids) not in (None, kept)
    assert timings.why_not_explained(runs, None) is None, "a saved timing can always be opened"


def test_a_run_that_cannot_be_profiled_here_says_why(
    timings: Timings, trained: Callable[..., RunRecord], catalog: Catalog
) -> None:
    here = trained(
        "fp32",
        100.0,
        settings=LINEAR,
        machine=CARD.model_copy(update={"device_name": catalog.devices[-1].title}),
    )
    assert timings.why_not_explained([here], catalog) is None
    elsewhere = trained("fp32", 100.0, settings=LINEAR, name="away")
    told = timings.why_not_explained([here, elsewhere], catalog)
    assert told == "“away” trained on A card, which is not in this machine."
    no_card = trained("fp32", 100.0, settings={**LINEAR, "device": "cuda:7"}, name="card")
    told = timings.why_not_explained([no_card], catalog)
    assert told == "“card” cannot be trained here: There is no device named 'cuda:7'."
    assert "Up to 8 runs" in (timings.why_not_explained([here] * 9, catalog) or "")
    assert "still looking" in (timings.why_not_explained([here], None) or "")
