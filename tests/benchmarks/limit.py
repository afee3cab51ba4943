"""The largest batch: is it exact, and how many trials and seconds does the search take.

    uv run python tests/benchmarks/limit.py [--device cpu] [--cap-gib 24] [--model resnet18]
        [--precision fp16] [--seconds 60]

On a CUDA GPU it searches ResNet-50 at 224x224 with AdamW in FP32 and FP16 under the cap; on a CPU
the small CNN under 2 GiB.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from engine.experiment.checks import Catalog
from engine.experiment.experiment import Experiment, experiment_from
from engine.limit.driver import LimitDriver, TrialRunner
from engine.limit.search import Search
from engine.protocol.events import Failed
from engine.protocol.jobs import Control
from engine.protocol.trials import Limit, LimitResult, LimitSide, Tried
from engine.runner import Runner
from engine.store.saved.studies import Study
from engine.store.store import Store
from engine.training.runs.trial import try_batch
from engine.worker.launcher import Launcher

AIM = "aim: exact, <= 8 trials, <= 7 s"
_SHOWN = 100


def experiments(options: argparse.Namespace, device: str) -> list[Experiment]:
    if device == "cpu":
        base = {"model": "small-cnn", "image_size": 28, "num_classes": 10}
        cap_gib, names = 2.0, ("fp32", "bf16")
    else:
        base = {"model": "resnet50", "image_size": 224, "num_classes": 1_000}
        cap_gib, names = 24.0, ("fp32", "fp16")
    if options.model:
        base |= {"model": options.model, "image_size": 28 if options.model == "small-cnn" else 224}
    cap = {"memory_cap_gib": options.cap_gib or cap_gib, "device": device}
    data = {"dataset": "synthetic", "samples": 1_000_000, "steps": 20, "batch_size": 1}
    chosen = (options.precision,) if options.precision else names
    return [experiment_from({**base, **data, **cap, "precision": name}) for name in chosen]


def search(driver: LimitDriver, experiment: Experiment, seconds: float | None) -> LimitResult:
    """Return the result; a search that takes longer than `seconds` is stopped with what it knows."""
    until = None if seconds is None else time.monotonic() + seconds
    side = LimitSide(label=experiment.precision.label, experiment=experiment)
    for known in driver.follow(Study(answer=Limit(sides=(side,)))):
        if isinstance(known, Study):
            (side,) = known.answer.sides
        elif isinstance(known, Failed):
            raise SystemExit(known.problem.message)
        if side.trials and until is not None and time.monotonic() >= until:
            driver.stop()
    if side.result is None:
        raise SystemExit("The search ended without a result.")
    return side.result


def show(result: LimitResult) -> None:
    tried = ", ".join(f"{each.batch_size:,}{'' if each.fits else ' x'}" for each in result.trials)
    proven = "verified" if result.verified else "NOT verified"
    print(f"{result.precision.label}: {result.largest_batch:,}, {proven}, bound by {result.bound_by}")
    print(f"    {len(result.trials)} trials in {result.seconds:.1f} s ({tried}); {AIM}")
    speeds = [(each.batch_size, each.one_step_samples_per_second) for each in result.trials]
    known = ", ".join(f"{batch:,}: {speed:,.0f}" for batch, speed in sorted(speeds) if speed is not None)
    print(f"    samples/s of one step: {known or 'unknown'}")
    if result.peak_mib is not None and result.budget_mib is not None:
        print(f"    peak {result.peak_mib:,.1f} of {result.budget_mib:,.1f} MiB")


class OneProcess:
    """Trials in one process that is kept: a worker, or on a CPU, whose worker ends with a trial, this one."""

    def __init__(self, launcher: Launcher, experiment: Experiment) -> None:
        self._experiment = experiment
        is_cpu = experiment.device == "cpu"
        self._bench = None if is_cpu else TrialRunner(launcher, experiment.device)

    def close(self) -> None:
        if self._bench is not None:
            self._bench.close()

    def tried(self, batch_size: int) -> Tried:
        experiment = self._experiment.model_copy(update={"batch_size": batch_size})
        last = list(self._bench.run(experiment) if self._bench else try_batch(experiment, Control()))[-1]
        if not isinstance(last, Tried):
            raise SystemExit(f"A trial of {batch_size:,} ended in {last}.")
        return last

    def answer(self, label: str) -> tuple[int, int]:
        """Return the largest batch that fits, and the smallest that does not."""
        course = Search()
        while (batch := course.next_batch()) is not None:
            told = self.tried(batch)
            course.learn(told.trial, told.budget_mib)
        failure = course.first_failure
        assert failure is not None
        peak = next(each.peak_mib for each in course.trials if each.batch_size == course.largest_batch) or 0.0
        print(
            f"    {label}: {course.largest_batch:,} fits with a peak of {peak:,.1f} MiB, "
            f"{failure.batch_size:,} does not; {len(course.trials)} trials",
            flush=True,
        )
        return course.largest_batch, failure.batch_size


def show_baselines(told: Sequence[Tried], what: str, seconds: float) -> None:
    baselines = [each.baseline_mib for each in told]
    leaks = [each.leaked_mib for each in told]
    failures = [each.trial for each in told if not each.trial.fits]
    print(
        f"    {what}: {len(told):,} trials, {len(failures):,} of them out of memory, in {seconds:,.0f} s; "
        f"held between trials: {baselines[0]:,.2f} MiB before the first and {baselines[-1]:,.2f} before the "
        f"last ({min(baselines):,.2f} to {max(baselines):,.2f}); "
        f"still held after a trial: median {statistics.median(leaks):.2f}, most {max(leaks):.2f} MiB"
    )
    if len(told) <= _SHOWN:
        print("    MiB before each: " + " ".join(f"{each:.1f}" for each in baselines))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", help="cpu, or a GPU such as cuda:0; the machine's best one by default")
    parser.add_argument("--cap-gib", type=float, help="24 on a GPU and 2 on a CPU by default")
    parser.add_argument("--precision", help="one alone")
    parser.add_argument("--model")
    parser.add_argument("--seconds", type=float, help="no trial starts after so many")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        Store(Path(folder) / "runs.sqlite") as store,
        Launcher() as launcher,
    ):
        catalog: Catalog = Runner(store, launcher).catalog()
        device = options.device or catalog.devices[0].name
        driver = LimitDriver(store, launcher, catalog)
        for experiment in experiments(options, device):
            result = search(driver, experiment, options.seconds)
            show(result)


if __name__ == "__main__":
    main()
