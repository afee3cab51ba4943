"""The largest batch on several devices, here two processes on the CPU: each rank has the cap for itself."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from engine.experiment.experiment import Experiment
from engine.experiment.own.code import Code
from engine.limit.driver import LimitDriver, _data_limit
from engine.limit.result import SideSearch
from engine.limit.search import Search
from engine.protocol import jobs
from engine.protocol.events import Failed, Finished, Phase, PhaseName
from engine.protocol.trials import Limit, LimitSide, Trial, Tried
from engine.store.saved.studies import Study
from engine.store.store import Store
from engine.training.doctor import read_catalog
from engine.training.ranks import Rank
from engine.training.runs.plan import RunPlan
from engine.worker.launcher import Launcher, Target, iterate
from engine.worker.merging import Merger
from engine.worker.perform import perform

TINY: dict[str, Any] = {
    "model": "small-cnn",
    "dataset": "synthetic",
    "image_size": 64,
    "num_classes": 10,
    "samples": 96,
    "device": "cpu",
    "steps": 20,
    "memory_cap_gib": 0.085,
    "batch_size": 24,
}
# stands in for a card that is smaller than the others, and for a step that never ends
OWN = """
import os, threading
import torch
from torch import distributed, nn

MOST = {most}

class Net(nn.Sequential):
    def forward(self, x):
        if distributed.is_initialized() and distributed.get_rank() == 1 and len(x) > MOST:
            {what}
        return super().forward(x)

def model():
    return Net(nn.Flatten(), nn.Linear(3 * 8 * 8, 4))
