"""What the fast recipe gains: over the same by hand, and over the loops of PyTorch's guides.

    uv run python tests/benchmarks/recipes.py [--device cpu] [--rounds 5] [--steps 100] [--only 64]
        [--model resnet50] [--precision bf16] [--seconds 300]

All arms of a workload run in one process, alternating, with the same data on the device. On a CUDA card it
trains ResNet-50 at batch 64 and 256 and ResNet-18 on 32x32 at 128, in FP16; elsewhere the small CNN in BF16,
so that the script itself can be tried. `--model` takes another one too, at batch 64. The guides' loops have
cuDNN's search on, and their FP32 is strict.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import torch
from by_hand import Format, Workload, captured, guides
from side_by_side import Arm, Rounds, alternate, engine, print_heading, print_ratio, speed

FAST, BY_HAND, AMP, FP32 = "fast", "captured by hand", "guides' AMP", "guides' FP32"


@dataclass(frozen=True)
class Comparison:
    """A workload, the ratio aimed at for each arm that `fast` is held against, and an H200's known speeds."""

    workload: Workload
    aims: Mapping[str, float | None]
    reference: Mapping[str, float]

    def arms(self) -> dict[str, Arm]:
        loops: dict[str, Arm] = {
            BY_HAND: partial(captured, self.workload),
            AMP: partial(guides, self.workload, cudnn_benchmark=True),
            FP32: partial(guides, replace(self.workload, precision="fp32"), cudnn_benchmark=True),
        }
        return {FAST: partial(engine, self.workload, "fast"), **{name: loops[name] for name in self.aims}}

    def show(self, found: Mapping[str, Rounds]) -> None:
        for name, aim in self.aims.items():
            print_ratio(f"{self.workload}: fast / {name}", found[FAST], found[name], aim)
        for name, rounds in found.items():
            known = f"   H200's own {self.reference[name]:,.0f}" if name in self.reference else ""
            print(f"    {name:<20}{speed(rounds):>12,.0f} samples/s{known}")


def comparisons(device: torch.device, options: argparse.Namespace) -> list[Comparison]:
    known = on_cuda(device, options.precision or "fp16", options.steps) if device.type == "cuda" else []
    found = [one for one in known if options.model in (None, one.workload.model)]
    if found:
        return found
    on_gpu = device.type == "cuda"
    name, half = options.model or "small-cnn", options.precision or ("fp16" if on_gpu else "bf16")
    size, classes = (224, 1_000) if on_gpu else (28 if name == "small-cnn" else 32, 10)
    few = min(10, options.steps)
    workload = Workload(name, 64, size, classes, half, device, options.steps, warmup=2 * few, block=few)
    return [Comparison(workload, {BY_HAND: None, AMP: None, FP32: None}, {})]


def on_cuda(device: torch.device, half: Format, steps: int) -> list[Comparison]:
    resnet50 = Workload("resnet50", 64, 224, 1_000, half, device, steps)
    return [
        Comparison(
            resnet50,
            {BY_HAND: 0.97, AMP: 3.0, FP32: 6.0},
            {BY_HAND: 5_660, AMP: 1_663, FP32: 880},
        ),
        Comparison(
            replace(resnet50, batch_size=256),
            {BY_HAND: 0.97, AMP: 2.5, FP32: 6.0},
            {BY_HAND: 6_919, AMP: 2_638, FP32: 1_048},
        ),
        Comparison(
            Workload("resnet18", 128, 32, 100, half, device, 4 * steps, block=40),
            {BY_HAND: 0.95, AMP: None},
            {BY_HAND: 105_041, AMP: 14_394},
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda:0" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--only", type=int, help="the batch size of the one workload to run")
    parser.add_argument("--model")
    parser.add_argument("--precision", choices=("fp16", "bf16"), help="of the arms in mixed precision")
    parser.add_argument("--seconds", type=float, help="no round begins after so many")
    options = parser.parse_args()
    device = torch.device(options.device)
    print_heading(device)
    for comparison in comparisons(device, options):
        if options.only in (None, comparison.workload.batch_size):
            comparison.show(alternate(comparison.arms(), options.rounds, options.seconds))


if __name__ == "__main__":
    main()
