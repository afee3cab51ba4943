"""What the engine's loop costs: its plain recipe over the same loop by hand, in one process, alternating.

    uv run python tests/benchmarks/loop_tax.py [--device cpu] [--rounds 10] [--steps 100]
        [--model resnet18] [--precision bf16] [--seconds 300]

On a CUDA card it trains ResNet-50 at batch 64 in FP16, each round a run of that many steps. On a CPU it
trains the small CNN on pictures of 28x28 and ResNet-18 on 32x32 in FP32, where the rounds are stretches of
two runs that take turns, of half a second or so. Both sides have the same data on the device, cuDNN's search
off and strict float32; a ratio of 1 is no cost at all.
"""

from __future__ import annotations

import argparse
from contextlib import closing
from functools import partial

import torch
from by_hand import Workload, guides, guides_stretches
from side_by_side import Rounds, alternate, engine, engine_stretches, interleave, print_heading, print_ratio

AIM_CUDA, AIM_CPU = 0.99, 0.98


def on_cuda(device: torch.device, options: argparse.Namespace) -> None:
    model, precision = options.model or "resnet50", options.precision or "fp16"
    workload = Workload(model, 64, 224, 1_000, precision, device, options.steps or 100)
    arms = {
        "engine": partial(engine, workload, "plain"),
        "by hand": partial(guides, workload, cudnn_benchmark=False),
    }
    show(workload, alternate(arms, options.rounds or 10, options.seconds), AIM_CUDA)


def on_cpu(device: torch.device, options: argparse.Namespace) -> None:
    steps, rounds, precision = options.steps or 20, options.rounds or 60, options.precision or "fp32"
    # Twice as many as are asked for: the engine's stretches end where it tells of its steps.
    length = 2 * steps * rounds
    for model in (options.model,) if options.model else ("small-cnn", "resnet18"):
        batch, size, warmup = (64, 28, 20) if model == "small-cnn" else (16, 32, 10)
        warmup = min(warmup, steps)
        workload = Workload(model, batch, size, 10, precision, device, length, warmup=warmup, block=steps)
        with closing(engine_stretches(workload, "plain")) as ours, closing(guides_stretches(workload)) as own:
            show(workload, interleave({"engine": ours, "by hand": own}, rounds, options.seconds), AIM_CPU)


def show(workload: Workload, found: dict[str, Rounds], aim: float) -> None:
    print_ratio(f"{workload}: plain / by hand", found["engine"], found["by hand"], aim)


def main() -> None:
    has_gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda:0" if has_gpu else "cpu")
    parser.add_argument("--rounds", type=int, help="10, on a CPU 60")
    parser.add_argument("--steps", type=int, help="of each round: 100, on a CPU 20")
    parser.add_argument("--model")
    parser.add_argument("--precision", choices=("fp32", "fp16", "bf16"))
    parser.add_argument("--seconds", type=float, help="no round begins after so many")
    options = parser.parse_args()
    device = torch.device(options.device)
    print_heading(device)
    if device.type == "cuda":
        on_cuda(device, options)
    else:
        on_cpu(device, options)


if __name__ == "__main__":
    main()
