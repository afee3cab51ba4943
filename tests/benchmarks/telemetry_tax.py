"""What telemetry costs: one training step with its figures recorded and told, over the same without.

    uv run python tests/benchmarks/telemetry_tax.py [--device cpu] [--pairs 40] [--steps 100] [--recipe fast]

The step is the same object throughout; stretches of steps alternate between the two. With telemetry on, each
step is marked and its row kept, and what has arrived is made into the events that a worker writes.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Iterator

import torch
from by_hand import Workload
from side_by_side import experiment_of, print_heading, print_ratio

from engine.training.measuring.telemetry import Rows, Telemetry, samples_event
from engine.training.models.build import loss_for
from engine.training.steps.plain import PlainStep
from engine.training.steps.recipe import build_step, cudnn_search

Batches = Iterator[tuple[torch.Tensor, torch.Tensor]]


def with_telemetry(step: PlainStep, telemetry: Telemetry, batches: Batches, steps: int) -> None:
    telemetry.begin()
    for _ in range(steps):
        inputs, targets = next(batches)
        telemetry.record(step([(inputs, targets)]), len(targets), 1e-3, is_reused=step.is_replayed)
        if telemetry.is_due():
            tell(telemetry.collect())
    tell(telemetry.flush())


def tell(rows: list[Rows]) -> None:
    if rows:
        samples_event(rows, {}).model_dump_json()


def without(step: PlainStep, batches: Batches, steps: int) -> None:
    for _ in range(steps):
        inputs, targets = next(batches)
        step([(inputs, targets)])


def workload_for(device: torch.device, steps: int) -> Workload:
    if device.type == "cuda":
        return Workload("resnet18", 128, 32, 100, "fp16", device, steps)
    return Workload("small-cnn", 64, 28, 10, "fp32", device, steps)


def measure(workload: Workload, recipe: str, pairs: int) -> tuple[list[float], list[float]]:
    """The speeds with and without, samples per second; the device is waited for around each stretch."""
    experiment = experiment_of(workload, recipe)
    device = workload.device
    step = build_step(
        workload.network(), loss_for("classification", 0.0), experiment, device, is_convolutional=True
    )
    batches = itertools.cycle(workload.batches(step.memory_format))
    telemetry = Telemetry(device, step.columns)
    with cudnn_search(bool(experiment.step.parts)):
        without(step, batches, min(2 * workload.warmup, workload.steps))
        found: tuple[list[float], list[float]] = ([], [])
        for pair in range(pairs):
            for arm in (0, 1) if pair % 2 == 0 else (1, 0):
                begun = waited(device)
                if arm == 0:
                    with_telemetry(step, telemetry, batches, workload.steps)
                else:
                    without(step, batches, workload.steps)
                found[arm].append(workload.steps * workload.batch_size / (waited(device) - begun))
    return found


def waited(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda:0" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--recipe", action="append", help="plain, fast or parts of it; repeatable")
    options = parser.parse_args()
    device = torch.device(options.device)
    print_heading(device)
    for recipe in options.recipe or ["plain", "fast"]:
        workload = workload_for(device, options.steps)
        told, silent = measure(workload, recipe, options.pairs)
        pairs = [[value] for value in told], [[value] for value in silent]
        print_ratio(f"{workload}, {recipe}: telemetry on / off", *pairs, 0.995)


if __name__ == "__main__":
    main()
