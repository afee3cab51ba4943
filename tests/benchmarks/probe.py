"""The largest batch that fits: is the answer exact, how many trials and seconds does it take, does it last.

    uv run python tests/benchmarks/probe.py [--device cpu] [--cap-gib 24] [--again 1000]

On a CUDA card it searches ResNet-50 at 224x224 with AdamW in FP32 and FP16 under the cap, beside what the
best-known finder does with the same work on an H200; elsewhere the small CNN under 2 GiB. `--again` then
provokes so many out-of-memory errors with the next larger batch, in one worker on a card (and in one each on
a CPU), and tries the answer once more: it must pass still, and nothing may be kept between trials.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from engine.catalog import Catalog
from engine.events import Failed
from engine.experiment import Experiment, experiment_from
from engine.launcher import Launcher
from engine.probe_events import ProbeEnded, ProbeResult, ProbeStarted, Trial, Tried
from engine.probing import Prober
from engine.records.store import Store
from engine.runner import Runner
from engine.trial_bench import TrialBench

AIM = "aim: exact, <= 8 trials, <= 7 s"
FINDER = {"fp32": "270 / 18 trials / 17.2 s", "fp16": "530 / 21 trials / 26.5 s"}


def experiments(device: str, cap_gib: float | None) -> list[Experiment]:
    if device == "cpu":
        small = {
            "model": "small-cnn",
            "dataset": "synthetic",
            "image_size": 28,
            "num_classes": 10,
            "samples": 1_000_000,
        }
        base, names = {**small, "memory_cap_gib": cap_gib or 2.0}, ("fp32", "bf16")
    else:
        resnet = {"model": "resnet50", "dataset": "synthetic", "image_size": 224, "num_classes": 1_000}
        base, names = {**resnet, "memory_cap_gib": cap_gib or 24.0}, ("fp32", "fp16")
    return [
        experiment_from({**base, "device": device, "precision": name, "steps": 20, "batch_size": 1})
        for name in names
    ]


def search(prober: Prober, experiment: Experiment) -> tuple[ProbeResult, Experiment]:
    resolved = experiment
    for event in prober.probe(experiment):
        if isinstance(event, ProbeStarted):
            resolved = event.experiment
        elif isinstance(event, Failed):
            raise SystemExit(event.problem.message)
        elif isinstance(event, ProbeEnded):
            return event.result, resolved
    raise SystemExit("The search ended without a result.")


def show(result: ProbeResult, finder: str | None) -> None:
    tried = ", ".join(f"{each.batch_size:,}{'' if each.fits else ' x'}" for each in result.trials)
    proven = "verified" if result.verified else "NOT verified"
    print(f"{result.precision.label}: {result.largest_batch:,}, {proven}, bound by {result.bound_by}")
    print(f"    {len(result.trials)} trials in {result.seconds:.1f} s ({tried}); {AIM}")
    if result.peak_mib is not None and result.budget_mib is not None:
        print(f"    peak {result.peak_mib:,.1f} of {result.budget_mib:,.1f} MiB")
    if finder is not None:
        print(f"    best-known finder on an H200: {finder}")


def once(bench: TrialBench, experiment: Experiment, batch_size: int) -> tuple[Trial, float]:
    last = list(bench.run(experiment.model_copy(update={"batch_size": batch_size})))[-1]
    if not isinstance(last, Tried):
        raise SystemExit(f"A trial of {batch_size:,} ended in {last}.")
    return last.trial, last.leaked_mib


def provoke(launcher: Launcher, experiment: Experiment, result: ProbeResult, times: int) -> None:
    bench, began = TrialBench(launcher, experiment.device), time.perf_counter()
    try:
        failed = [once(bench, experiment, result.first_failure or 0) for _ in range(times)]
        after, _ = once(bench, experiment, result.largest_batch)
    finally:
        bench.close()
    fitted = sum(trial.fits for trial, _ in failed)
    seconds = time.perf_counter() - began
    print(f"    {times:,} times the next batch in {seconds:.0f} s: it fitted {fitted} times;")
    print(f"    kept after a trial at most {max(leaked for _, leaked in failed):.1f} MiB;")
    print(f"    then {after.batch_size:,} {'fits' if after.fits else 'does NOT fit'}, as before")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", help="cpu, or a card such as cuda:0; the machine's best one by default")
    parser.add_argument("--cap-gib", type=float, help="24 on a card and 2 on a CPU by default")
    parser.add_argument("--again", type=int, default=0)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        Store(Path(folder) / "runs.sqlite") as store,
        Launcher() as launcher,
    ):
        catalog: Catalog = Runner(store, launcher).catalog()
        device = options.device or catalog.devices[0].name
        prober = Prober(store, launcher, catalog)
        for experiment in experiments(device, options.cap_gib):
            launcher.prepare()
            result, resolved = search(prober, experiment)
            show(result, FINDER.get(result.precision.value) if device != "cpu" else None)
            if options.again and result.first_failure is not None:
                provoke(launcher, resolved, result, options.again)


if __name__ == "__main__":
    main()
