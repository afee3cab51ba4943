"""Which process a trial gets: on an accelerator the same until it is replaced, on a CPU always another."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.experiment.experiment import Experiment
from engine.limit.driver import TrialRunner, trial_limits
from engine.protocol.events import PhaseName
from engine.protocol.trials import Tried
from engine.worker.launcher import Launcher
from engine.worker.supervision import Limits

WORKER = """
import json, os, sys
def say(**event):
    sys.stdout.write(json.dumps(event) + chr(10)); sys.stdout.flush()
say(event="ready", pid=os.getpid(), python="3", torch="0", ammeter="0")
for line in sys.stdin:
    if json.loads(line)["experiment"]["batch_size"] == 13:
        sys.exit(1)
    note = f"{os.getpid()} {os.environ.get('MALLOC_ARENA_MAX')}"
    say(event="tried", trial=dict(batch_size=1, fits=True, note=note), budget_mib=1.0)
"""


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Launcher]:
    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    with Launcher(command=(sys.executable, str(script))) as launcher:
        yield launcher


def answered(runner: TrialRunner, device: str, batch_size: int = 1, *, is_last: bool = False) -> str | None:
    """The pid of the worker that answered a trial, and how its memory is set up."""
    last = list(runner.run(Experiment(device=device, batch_size=batch_size), is_last=is_last))[-1]
    return last.trial.note if isinstance(last, Tried) else None


def test_on_an_accelerator_a_worker_takes_trials_until_it_is_replaced_or_dies(launcher):
    runner = TrialRunner(launcher, "cuda:0")
    try:
        first = answered(runner, "cuda:0")
        assert first is not None and answered(runner, "cuda:0") == first
        runner.replace_worker()
        second = answered(runner, "cuda:0")
        assert second is not None and second != first
        assert answered(runner, "cuda:0", batch_size=13) is None
        assert answered(runner, "cuda:0") not in (None, second)
    finally:
        runner.close()


def test_on_a_cpu_each_trial_has_a_worker_that_returns_its_memory(launcher):
    runner = TrialRunner(launcher, "cpu")
    try:
        first, second = answered(runner, "cpu"), answered(runner, "cpu")
        assert first is not None and second is not None and first != second
        if sys.platform == "linux":
            assert first.endswith(" 2") and second.endswith(" 2")
    finally:
        runner.close()


def test_after_the_last_trial_no_worker_gets_ready_for_another(launcher, own_children):
    runner, before = TrialRunner(launcher, "cpu"), own_children()
    try:
        answered(runner, "cpu")
        assert own_children() > before
        answered(runner, "cpu", is_last=True)
        assert own_children() == before
    finally:
        runner.close()


def test_a_trial_is_waited_for_less_long_than_a_run_but_a_download_is_not():
    limits = Limits()
    shorter = trial_limits(limits).standstill
    assert shorter[PhaseName.WARMING_UP] < limits.standstill[PhaseName.WARMING_UP]
    assert shorter[PhaseName.DOWNLOADING] == limits.standstill[PhaseName.DOWNLOADING]
    assert not math.isinf(max(shorter.values()))
