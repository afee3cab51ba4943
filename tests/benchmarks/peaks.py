"""The peaks that `measure_limits` measures over those of a plain loop of torch.mm, alternating.

    uv run python tests/benchmarks/peaks.py [--device cpu] [--rounds 5] [--size 8192]

Ours may be higher, as convolutions count too. By hand: products of two square random matrices, 8192 wide
(1024 on a CPU), the best of five loops; bandwidth by copying an array of 512 MiB (128 on a CPU) in the same
way.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from side_by_side import Rounds, print_heading, print_ratio

from engine.protocol.jobs import Control
from engine.training.profile.limits import measure_limits

AIM = 0.97
_DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
_LOOPS = 5
_LOOP_SECONDS = 0.2


def ours(device: torch.device) -> dict[str, float]:
    limits = measure_limits(device, Control())
    assert limits is not None
    return {peak.format: peak.tflops for peak in limits.peaks} | {"GB/s": limits.gb_per_second}


def by_hand(name: str, size: int, device: torch.device) -> float:
    if name == "GB/s":
        array = torch.ones((512 if device.type == "cuda" else 128) * 2**18, device=device)
        copy = torch.empty_like(array)
        return 2 * 4 * array.numel() / best_seconds(lambda: copy.copy_(array), device) / 1e9
    torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
    first, second = (torch.randn(size, size, device=device).to(_DTYPES[name]) for _ in range(2))
    result = torch.empty_like(first)
    return 2 * size**3 / best_seconds(lambda: torch.mm(first, second, out=result), device) / 1e12


def best_seconds(operation: Callable[[], object], device: torch.device) -> float:
    operation()
    once = loop_seconds(operation, device, 1)
    calls = max(1, round(_LOOP_SECONDS / once))
    return min(loop_seconds(operation, device, calls) / calls for _ in range(_LOOPS))


def loop_seconds(operation: Callable[[], object], device: torch.device, calls: int) -> float:
    if device.type == "cuda":
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        begin.record()
        for _ in range(calls):
            operation()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1e3
    began = time.perf_counter()
    for _ in range(calls):
        operation()
    return time.perf_counter() - began


def main() -> None:
    has_gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda:0" if has_gpu else "cpu")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=int, help="of the matrices: 8192, on a CPU 1024")
    options = parser.parse_args()
    device = torch.device(options.device)
    size = options.size or (8_192 if device.type == "cuda" else 1_024)
    print_heading(device)
    over: dict[str, Rounds] = {}
    under: dict[str, Rounds] = {}
    for _ in range(options.rounds):
        for name, rate in ours(device).items():
            over.setdefault(name, []).append([rate])
            under.setdefault(name, []).append([by_hand(name, size, device)])
    for name, rates in over.items():
        unit = "" if name == "GB/s" else " TFLOP/s"
        shown = f"{max(rates)[0]:,.4g} and {max(under[name])[0]:,.4g}"
        print_ratio(f"{name}{unit}, measured / by hand ({shown})", rates, under[name], AIM)


if __name__ == "__main__":
    main()
