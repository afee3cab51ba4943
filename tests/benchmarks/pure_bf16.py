"""FP8, pure BF16 and AdamW in few bits beside BF16 AMP: losses, unchanged weights, memory of the states.

`uv run python tests/benchmarks/pure_bf16.py [--steps N] [--seeds N]` tells whether each side's loss, a mean
over the seeds, lies in the band of BF16 AMP's. FP8 is emulated on a CPU. It trains a small language model on
Python's own source. torchao's updates run uncompiled: compiling takes longer, and changes no result.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from typing import Any

import torch

from engine.experiment.experiment import Experiment, experiment_from, layered
from engine.protocol.events import Finished, Samples
from engine.protocol.jobs import Control
from engine.protocol.summary import Summary
from engine.training.forecast import forecast
from engine.training.runs.loop import train

BASE: dict[str, Any] = {
    "model": "causal-lm-tiny",
    "dataset": "python-source",
    "sequence_length": 32,
    "batch_size": 8,
    "device": "cpu",
    "precision": "bf16",
    "optimizer": {"name": "adamw", "learning_rate": 1e-3},
    "validation": {"every": 0},
}
PURE: dict[str, Any] = {"precision": "bf16-pure"}
ROUNDED = {**PURE, "optimizer": {"stochastic_rounding": True}}
SCALINGS = ("tensorwise", "rowwise", "rowwise_with_gw_hp")
LINES: dict[str, dict[str, Any]] = {
    "BF16 AMP": {},
    **{f"FP8 {scaling}": {"precision": "fp8", "step": {"fp8_recipe": scaling}} for scaling in SCALINGS},
    "BF16 AMP, AdamW 8 bits": {"optimizer": {"name": "adamw-8bit"}},
    "BF16 AMP, AdamW 4 bits": {"optimizer": {"name": "adamw-4bit"}},
    "BF16 AMP, AdamW FP8": {"optimizer": {"name": "adamw-fp8"}},
    "pure BF16": PURE,
    "pure BF16, stochastic": ROUNDED,
    "pure BF16, stochastic, 8 bits": layered(ROUNDED, {"optimizer": {"name": "adamw-8bit"}}),
}
SLOWLY = {"optimizer": {"learning_rate": 1e-5}}
SLOW_LINES = {
    name: layered(LINES[name], SLOWLY) for name in ("BF16 AMP", "pure BF16", "pure BF16, stochastic")
}
LAST = 20


def trained(experiment: Experiment) -> tuple[list[float], Summary]:
    """The loss of each step, and the summary."""
    events = list(train(experiment, Control()))
    losses = [loss for event in events if isinstance(event, Samples) for loss in event.loss]
    end = events[-1]
    assert isinstance(end, Finished)
    return losses, end.summary


def line(name: str, settings: dict[str, Any], steps: int, seeds: int, band: list[float]) -> list[float]:
    """Trains with several seeds, and prints a row; returns the last losses."""
    lasts = []
    for seed in reversed(range(seeds)):  # the other columns are of seed 0
        experiment = experiment_from(layered(BASE, {"steps": steps, "seed": seed}, settings))
        losses, summary = trained(experiment)
        lasts.append(statistics.fmean(losses[-LAST:]))
    expected = forecast(experiment)
    mean = statistics.fmean(lasts)
    where = "in" if not band or min(band) <= mean <= max(band) else f"{mean - statistics.fmean(band):+.4f}"
    share = summary.unchanged_weights_fraction
    unchanged = "" if share is None else f"{100 * share:.1f}%"
    made, told = summary.optimizer_state_mib or 0.0, expected.optimizer_state_mib
    off = 100 * (told / made - 1)
    print(
        f"| {name} | {losses[0]:.4f} | {mean:.4f} ({min(lasts):.4f} to {max(lasts):.4f}) | {where} "
        f"| {unchanged} | {summary.parameters_mib:.2f} | {made:.2f} "
        f"| {told:.2f} ({off:+.1f}%) |",
        flush=True,
    )
    return lasts


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.compiler.set_stance("force_eager")
    for title, lines in (("1e-3", LINES), ("1e-5", SLOW_LINES)):
        print(f"\nLearning rate {title}, {asked.steps} steps\n")
        print(
            f"| run | first loss | mean of last {LAST} | band | unchanged | weights | states MiB | forecast |"
        )
        print("| --- | --- | --- | --- | --- | --- | --- | --- |")
        band: list[float] = []
        for name, settings in lines.items():
            lasts = line(name, settings, asked.steps, asked.seeds, band)
            band = band or lasts


if __name__ == "__main__":
    main()