"""

needs_cap = pytest.mark.skipif(sys.platform != "linux", reason="only Linux caps a CPU's memory")


def own_model(folder: Path, most: int, what: str) -> Experiment:
    text = OWN.format(most=most, what=what)
    (folder / "net.py").write_text(text)
    return Experiment(
        model="net.py",
        code=Code(file="net.py", folder=str(folder), text=text).to_json(),
        dataset="synthetic",
        image_size=8,
        num_classes=4,
        samples=64,
        batch_size=8,
        device="cpu",
        devices=2,
        steps=2,
    )


@pytest.mark.slow
@needs_cap
@pytest.mark.timeout(300)
def test_a_device_among_two_takes_the_batch_of_one_alone(store: Store, launcher: Launcher) -> None:
    experiment = Experiment.model_validate({**TINY, "devices": 2})
    side = LimitSide(label="FP32", experiment=experiment, granularity=24)
    *_, study = (
        known
        for known in LimitDriver(store, launcher).follow(Study(answer=Limit(sides=(side,))))
        if isinstance(known, Study)
    )
    (side,) = study.answer.sides
    assert side.result is not None and side.result.verified and side.result.bound_by == "memory"
    # as on one device
    assert [(trial.batch_size, trial.cause) for trial in side.trials] == [(24, None), (48, "memory")]
    assert side.budget_mib == pytest.approx(0.085 * 1024)
    assert side.result.peak_mib is not None and 0.5 < side.result.peak_mib / side.budget_mib <= 1
    fits, fails = side.trials
    assert "of 2: its memory is the largest of all ranks." in (fits.note or "")
    assert "of 2: The device ran out of memory." in (fails.note or "")
    assert side.words == "FP32 fits 24 per device (48 on 2 devices)"


@pytest.mark.slow
def test_memory_that_runs_out_on_one_rank_is_an_answer_that_names_it(tmp_path: Path) -> None:
    experiment = own_model(tmp_path, 4, "raise torch.OutOfMemoryError('too large')")
    last = list(perform(jobs.TryBatch(experiment=experiment), jobs.Control()))[-1]
    assert isinstance(last, Tried) and not last.trial.fits and last.trial.cause == "memory"
    assert last.trial.note == "Rank 1 of 2: The device ran out of memory."
    smaller = experiment.model_copy(update={"batch_size": 4})
    last = list(perform(jobs.TryBatch(experiment=smaller), jobs.Control()))[-1]
    assert isinstance(last, Tried) and last.trial.fits and last.train_samples == 32


@pytest.mark.slow
def test_a_rank_that_dies_for_want_of_memory_counts_as_a_batch_that_does_not_fit(tmp_path: Path) -> None:
    dies = """os.write(2, b"what():  std::bad_alloc\\n"); os.abort()"""
    experiment = own_model(tmp_path, 4, dies)
    failed = list(perform(jobs.TryBatch(experiment=experiment), jobs.Control()))[-1]
    assert isinstance(failed, Failed)
    side = SideSearch(LimitSide(label="FP32", experiment=experiment), Search(), margin_fraction=0.1)
    trial, _ = side.record(8, failed)
    assert trial is not None and not trial.fits and trial.cause == "memory"
    assert (trial.note or "").startswith("Rank 1 of 2: The training process ended")


def test_a_trial_that_is_stopped_leaves_no_rank_behind(
    tmp_path: Path, own_children: Callable[[], set[psutil.Process]]
) -> None:
    experiment = own_model(tmp_path, 0, "threading.Event().wait()")
    before = own_children()
    with Launcher(Target.THREAD) as launcher:
        launcher.trusted_code.add(experiment.own_code)
        session = launcher.start(jobs.TryBatch(experiment=experiment))
        events = []
        for event in iterate(session):
            events.append(event)
            if isinstance(event, Phase) and event.name is PhaseName.WARMING_UP:
                ranks = own_children() - before
                session.stop()
        session.close()
    assert isinstance(events[-1], Finished) and events[-1].stopped
    assert len(ranks) >= 2
    _, alive = psutil.wait_procs(ranks, timeout=30)
    assert not alive


def test_of_several_ranks_the_one_with_the_most_memory_and_the_one_with_the_least_room_count() -> None:
    experiment = Experiment(device="cuda:0", devices=2)
    merger = Merger(experiment, experiment, ["cuda:0", "cuda:1"])
    for rank, (peak, reserved, budget) in enumerate([(100.0, 300.0, 900.0), (120.0, 200.0, 1_000.0)]):
        speed = 2 * budget
        trial = Trial(
            batch_size=8,
            fits=True,
            peak_mib=peak,
            reserved_mib=reserved,
            one_step_samples_per_second=speed,
        )
        assert not list(merger.add(rank, Tried(trial=trial, budget_mib=budget, leaked_mib=5.0)))
    (tried,) = merger.ending()
    assert isinstance(tried, Tried) and (tried.budget_mib, tried.leaked_mib) == (900.0, 0.0)
    assert (tried.trial.peak_mib, tried.trial.reserved_mib) == (120.0, 300.0)
    assert tried.trial.one_step_samples_per_second == 2 * 1_800.0, "each waits for the slowest"
    assert tried.trial.note == "Rank 1 of 2, on cuda:1: its memory is the largest of all ranks."


def test_a_rank_has_the_card_of_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    known = read_catalog()
    cpu = known.devices[-1]
    cards = [cpu.model_copy(update={"name": f"cuda:{number}"}) for number in range(3)]
    catalog = known.model_copy(update={"devices": (*cards, cpu)})
    monkeypatch.setattr("engine.training.runs.plan.current_rank", lambda: Rank(number=1, count=2))
    experiment = Experiment.model_validate(
        {**TINY, "device": "cuda:1", "devices": 2, "memory_cap_gib": None, "batch_size": 8}
    )
    plan = RunPlan(experiment, catalog)
    assert plan.device_names == ["cuda:1", "cuda:2"]
    assert plan.experiment.device == plan.device_entry.name == str(plan.device) == "cuda:2"


def test_a_worker_ends_with_its_rank_of_a_trial() -> None:
    rank = jobs.RankAssignment(number=1, count=2, meeting="meeting")
    trial = jobs.TryBatch(experiment=Experiment(device="cuda:0", devices=2))
    assert not jobs.ends_worker(trial)
    assert jobs.ends_worker(trial.model_copy(update={"rank": rank}))


def test_the_answer_is_per_device_and_devices_share_the_data() -> None:
    experiment = Experiment.model_validate({**TINY, "devices": 2, "samples": 101})
    assert _data_limit(experiment, read_catalog()) == (
        50,
        "synthetic has 101 samples, which 2 devices share",
    )
    trials = (Trial(batch_size=32, fits=True),)
    side = LimitSide(label="FP32", experiment=experiment, trials=trials)
    assert side.words == "FP32 fits at least 32 per device (64 on 2 devices)"
    # of all devices that there are, before their number is known
    unknown = side.model_copy(update={"experiment": experiment.model_copy(update={"devices": 0})})
    assert unknown.words == "FP32 fits at least 32 per device"
