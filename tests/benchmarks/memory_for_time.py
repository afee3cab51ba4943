"""Memory for time: peak memory and speed of each way to keep fewer activations, beside the forecast.

    uv run python tests/benchmarks/memory_for_time.py [--model causal-lm-tiny] [--device cpu] [--batch-size 8]

On a CPU the peak is that of all tensors in a step, from the profiler's allocations, which also has those of
compiled code. On a GPU it is the allocator's, and activations can wait in system memory.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils._pytree import tree_leaves

from engine.experiment.experiment import Experiment, experiment_from
from engine.training.doctor import read_catalog
from engine.training.forecast import forecast
from engine.training.measuring.memory import breakdown_of
from engine.training.runs.plan import RunPlan
from engine.training.runs.prepare import build
from engine.training.steps.plain import PlainStep

AIM = "aim: within 10%"
MIB = 2**20
KINDS = ("none", "selective", "full", "1", "0.5", "0.25", "0")
STEPS = 3


def experiments(options: argparse.Namespace) -> Iterator[tuple[str, Experiment]]:
    base = {"model": options.model, "batch_size": options.batch_size, "device": options.device, "steps": 10}
    data = {"dataset": "synthetic-tokens", "sequence_length": options.tokens, "num_classes": 256}
    for kind in options.kinds or (*KINDS, *(("offload",) if options.device != "cpu" else ())):
        step: dict[str, Any] = {"recipe": "compile" if kind[0].isdigit() else "plain"}
        step |= {"offload_activations": True} if kind == "offload" else {"activation_checkpointing": kind}
        yield kind, experiment_from({**base, **data, "step": step})


def peak_mib(step: PlainStep, group: list[Any]) -> float:
    """Return the peak of a step in MiB."""
    if step.device.type != "cpu":
        torch.accelerator.reset_peak_memory_stats()
        step(group)
        return torch.accelerator.max_memory_allocated() / MIB
    step.optimizer.zero_grad(set_to_none=True)
    parts = breakdown_of(step.model, step.optimizer)
    known = parts.parameters_mib + parts.optimizer_state_mib
    data = sum(tensor.nbytes for tensor in tree_leaves(group) if isinstance(tensor, torch.Tensor)) / MIB
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        step(group)
    events = [each for each in recorded.profiler.kineto_results.events() if each.name() == "[memory]"]
    live = peak = 0
    for each in sorted(events, key=lambda each: each.start_ns()):
        live += each.nbytes()
        peak = max(peak, live)
    return known + data + peak / MIB


def row(kind: str, experiment: Experiment) -> str:
    plan = RunPlan(experiment, read_catalog())
    made = forecast(experiment)
    wanted = made.needed_mib - (made.libraries_mib if plan.device.type == "cpu" else 0.0)
    step = plan.workload.step(build(plan, experiment), experiment, plan.device)
    source = plan.workload.source(plan.device, step.memory_format)
    group = [next(iter(source.epoch(1, 0)))]
    for _ in range(2):
        step(group)
    found, began = peak_mib(step, group), time.perf_counter()
    for _ in range(STEPS):
        step(group)
    step_ms = 1e3 * (time.perf_counter() - began) / STEPS
    source.close()
    return f"{kind:>10} {found:>10.1f} {wanted:>10.1f} {100 * (wanted / found - 1):>+7.1f}% {step_ms:>9.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", help=f"of {', '.join(KINDS)} and offload; default: all")
    parser.add_argument("--model", default="causal-lm-tiny")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=128)
    options = parser.parse_args()
    print(f"{'':>10} {'MiB':>10} {'forecast':>10} {'off':>8} {'ms/step':>9}   {AIM}")
    for kind, experiment in experiments(options):
        print(row(kind, experiment), flush=True)


if __name__ == "__main__":
    main()
