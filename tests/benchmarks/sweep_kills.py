"""Kills a program that trains a sweep, again and again at random moments: no cell is lost, none twice.

    uv run python tests/benchmarks/sweep_kills.py [--kills 200] [--cells 50] [--repeats 8] [--seed 1]

Store, sweeper, queue of turns and recording are the real ones, in a process that is killed (SIGKILL) and
started again; only the worker is a small script that trains nothing, so that hundreds of turns take minutes.
A kill comes at a random moment of up to `--window` seconds from the process's first line on, which it writes
before it opens the store. A sweep that reaches its end before the last kill is followed by another; the last
is left to reach its end. The process notes every turn that it was told to have ended.

Aim: of every sweep each cell has its pilot and each of its repeats once, finished; no other run is there; no
turn that had ended was taken again.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from engine.experiment.repeats import Plan
from engine.experiment.sweep import Axis, grid_of
from engine.store.record import Status
from engine.store.store import Store
from engine.sweep.order import TurnEnded
from engine.sweep.sweeper import Sweeper
from engine.worker.launcher import Launcher

_WORKER = """
import json, os, sys, time
def say(**event):
    sys.stdout.write(json.dumps(event) + chr(10)); sys.stdout.flush()
say(event="ready", pid=os.getpid(), python="3", torch="0", ammeter="0")
job = json.loads(sys.stdin.readline())
steps = job["experiment"]["steps"]
say(event="started", experiment=job["experiment"], environment=dict(device_name="CPU", device_memory_mib=1.0,
    torch="0", python="3", os="os", ammeter="0"), total_steps=steps, steps_per_epoch=steps, parameters=1,
    loss_name="mean squared error", loss_unit="")
for step in range(1, steps + 1):
    time.sleep(0.001)
    if step % 5 == 0:
        column = [0.001 * step]
        say(event="samples", step=[step], seconds=column, loss=column, samples_per_second=[1000.0 + step],
            learning_rate=column)
say(event="finished", summary=dict(steps=steps, seconds=0.02, step_ms=1.0, samples_per_second=1000.0))
"""


def train(path: Path, sweep_id: str) -> None:
    """The process that is killed."""
    print("started", flush=True)
    with Store(path) as store, Launcher(command=(sys.executable, "-c", _WORKER)) as launcher:
        store.recover()
        with path.with_suffix(".turns").open("a", encoding="utf-8") as ended:
            for event in Sweeper(store, launcher).run(sweep_id):
                if isinstance(event, TurnEnded):
                    turn = event.turn
                    print(sweep_id, turn.kind, turn.cell, turn.repeat, file=ended, flush=True)


def begin(path: Path, sweep_id: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, __file__, "--path", str(path), "--sweep", sweep_id]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def is_killed(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether the process was still at work so long after its first line, and was killed."""
    assert process.stdout is not None
    with process.stdout:
        process.stdout.readline()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
        return process.wait() < 0


def add_sweep(path: Path, cells: int, repeats: int) -> str:
    base = {"dataset": "synthetic", "samples": 64, "device": "cpu", "steps": 20}
    rates = tuple(0.001 * number for number in range(1, max(1, cells // 2) + 1))
    axes = [Axis(key="precision", values=("fp32", "bf16")), Axis(key="optimizer.learning_rate", values=rates)]
    with Store(path) as store:
        return store.sweeps.add("Kills", grid_of(base, axes), Plan(repeats=repeats), device_name="CPU")


def has_ended(path: Path, sweep_id: str) -> bool:
    with Store(path) as store:
        return store.sweeps.find(sweep_id).ended is not None


def show(path: Path, kills: int) -> bool:
    """Prints what is in the store, and returns whether all is there once."""
    lines = path.with_suffix(".turns").read_text(encoding="utf-8").splitlines()
    again = sum(count - 1 for count in Counter(lines).values())
    missing = twice = strange = 0
    with Store(path) as store:
        sweeps = store.sweeps.newest()
        for sweep in sweeps:
            wanted = list(range(1, sweep.plan.repeats + 1))
            for cell in sweep.cells:
                done = Counter(run.repeat for run in cell.runs if run.status is Status.FINISHED)
                missing += sum(repeat not in done for repeat in wanted) + (cell.pilot is None)
                twice += sum(count - 1 for count in done.values())
        runs = store.runs()
        known = {sweep.id for sweep in sweeps}
        strange = sum(run.status is not Status.FINISHED or run.sweep not in known for run in runs)
    turns = sum(len(sweep.cells) * (1 + sweep.plan.repeats) for sweep in sweeps)
    print(f"{kills} kills, {len(sweeps)} sweeps, {turns:,} turns, {len(runs):,} runs")
    print(f"missing {missing}, twice {twice}, runs that did not finish {strange}, turns taken again {again}")
    return not (missing or twice or strange or again)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--cells", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--window", type=float, default=1.0, help="seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--sweep", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.sweep is not None:
        train(options.path, options.sweep)
        return
    moments, kills, began = random.Random(options.seed), 0, time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "ammeter.sqlite")
        sweep_id = add_sweep(path, options.cells, options.repeats)
        while kills < options.kills:
            if has_ended(path, sweep_id):
                sweep_id = add_sweep(path, options.cells, options.repeats)
            kills += is_killed(begin(path, sweep_id), moments.uniform(0.0, options.window))
        while not has_ended(path, sweep_id):
            begin(path, sweep_id).communicate()
        is_sound = show(path, kills)
    print(f"{time.monotonic() - began:.0f} s; as aimed for: {'yes' if is_sound else 'no'}")
    if not is_sound:
        sys.exit(1)


if __name__ == "__main__":
    main()
