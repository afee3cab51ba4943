"""What the sampling of ranges costs a run: off, against the same loop without it, and every 10 steps.

    uv run python tests/benchmarks/numerics_off.py [--device cpu] [--rounds 20] [--steps 150] [--recipe R]

"Without" is the loop from which the hook was taken by hand: one comparison a step. The three take turns in
one process, in an order that rotates; their losses must be equal to the last bit on a CPU. Speeds are the
runs' own, the median over blocks, without the time of sampling.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator

import torch

from engine.experiment.experiment import Experiment, layered
from engine.protocol.events import Event, Finished, Samples, Summary
from engine.protocol.jobs import Control
from engine.training.runs import loop
from engine.training.runs.run import Run

EVERY = 10
ARMS = ("without", "off", f"every {EVERY}")


def without_hook(run: Run, sampler: object) -> Iterator[Event]:
    """`loop._train_epoch` as it was before a run could be sampled."""
    yield from loop._enter(run, run.training_phase)
    groups = run.groups()
    run.telemetry.begin()
    for group in groups:
        run.train_on(group)
        if run.telemetry.is_due():
            yield from loop._take(run, run.telemetry.collect())
            yield from loop._send(run)
        if run.is_complete or run.must_end:
            break
        if run.control.pause_requested.is_set():
            yield from loop._pause(run)
            if run.must_end:
                break
        yield from loop._enter(run, run.training_phase)
    yield from loop._take(run, run.telemetry.flush())
    if run.telemetry.is_due():
        yield from loop._send(run)


def train(experiment: Experiment, arm: str) -> tuple[tuple[float, ...], Summary, float]:
    """The losses and the summary of a run, and its seconds by the clock."""
    every = EVERY if arm == ARMS[2] else 0
    measure = experiment.measure.model_copy(update={"range_every": every})
    whole = loop._train_epoch
    if arm == ARMS[0]:
        loop._train_epoch = without_hook
    began = time.perf_counter()
    try:
        events = list(loop.train(experiment.model_copy(update={"measure": measure}), Control()))
    finally:
        loop._train_epoch = whole
    seconds = time.perf_counter() - began
    assert isinstance(events[-1], Finished)
    losses = tuple(loss for event in events if isinstance(event, Samples) for loss in event.loss)
    return losses, events[-1].summary, seconds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda:0" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--recipe", default="plain")
    arguments = parser.parse_args()
    is_card = arguments.device.startswith("cuda")
    base = {
        "model": "resnet18" if is_card else "small-cnn",
        "dataset": "synthetic",
        "image_size": 32 if is_card else 28,
        "batch_size": 128 if is_card else 64,
        "samples": 4_096,
        "device": arguments.device,
        "precision": "fp16" if is_card else "fp32",
        "steps": arguments.steps,
        "validation": {"every": 0},
        "step": {"recipe": arguments.recipe},
    }
    experiment = Experiment.model_validate(layered(base, {}))
    print(
        f"{base['model']}, {arguments.steps} steps, {arguments.recipe}, {arguments.rounds} rounds", flush=True
    )
    speeds: dict[str, list[float]] = {arm: [] for arm in ARMS}
    sampling, same = [], True
    for number in range(arguments.rounds):
        first = number % len(ARMS)
        losses = {}
        for arm in (*ARMS[first:], *ARMS[:first]):
            losses[arm], summary, seconds = train(experiment, arm)
            if summary.samples_per_second is not None:
                speeds[arm].append(summary.samples_per_second)
            if summary.sampling_seconds is not None:
                sampling.append(summary.sampling_seconds / (arguments.steps // EVERY))
                whole = seconds / max(1e-9, seconds - summary.sampling_seconds)
        same = same and len(set(losses.values())) == 1
    print(f"losses {'equal to the last bit' if same else 'differ'}")
    for arm in ARMS[1:]:
        ratios = [one / other for one, other in zip(speeds[arm], speeds[ARMS[0]], strict=True)]
        if ratios:
            low, high = min(ratios), max(ratios)
            print(f"speed {arm}: {statistics.median(ratios):.3f} of without ({low:.3f} to {high:.3f})")
    if sampling:
        print(f"a sample took {1e3 * statistics.median(sampling):.1f} ms")
        print(f"the last run took {whole:.2f} times as long by the clock")


if __name__ == "__main__":
    main()
