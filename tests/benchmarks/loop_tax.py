"""What the engine's loop costs: its plain recipe over the same loop by hand, in turns, on a CPU.

    uv run python tests/benchmarks/loop_tax.py [--rounds 60] [--steps 20] [--model resnet18]
        [--precision bf16] [--seconds 300]

It trains the small CNN on pictures of 28x28 and ResNet-18 on 32x32 in FP32. The rounds are stretches of two
runs that take turns, of half a second or so. Both sides have the same data and strict float32; a ratio of 1
is no cost at all. On a card `tests/gpu/day` measures the same.
"""

from __future__ import annotations

import argparse
from contextlib import closing
from typing import get_args

import torch
from by_hand import Format, Workload, guides_stretches
from side_by_side import engine_stretches, interleave, print_heading, print_ratio

FORMATS = get_args(Format)
AIM = 0.98


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--steps", type=int, default=20, help="of each round")
    parser.add_argument("--model")
    parser.add_argument("--precision", choices=FORMATS, default="fp32")
    parser.add_argument("--seconds", type=float, help="no round begins after so many")
    options = parser.parse_args()
    steps, rounds, device = options.steps, options.rounds, torch.device("cpu")
    print_heading(device)
    # Twice as many as are asked for: the engine's stretches end where it tells of its steps.
    length = 2 * steps * rounds
    for model in (options.model,) if options.model else ("small-cnn", "resnet18"):
        batch, size, warmup = (64, 28, 20) if model == "small-cnn" else (16, 32, 10)
        warmup = min(warmup, steps)
        workload = Workload(model, batch, size, 10, options.precision, device, length, warmup, block=steps)
        with closing(engine_stretches(workload, "plain")) as ours, closing(guides_stretches(workload)) as own:
            found = interleave({"engine": ours, "by hand": own}, rounds, options.seconds)
            print_ratio(f"{workload}: plain / by hand", found["engine"], found["by hand"], AIM)


if __name__ == "__main__":
    main()
