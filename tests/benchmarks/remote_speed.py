"""The same experiment here and through ssh, in alternation: its speed, and the time to its first sample.

    uv run python tests/benchmarks/remote_speed.py [--repeats 5]

The machine is this one, through an sshd of its own on the loopback. The time begins when the job is given to
a worker that waits for one, and ends when the first samples are here.
"""

from __future__ import annotations

import argparse
import statistics
import time
from contextlib import closing

import pytest

from engine.experiment.experiment import experiment_from
from engine.machines.remote_site import launcher_on
from engine.protocol import jobs
from engine.protocol.events import Failed, Finished, Samples
from engine.worker.launcher import Launcher, iterate
from tests.remote import eventually, remote_machine

_JOB = jobs.Train(
    experiment=experiment_from(
        {"model": "linear", "dataset": "synthetic-regression", "device": "cpu", "samples": 10_000}
        | {"batch_size": 2_000, "steps": 5_000, "measure": {"warmup_steps": 100, "block_steps": 100}}
    )
)


def measure(launcher: Launcher) -> tuple[float, float]:
    """Samples per second, and seconds to the first ones."""
    launcher.prepare()
    eventually(lambda: launcher.has_ready_spare, 60)
    began, first = time.perf_counter(), 0.0
    with closing(launcher.start(_JOB)) as session:
        for event in iterate(session):
            if isinstance(event, Samples) and not first:
                first = time.perf_counter() - began
            if isinstance(event, Failed):
                raise SystemExit(event.problem.message)
            if isinstance(event, Finished):
                speed = event.summary.samples_per_second
    # the next one must not share the machine with a spare
    launcher.close()
    assert speed is not None
    return speed, first


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    ratios, firsts = [], {"here": list[float](), "through ssh": list[float]()}
    with pytest.MonkeyPatch.context() as patch, remote_machine(patch) as machine:
        patch.setenv("OMP_NUM_THREADS", "1")
        arms = {"here": Launcher(), "through ssh": launcher_on(machine.machine)}
        for number in range(options.repeats):
            speeds = {}
            for name in sorted(arms, reverse=number % 2 == 1):
                speeds[name], first = measure(arms[name])
                firsts[name].append(first)
                print(
                    f"{name:12} {speeds[name]:8.1f} samples/s, first sample after {first:.2f} s", flush=True
                )
            ratios.append(speeds["through ssh"] / speeds["here"])
    low, high = min(ratios), max(ratios)
    print(f"speed through ssh / here: median {statistics.median(ratios):.3f} ({low:.3f} to {high:.3f})")
    for name, seconds in firsts.items():
        print(f"first sample {name}: median {statistics.median(seconds):.2f} s, at most {max(seconds):.2f} s")


if __name__ == "__main__":
    main()
