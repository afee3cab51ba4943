"""How long a numerics study takes: map and ranges of small-cnn on a CPU, of ResNet-50 on a GPU.

    uv run python tests/benchmarks/numerics_time.py [--model resnet50] [--device cuda] [--repeats 3]
        [--batch-size 64] [--precision fp16]

The aim is at most 5 seconds for small-cnn on a CPU and 20 for ResNet-50 on a GPU. Without a model both are
timed, ResNet-50 only where there is a GPU. The import of torch does not count; "start" is the time until the
data and the model are there.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch

from engine.experiment.experiment import Experiment, experiment_from
from engine.protocol import jobs
from engine.protocol.events import PartMeasured, Phase, PhaseName
from engine.protocol.jobs import Control
from engine.training.numerics.parts import study_numerics

COLUMNS = ("start", "map", "range", "advice", "all")


def timed(experiment: Experiment) -> dict[str, float]:
    """Seconds of a numerics study, by what took them."""
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--device", default="cpu", help="for --model")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--precision", help="else BF16 on a CPU, FP16 on a GPU")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    cases = [(options.model, options.device)] if options.model else [("small-cnn", "cpu")]
    if not options.model and torch.cuda.is_available():
        cases.append(("resnet50", "cuda"))
    print(f"seconds, the median of {options.repeats}; batch {options.batch_size}")
    print(f"{'model':<14}{'device':<8}{'precision':<10}" + "".join(f"{name:>9}" for name in COLUMNS))
    for model, device in cases:
        precision = options.precision or ("bf16" if device == "cpu" else "fp16")
        experiment = experiment_of(model, device, precision, options.batch_size)
        times = [timed(experiment) for _ in range(options.repeats)]
        medians = (statistics.median(seconds.get(name, 0.0) for seconds in times) for name in COLUMNS)
        print(
            f"{model:<14}{device:<8}{precision:<10}" + "".join(f"{median:9.2f}" for median in medians),
            flush=True,
        )


if __name__ == "__main__":
    main()
