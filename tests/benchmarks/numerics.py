"""Time of the map and ranges, and whether the search for the first NaN or Inf names planted faults.

    uv run python tests/benchmarks/numerics.py [--model resnet50] [--device cuda] [--repeats 3]
        [--batch-size 64] [--precision fp16] [--faults] [--fault NAME]

The aim is at most 5 seconds for small-cnn on a CPU and 20 for ResNet-50 on a GPU, without the import of
torch; "start" is the time until data and model are there. Faults are searched in FP16 on the CPU. A fault is
named if its module, direction and operation are named, and its cause is one that fits.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import torch
from planted import PLANTED
from side_by_side import print_spreads

from engine.experiment.experiment import Experiment, experiment_from
from engine.protocol import jobs
from engine.protocol.events import PartMeasured, Phase, PhaseName
from engine.protocol.jobs import Control
from engine.protocol.numerics import NonfiniteSearch
from engine.training.numerics.study import study_numerics


def timed(experiment: Experiment) -> dict[str, float]:
    """Return the seconds of the map and the ranges, by part."""
    began = last = time.perf_counter()
    seconds: dict[str, float] = {}
    for event in study_numerics(jobs.StudyNumerics(experiment=experiment, parts=("map", "range")), Control()):
        now = time.perf_counter()
        if isinstance(event, PartMeasured):
            seconds[event.result.part] = now - last
            last = now
        elif isinstance(event, Phase) and event.name is PhaseName.NUMERICS and "start" not in seconds:
            seconds["start"] = now - last
            last = now
    return {**seconds, "all": time.perf_counter() - began}


def experiment_of(model: str, device: str, precision: str, batch_size: int) -> Experiment:
    settings = {"model": model, "dataset": "synthetic", "device": device, "precision": precision}
    size = 224 if model != "small-cnn" else 28
    samples = max(256, batch_size)
    return experiment_from({**settings, "batch_size": batch_size, "image_size": size, "samples": samples})


def search_of(experiment: Experiment) -> NonfiniteSearch:
    """Return the result of the search over the full run."""
    job = jobs.StudyNumerics(experiment=experiment, parts=("nan",))
    results = [event.result for event in study_numerics(job, Control()) if isinstance(event, PartMeasured)]
    (search,) = (result for result in results if isinstance(result, NonfiniteSearch))
    return search


def search_faults(name: str | None) -> None:
    """Print a line for each planted fault, or for the one of that name."""
    chosen = [planted for planted in PLANTED if name in (None, planted.name)]
    named = 0
    for planted in chosen:
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            search = search_of(planted.experiment(Path(folder)))
        first = search.first
        found = f"{first.module}: {first.operation}, {first.direction}, {first.cause}" if first else "nothing"
        is_named = planted.is_named_by(search)
        named += is_named
        verdict = "named" if is_named else "MISSED"
        print(f"{verdict:7} {planted.name:50} {found:55} {time.perf_counter() - began:5.1f} s", flush=True)
    print(f"{named} of {len(chosen)} named")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model")
    parser.add_argument("--device", default="cpu", help="for --model")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--precision", help="otherwise BF16 on a CPU, FP16 on a GPU")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--faults", action="store_true", help="search the planted faults")
    parser.add_argument("--fault", help="search the planted fault of that name")
    options = parser.parse_args()
    if options.faults or options.fault:
        search_faults(options.fault)
        return
    cases = [(options.model, options.device)] if options.model else [("small-cnn", "cpu")]
    if not options.model and torch.cuda.is_available():
        cases.append(("resnet50", "cuda"))
    for model, device in cases:
        precision = options.precision or ("bf16" if device == "cpu" else "fp16")
        experiment = experiment_of(model, device, precision, options.batch_size)
        times = [timed(experiment) for _ in range(options.repeats)]
        columns = {name: [one.get(name, 0.0) for one in times] for name in times[0]}
        print_spreads(f"{model} on {device}, {precision}, batch {options.batch_size}: seconds", columns)


if __name__ == "__main__":
    main()
