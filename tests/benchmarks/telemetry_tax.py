"""Cost of the telemetry, part by part: microseconds per step more than the same step without it.

    uv run python tests/benchmarks/telemetry_tax.py [--device cpu] [--seconds 60] [--steps 25] [--recipe fast]

One step object trains throughout. Each round has a short stretch of every arm, in random order. `off again`
is a control: if its interval is wide or does not include 0, the other results mean nothing. Each arm after
the telemetry adds another part of a run to the arm before it.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial

import numpy as np
import torch
from by_hand import Workload
from side_by_side import experiment_of, median_interval

from engine.protocol.events import Event, to_line
from engine.training.measuring.memory import memory_meter
from engine.training.measuring.sensors import sensor_gauge
from engine.training.measuring.telemetry import Mark, Rows, Telemetry, clock_for, samples_event
from engine.training.models.build import build_loss
from engine.training.steps.recipe import build_step, cudnn_search
from engine.worker.__main__ import EventWriter

OFF, CONTROL, TELEMETRY = "off", "off again", "telemetry"
_WARM_STEPS = 40
_CALLS = 200


class Stretches:
    """One training step, and stretches of it with parts of the telemetry."""

    def __init__(self, workload: Workload, recipe: str) -> None:
        self._device, self._workload = workload.device, workload
        experiment = experiment_of(workload, recipe)
        loss = build_loss("classification", 0.0)
        self.step = build_step(workload.network(), loss, experiment, self._device, is_convolutional=True)
        self.searches = bool(experiment.step.parts)
        self._batches = itertools.cycle(workload.batches(self.step.memory_format))
        self._telemetry = Telemetry(self._device, self.step.columns)
        self._clock, self._meter = clock_for(self._device), memory_meter(self._device)
        self._writer = EventWriter(os.open(os.devnull, os.O_WRONLY))

    def arms(self) -> dict[str, Callable[[], None]]:
        """Return a function for each arm, which trains one stretch."""
        return {
            OFF: self.bare,
            CONTROL: self.bare,
            "marks, made anew": partial(self._marked, is_released=False),
            "marks, used again": partial(self._marked, is_released=True),
            "rows copied": self._copied,
            "telemetry, not sent": partial(self._recorded, dict, lambda event: None),
            TELEMETRY: partial(self._recorded, dict, to_line),
            "and memory": partial(self._recorded, self._meter.sample, to_line),
            "and a writer's thread": partial(self._recorded, self._meter.sample, self._writer.put),
            "and the GPU's thread": self._gauged,
        }

    def calls(self) -> dict[str, Callable[[], object]]:
        """Return what is timed by itself, on an accelerator."""
        if self._device.type == "cpu":
            return {}
        module = torch.get_device_module(self._device)
        return {
            "a mark": self._clock.mark,
            "a memory sample": self._meter._read,
            "mem_get_info": partial(module.mem_get_info, self._device),
            "memory_stats": partial(module.memory_stats, self._device),
        }

    def wait(self) -> float:
        """Wait for the device; return the time."""
        if self._device.type != "cpu":
            torch.accelerator.synchronize(self._device)
        return time.perf_counter()

    def bare(self) -> None:
        for _ in range(self._workload.steps):
            self.step([next(self._batches)])

    def _marked(self, *, is_released: bool) -> None:
        held: list[Mark] = []
        for _ in range(self._workload.steps):
            held.append(self._clock.mark())
            self.step([next(self._batches)])
            held.append(self._clock.mark())
        for mark in held if is_released else ():
            self._clock.release(mark)

    def _copied(self) -> None:
        kept = [self.step([next(self._batches)]).clone() for _ in range(self._workload.steps)]
        kept.clear()

    def _recorded(self, now: Callable[[], dict[str, float]], send: Callable[[Event], object]) -> None:
        telemetry, samples = self._telemetry, self._workload.batch_size

        def report(rows: list[Rows]) -> None:
            if rows:
                send(samples_event(rows, now()))

        telemetry.begin()
        for _ in range(self._workload.steps):
            row = self.step([next(self._batches)])
            telemetry.record(row, samples, 1e-3, is_reused=self.step.is_replayed)
            if telemetry.is_due():
                report(telemetry.collect())
        report(telemetry.flush())

    def _gauged(self) -> None:
        with closing(sensor_gauge(self._device)):
            self._recorded(self._meter.sample, self._writer.put)


def measure(workload: Workload, recipe: str, seconds: float) -> dict[str, list[float]]:
    """Return the microseconds of a step in each arm, a figure for each round; at least one round."""
    stretches = Stretches(workload, recipe)
    found: dict[str, list[float]] = {name: [] for name in stretches.arms()}
    order = random.Random(0)
    with cudnn_search(stretches.searches):
        for _ in range(-(-_WARM_STEPS // workload.steps) if workload.device.type != "cpu" else 1):
            stretches.bare()
        until = time.perf_counter() + seconds
        while not found[OFF] or time.perf_counter() < until:
            for name, train in order.sample(list(stretches.arms().items()), len(found)):
                began = stretches.wait()
                train()
                found[name].append((stretches.wait() - began) / workload.steps * 1e6)
    for name, call in stretches.calls().items():
        print(f"{name:<24}{_microseconds(call):>9.1f} us", flush=True)
    return found


def overhead(found: Mapping[str, Sequence[float]], name: str) -> tuple[float, float, float]:
    """Return the median over rounds of an arm's microseconds per step beyond `off`, with its 95% interval."""
    return median_interval((np.array(found[name]) - np.array(found[OFF])).tolist())


def show(found: Mapping[str, Sequence[float]], what: str) -> None:
    """Print a line for each arm."""
    off = float(np.median(found[OFF]))
    print(f"{what}: {off:,.0f} us a step, {len(found[OFF])} rounds")
    print(f"{'':<24}{'us a step':>10}{'95% interval':>22}{'speed over off':>16}")
    for name in found:
        more, low, high = overhead(found, name)
        interval = f"{low:,.1f} to {high:,.1f}"
        print(f"{name:<24}{more:>10.1f}{interval:>22}{off / (off + more):>16.4f}", flush=True)


def workload_for(device: torch.device, steps: int) -> Workload:
    if device.type == "cuda":
        return Workload("resnet18", 128, 32, 100, "fp16", device, steps)
    return Workload("small-cnn", 64, 28, 10, "fp32", device, steps)


def _microseconds(call: Callable[[], object]) -> float:
    times = []
    for _ in range(_CALLS):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return float(np.median(times)) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda:0" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each recipe")
    parser.add_argument("--steps", type=int, default=25, help="of a stretch")
    parser.add_argument("--recipe", action="append", help="plain, fast or parts of it; repeatable")
    options = parser.parse_args()
    device = torch.device(options.device)
    workload = workload_for(device, options.steps)
    for recipe in options.recipe or ["plain", "fast"]:
        show(measure(workload, recipe, options.seconds), f"{workload}, {recipe}")


if __name__ == "__main__":
    main()
