"""Runs of every kind, and workers without torch that say what a script has them say."""

from __future__ import annotations

import math
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.experiment.experiment import Experiment, Precision
from engine.experiment.problem import Kind, Problem
from engine.protocol.events import (
    Environment,
    Epoch,
    Failed,
    Finished,
    Log,
    Samples,
    Skipped,
    Started,
    Summary,
)
from engine.store.store import Store
from engine.worker.launcher import Launcher

HOSTILE_NAME = "\"quoted\" <b>bold</b> ../../up & 'so' 🙂 ‮שלום‬"


@pytest.fixture(scope="session")
def fill() -> Callable[[Store], None]:
    """Adds two runs that finished side by side, one that failed with NaN, one that runs, one that waits."""
    return add_runs


def add_runs(opened: Store) -> None:
    """Adds runs that finished side by side, one that failed with NaN, one that runs and one that waits."""
    pair = opened.add_comparison("FP32 and <FP16>")
    for precision in (Precision.FP32, Precision.FP16):
        run = opened.add(
            Experiment(precision=precision), name=HOSTILE_NAME, comparison=pair, label=precision.label
        )
        opened.begin(run.id)
        first = [started(run.experiment), samples(1, 40), Skipped(steps=(3,)), Log(message="two\nlines")]
        opened.record(run.id, first)
        last = [
            samples(41, 20),
            Epoch(epoch=1, step=60, seconds=0.6, train_loss=math.inf, validation_accuracy=0.5),
            Finished(summary=Summary(steps=60, samples_per_second=12.5, final_train_loss=math.nan)),
        ]
        opened.record(run.id, last)
    failed, running, _queued = (opened.add(Experiment(seed=seed)) for seed in (1, 2, 3))
    opened.begin(failed.id)
    nan = samples(1, 3, loss=(1.0, math.nan, -math.inf))
    problem = Problem(kind=Kind.NOT_A_NUMBER, message="The loss is NaN.", remedy="Lower the rate.")
    opened.record(failed.id, [started(failed.experiment), nan, Failed(problem=problem, detail="Trace")])
    opened.begin(running.id)
    opened.record(running.id, [started(running.experiment), samples(1, 25)])


def started(experiment: Experiment) -> Started:
    return Started(
        experiment=experiment,
        environment=Environment(
            device_name="a card",
            device_memory_mib=24_576,
            torch="2.11",
            python="3.13",
            os="Linux",
            ammeter="0.1",
        ),
        total_steps=60,
        steps_per_epoch=60,
        parameters=11,
        loss_name="cross-entropy",
        loss_unit="nats",
    )


def samples(first: int, rows: int, **columns: tuple[float, ...]) -> Samples:
    steps = tuple(range(first, first + rows))
    return Samples(
        step=steps,
        seconds=tuple(0.01 * step for step in steps),
        loss=columns.pop("loss", tuple(1.0 / step for step in steps)),
        samples_per_second=tuple(1_000.0 + 1 / step for step in steps),
        learning_rate=tuple(0.001 for _ in steps),
        grad_scale=tuple(65_536.0 for _ in steps),
        **columns,
    )


SCRIPTED = """
import json, os, sys
def say(**event):
    sys.stdout.write(json.dumps(event) + chr(10)); sys.stdout.flush()
def started(**more):
    say(event="started", experiment=job["experiment"], environment=dict(device_name="CPU",
        device_memory_mib=1.0, torch="0", python="3", os="os", ammeter="0"), total_steps=30,
        steps_per_epoch=10, parameters=1, loss_name="mean squared error", loss_unit="", **more)
def samples(first, last):
    steps = list(range(first, last + 1))
    column = [float(step) for step in steps]
    say(event="samples", step=steps, seconds=column, loss=column, samples_per_second=column,
        learning_rate=column)
def finished(steps, stopped):
    say(event="finished", summary=dict(steps=steps), stopped=stopped)
say(event="ready", pid=os.getpid(), python="3", torch="0", ammeter="0")
line = sys.stdin.readline()
if not line:
    sys.exit()
job = json.loads(line)
open(sys.argv[1], "w").write(line)
"""


@pytest.fixture
def scripted(tmp_path: Path) -> Iterator[Callable[[str], Launcher]]:
    """Makes launchers of workers that say what a script has them say, and keep their job in `job.json`."""
    launchers: list[Launcher] = []

    def make(body: str) -> Launcher:
        script = tmp_path / f"worker_{len(launchers)}.py"
        script.write_text(SCRIPTED + textwrap.dedent(body))
        command = (sys.executable, str(script), str(tmp_path / "job.json"))
        launchers.append(Launcher(command=command))
        return launchers[-1]

    yield make
    for launcher in launchers:
        launcher.close()
