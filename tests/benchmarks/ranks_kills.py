"""Kills a run on two ranks at random moments: a sentence each time, nothing left running, no sample lost.

    uv run python tests/benchmarks/ranks_kills.py [--kills 50] [--seed 1]

A kill (SIGKILL) meets a rank, the process that started them, or the program that supervises it, at a moment
of up to `--window` seconds from the start on. After the program itself was killed, the next one marks its run
as interrupted; it has all samples up to a quarter of a second before.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psutil

from engine.experiment.experiment import experiment_from
from engine.protocol.events import Samples
from engine.runner import Runner
from engine.store.record import Status
from engine.store.store import Store
from engine.worker.launcher import Launcher

VICTIMS = ("rank 0", "rank 1", "worker", "program")
_MARK = "AMMETER_KILLED"
_UNSAVED = 0.5
"""Seconds: the store is written four times a second, and a busy machine may be late."""


def train(path: Path, seed: int) -> None:
    """The program: it says which step the store has been given."""
    settings = {
        "model": "linear",
        "dataset": "synthetic-regression",
        "device": "cpu",
        "devices": 2,
        "seed": seed,
    }
    experiment = experiment_from({**settings, "samples": 1_000, "batch_size": 4, "steps": 100_000})
    print("started", flush=True)
    with Store(path) as store, Launcher() as launcher:
        run = store.add(experiment)
        for event in Runner(store, launcher).run(run.id):
            if isinstance(event, Samples):
                print(event.step[-1], time.monotonic(), flush=True)


def family(program: psutil.Process) -> dict[str, psutil.Process]:
    """The processes of a program by what they are, as far as they have started."""
    found = {"program": program}
    with suppress(psutil.Error):
        workers = [child for child in program.children() if "engine.worker" in child.cmdline()]
        if workers:
            found["worker"] = workers[-1]
        ranks = [
            child for worker in workers for child in worker.children() if "engine.worker" in child.cmdline()
        ]
        found |= {f"rank {number}": rank for number, rank in enumerate(ranks)}
    return found


def left_running(mark: str) -> list[int]:
    """The processes that bear the mark, once they have had half a minute to end.

    A process that still imports torch sees only then that nobody supervises it.
    """
    deadline = time.monotonic() + 30.0
    while True:
        left = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                is_marked = process.environ().get(_MARK) == mark
                if is_marked and process.status() != psutil.STATUS_ZOMBIE:
                    left.append(process.pid)
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.1)


def kill_once(folder: Path, number: int, victim: str, after: float) -> str:
    """What became of one run, in a few words."""
    path, mark = folder / f"{number}.sqlite", f"{os.getpid()}-{number}"
    program = subprocess.Popen(
        [sys.executable, __file__, "--train", str(path), "--seed", str(number)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, _MARK: mark},
    )
    assert program.stdout is not None
    program.stdout.readline()
    began, process = time.monotonic(), psutil.Process(program.pid)
    while True:
        running = family(process)
        if time.monotonic() - began >= after and victim in running:
            with suppress(psutil.Error):
                running[victim].kill()
            break
        time.sleep(0.02)
    killed = time.monotonic()
    told = [line.split() for line in program.stdout.read().splitlines()]
    # what was told within the last moments may not be in the store yet
    due = [int(step) for step, moment in told if victim != "program" or float(moment) < killed - _UNSAVED]
    program.wait()
    if left := left_running(mark):
        return f"LEFT RUNNING: {left}"
    with Store(path) as store:
        store.recover()
        (run,) = store.runs()
        kept = len(store.samples(run.id)["step"]) if told else 0
    if due and kept < due[-1]:
        return f"SAMPLES LOST: {due[-1]} told, {kept} kept"
    if victim == "program":
        return "interrupted" if run.status is Status.INTERRUPTED else f"status {run.status}"
    return "a sentence" if run.problem is not None and run.problem.message else f"NO SENTENCE: {run.status}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--window", type=float, default=9.0, help="seconds")
    parser.add_argument("--train", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train is not None:
        train(options.train, options.seed)
        return
    drawn, found = random.Random(options.seed), Counter[tuple[str, str]]()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.kills):
            victim = VICTIMS[number % len(VICTIMS)]
            after = drawn.uniform(0.0, options.window)
            became = kill_once(Path(folder), number, victim, after)
            found[victim, became] += 1
            if became.isupper() or ":" in became:
                print(f"{victim} after {after:.1f} s: {became}", flush=True)
    for (victim, became), count in sorted(found.items()):
        print(f"{victim:10} {became:40} {count:4}")


if __name__ == "__main__":
    main()
