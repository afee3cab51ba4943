"""How long Check takes on a model: with a worker that has yet to import torch, and with one that is ready.

    uv run python tests/benchmarks/check_time.py [--model resnet50] [--image-size 224] [--repeats 3]

The aim is less than 5 seconds for ResNet-50, and no process left running. "Passes" is what the worker itself
took to build the model and to pass two batches of 2 through it, forward and backward, in FP32 and under
autocast.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import psutil

from engine.experiment.experiment import Experiment, experiment_from
from engine.protocol.advice import Checked
from engine.runner import Runner
from engine.store.store import Store
from engine.worker.launcher import Launcher

PRECISIONS = ("fp32", "bf16", "fp16")


def experiment_of(model: str, image_size: int, precision: str) -> Experiment:
    settings = {"model": model, "dataset": "synthetic", "image_size": image_size, "precision": precision}
    return experiment_from({**settings, "device": "cpu"})


def timed(runner: Runner, experiment: Experiment) -> tuple[float, Checked]:
    began = time.perf_counter()
    checked = runner.check(experiment)
    return time.perf_counter() - began, checked


def left_running(before: set[int]) -> int:
    """Processes that this one has started since, and that live."""
    children = psutil.Process().children(recursive=True)
    return sum(child.pid not in before and child.status() != psutil.STATUS_ZOMBIE for child in children)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--precision", nargs="*", default=PRECISIONS)
    options = parser.parse_args()
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    print(f"{options.model}, {options.image_size} pixels; seconds, the median of {options.repeats}")
    print(f"{'precision':<12}{'cold':>8}{'warm':>8}{'passes':>8}  findings  left running")
    with tempfile.TemporaryDirectory() as folder:
        for precision in options.precision:
            experiment = experiment_of(options.model, options.image_size, precision)
            cold, warm, passes, findings = [], [], [], 0
            for _ in range(options.repeats):
                with Store(Path(folder) / "runs.sqlite") as store, Launcher() as launcher:
                    runner = Runner(store, launcher)
                    cold.append(timed(runner, experiment)[0])
                    seconds, checked = timed(runner, experiment)
                    warm.append(seconds)
                    passes.append(checked.seconds)
                    findings = len(checked.findings)
            columns = "".join(f"{statistics.median(column):8.2f}" for column in (cold, warm, passes))
            print(f"{precision:<12}{columns}  {findings:>8}  {left_running(before):>12}")


if __name__ == "__main__":
    main()
