"""Whether mixed precision costs accuracy: the preset `fashion` in each precision, over five seeds.

    uv run python tests/benchmarks/accuracy.py [--seeds 5] [--precision fp32 --precision bf16]
        [--epochs N] [--steps N]

It prints each precision's mean accuracy on the validation pictures after the last epoch, and how many points
it is from that of the first; the aim is within one point. The standard deviation is over seeds.
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

import torch

from engine.experiment.experiment import experiment_from, layered
from engine.experiment.presets import preset
from engine.protocol.events import Finished
from engine.protocol.jobs import Control
from engine.training.runs.loop import train

AIM_POINTS = 1.0


def accuracy(settings: dict[str, Any]) -> float:
    """The final validation accuracy of a run, in points (0 to 100)."""
    *_, last = train(experiment_from(settings), Control())
    assert isinstance(last, Finished) and last.summary.final_validation_accuracy is not None
    return 100 * last.summary.final_validation_accuracy


def main() -> None:
    has_gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--epochs", type=int)
    length.add_argument("--steps", type=int)
    parser.add_argument("--precision", action="append", help="repeatable; the first is compared with")
    parser.add_argument("--recipe", default="plain")
    options = parser.parse_args()
    base = layered(preset("fashion").base(has_gpu), {"step": {"recipe": options.recipe}})
    if options.epochs or options.steps:
        base = layered(base, {"epochs": options.epochs, "steps": options.steps})
    precisions = options.precision or (["fp32", "bf16", "fp16"] if has_gpu else ["fp32", "bf16"])
    found: dict[str, list[float]] = {name: [] for name in precisions}
    print(f"{'precision':<16}{'mean %':>8}{'sd':>7}{'points':>9}{'aim':>12}   each seed")
    for seed in range(options.seeds):
        for name in precisions:
            found[name].append(accuracy(layered(base, {"precision": name, "seed": seed})))
    first = statistics.mean(found[precisions[0]])
    for name, values in found.items():
        mean = statistics.mean(values)
        spread = statistics.stdev(values) if len(values) > 1 else 0.0
        aim = "" if name == precisions[0] else f"within {AIM_POINTS:g}"
        each = " ".join(f"{value:.1f}" for value in values)
        print(f"{name:<16}{mean:>8.2f}{spread:>7.2f}{mean - first:>+9.2f}{aim:>12}   {each}")


if __name__ == "__main__":
    main()
