"""Healthy runs of all presets' models, through which the search for the first NaN or Inf must find none.

    uv run python tests/benchmarks/false_alarms.py [--steps 12] [--runs 36]

Each preset runs in each precision with its own optimizer, schedule, clipping and accumulation, but on made-up
data of a small size, since the models are what is looked at.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from itertools import islice, product
from typing import Any

from planted_faults import search_of

from engine.experiment.catalog import Precision
from engine.experiment.experiment import Experiment
from engine.experiment.presets import all_presets

PRECISIONS = (Precision.FP16, Precision.BF16, Precision.FP32, Precision.FP16_UNSCALED)
PICTURES = {"dataset": "synthetic", "image_size": 32, "num_classes": 10, "sequence_length": 32}
TOKENS = {"dataset": "synthetic-tokens", "image_size": None, "num_classes": 100, "sequence_length": 32}
SMALLER = {"causal-lm-small": "causal-lm-tiny"}


def small_runs(steps: int) -> Iterator[tuple[str, Experiment]]:
    """Each preset in each precision, on little data; those of the same name differ in precision."""
    for preset, precision in product(all_presets(), PRECISIONS):
        _, experiment = preset.experiments(has_gpu=True)[0]
        settings: dict[str, Any] = {
            **experiment.model_dump(),
            "model": SMALLER.get(experiment.model, experiment.model),
            "precision": precision,
            "device": "cpu",
            "batch_size": 4,
            "samples": 64,
            "steps": steps,
            "epochs": None,
            "memory_cap_gib": None,
            "data": {},
            "checkpoint": {},
        }
        if experiment.dataset == "synthetic-tokens":
            settings |= TOKENS
        elif experiment.dataset != "synthetic-regression":
            settings |= PICTURES
        yield f"{preset.name}, {precision.label}", Experiment.model_validate(settings)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--runs", type=int, default=36, help="at most so many")
    options = parser.parse_args()
    alarms = runs = 0
    for name, experiment in islice(small_runs(options.steps), options.runs):
        began = time.perf_counter()
        search = search_of(experiment)
        runs += 1
        alarms += search.trouble_step is not None
        print(f"{name:40} {search.sentence} {time.perf_counter() - began:.1f} s", flush=True)
        if search.first is not None:
            print(f"  ALARM: {search.first.sentence}")
    print(f"{alarms} alarms in {runs} runs")


if __name__ == "__main__":
    main()
