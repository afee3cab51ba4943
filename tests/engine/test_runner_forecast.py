"""The runner's forecasts: asked of a worker once, then known, and corrected by what is measured."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from engine.experiment.experiment import experiment_from
from engine.experiment.problem import Kind, ProblemError
from engine.protocol.events import Failed, Finished
from engine.runner import Runner
from engine.store.store import Store
from engine.worker.launcher import Launcher, Target

SMALL = experiment_from(
    {
        "model": "small-cnn",
        "dataset": "synthetic",
        "image_size": 32,
        "num_classes": 10,
        "batch_size": 8,
        "samples": 64,
        "steps": 2,
        "device": "cpu",
        "measure": {"warmup_steps": 1, "block_steps": 1},
        "validation": {"every": 0},
    }
)


@pytest.fixture
def store() -> Iterator[Store]:
    with Store() as opened:
        yield opened


def test_a_known_forecast_needs_no_worker(store, launcher):
    made = Runner(store, launcher).forecast(SMALL)
    assert made.needed_mib > made.parameters_mib > 0
    nobody = Launcher(command=("no-such-program",))
    known = Runner(store, nobody).forecast(SMALL.model_copy(update={"batch_size": 64}))
    assert known.experiment.batch_size == 64
    assert known.needed_mib > made.needed_mib


def test_what_cannot_run_is_refused(store, launcher):
    with pytest.raises(ProblemError) as raised:
        Runner(store, launcher).forecast(SMALL.model_copy(update={"model": "no-such-model"}))
    assert raised.value.problem.kind is Kind.REQUEST


def test_a_forecast_is_refused_while_a_run_is_measured(store):
    runner = Runner(store, Launcher(Target.THREAD))
    events = runner.run(store.add(SMALL.model_copy(update={"steps": 100_000_000})).id)
    next(events)
    with pytest.raises(ProblemError) as raised:
        runner.forecast(SMALL)
    events.close()
    assert "while a run" in raised.value.problem.message


def test_a_finished_run_corrects_the_forecast(store, launcher):
    runner = Runner(store, launcher)
    runner.forecast(SMALL)
    last = list(runner.run(store.add(SMALL).id))[-1]
    assert isinstance(last, Finished)
    peak = last.summary.peak_resident_mib
    assert peak is not None
    assert runner.forecast(SMALL).needed_mib == pytest.approx(peak)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux caps a CPU's memory")
def test_an_out_of_memory_names_the_batch_that_fits(store, launcher):
    runner = Runner(store, launcher)
    too_large = SMALL.model_copy(update={"batch_size": 4_096, "samples": 8_192, "memory_cap_gib": 0.5})
    runner.forecast(too_large)
    record = store.add(too_large)
    last = list(runner.run(record.id))[-1]
    assert isinstance(last, Failed) and last.problem.kind is Kind.OUT_OF_MEMORY
    assert "By the forecast a batch of" in last.problem.remedy
    saved = store.run(record.id).problem
    assert saved == last.problem
    assert (
        saved.allowed is not None and 0 < int(saved.allowed.removeprefix("at most ").replace(",", "")) < 4_096
    )


RUNS_OUT = """
import json, os, sys
def say(**event):
    sys.stdout.write(json.dumps(event) + chr(10)); sys.stdout.flush()
say(event="ready", pid=os.getpid(), python="3", torch="0", ammeter="0")
sys.stdin.readline()
say(event="failed", problem=dict(kind="out-of-memory", message="It ran out.", remedy="Take a smaller batch."))
"""


def test_an_out_of_memory_without_a_forecast_keeps_its_own_remedy(store):
    with Launcher(command=(sys.executable, "-c", RUNS_OUT)) as launcher:
        last = list(Runner(store, launcher).run(store.add(SMALL).id))[-1]
    assert isinstance(last, Failed) and last.problem.kind is Kind.OUT_OF_MEMORY
    assert last.problem.remedy == "Take a smaller batch."
