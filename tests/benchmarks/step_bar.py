"""How well the parts of a step's time add up to the step as it is without the profiler.

    uv run python tests/benchmarks/step_bar.py [--device cuda] [--model resnet50 vit_b_16]
        [--precision fp32 fp16] [--batch-size 16] [--repeats 3]

The aim is within 3%. "recorded" is a step under the profiler; "raw" is what its records add up to, on a CPU
less the profiler's cost for every operation, on a device with the gaps that the profiler made; "work" is what
the records of work alone add up to, before they are fitted to the step; "bar" is what is shown. Where work is
longer than the step, it is scaled by "scale". Medians of the repeats.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Collection
from unittest.mock import patch

import torch

from engine.experiment.experiment import Experiment, experiment_from
from engine.protocol import jobs
from engine.protocol.jobs import Control
from engine.protocol.profile import Limits, StepPart
from engine.training.profile import profile as profile_module
from engine.training.profile.bar import StepBar, step_bar
from engine.training.profile.profile import profile_steps
from engine.training.profile.trace import Trace

_LIMITS = Limits(peaks=(), gb_per_second=1.0)
COLUMNS = ("step", "recorded", "raw", "work", "bar", "raw %", "bar %", "scale", "call us")


def figures(experiment: Experiment) -> dict[str, float]:
    """What a profile's step adds up to, in milliseconds, and how far that is from the step in percent."""
    found: list[tuple[float, StepBar]] = []

    def watched(trace: Trace, step_ms: float, wait_ms: float, units: Collection[str] = ()) -> StepBar:
        bar = step_bar(trace, step_ms, wait_ms, units)
        found.append((step_ms, bar))
        return bar

    with patch.object(profile_module, "step_bar", watched):
        for _ in profile_steps(jobs.Profile(experiment=experiment, trace=None, limits=_LIMITS), Control()):
            pass
    ((step_ms, bar),) = found
    gaps = bar.bar.ms(StepPart.HOST) + bar.bar.ms(StepPart.DATA)
    return {
        "step": step_ms,
        "recorded": bar.recorded_ms,
        "raw": bar.raw_ms,
        "work": (bar.bar.total_ms - gaps) / bar.scale,
        "bar": bar.bar.total_ms,
        "raw %": 100 * (bar.raw_ms / step_ms - 1),
        "bar %": 100 * (bar.bar.total_ms / step_ms - 1),
        "scale": bar.scale,
        "call us": bar.call_us,
    }


def experiment_of(model: str, device: str, precision: str, batch_size: int) -> Experiment:
    settings = {"model": model, "device": device, "precision": precision, "batch_size": batch_size}
    pictures = {"dataset": "synthetic", "image_size": 28 if model == "small-cnn" else 224}
    is_language = model.startswith("causal-lm")
    data = {"dataset": "synthetic-tokens"} if is_language else pictures
    return experiment_from({**settings, **data, "samples": 40 * batch_size, "steps": 40})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    is_cuda = torch.cuda.is_available()
    parser.add_argument("--device", default="cuda" if is_cuda else "cpu")
    models = ["resnet50", "vit_b_16", "causal-lm-tiny"] if is_cuda else ["small-cnn", "causal-lm-tiny"]
    parser.add_argument("--model", nargs="+", default=models)
    parser.add_argument("--precision", nargs="+", default=["fp32", "fp16"] if is_cuda else ["fp32", "bf16"])
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print(f"milliseconds; batch {options.batch_size}, the median of {options.repeats}")
    print(f"{'model':<16}{'precision':<10}" + "".join(f"{name:>10}" for name in COLUMNS))
    for model in options.model:
        for precision in options.precision:
            experiment = experiment_of(model, options.device, precision, options.batch_size)
            rounds = [figures(experiment) for _ in range(options.repeats)]
            medians = (statistics.median(each[name] for each in rounds) for name in COLUMNS)
            print(f"{model:<16}{precision:<10}" + "".join(f"{value:10.3f}" for value in medians), flush=True)


if __name__ == "__main__":
    main()
