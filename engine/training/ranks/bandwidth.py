"""The bandwidth at which the processes of a run sum what they send each other."""

from __future__ import annotations

import time

import torch
from torch import distributed

from engine.protocol.profile import BusRate
from engine.training.ranks.place import here
from engine.training.ranks.sharing import by_rank

_SIZES = tuple(4**power * 2**14 for power in range(7))  # from 16 KiB to 64 MiB
_REPEATS = 5
_MOST_SECONDS = 0.3  # a message that takes longer is the last: larger ones are no faster by then


def bus_rates(device: torch.device) -> tuple[BusRate, ...]:
    """The bus bandwidth by the size of a message, which all processes measure together.

    Each is the fastest of some calls in FP32, by the process that it takes longest.
    """
    rates = []
    count = here().count
    for size in _SIZES:
        message = torch.zeros(size // 4, device=device)
        own = [_seconds(message) for _ in range(1 + _REPEATS)][1:]
        # all know the times of all, and so end with the same message
        seconds = min(max(times) for times in zip(*by_rank(own, device), strict=True))
        rates.append(BusRate(size=size, gb_per_second=2 * (count - 1) / count * size / seconds / 1e9))
        if seconds > _MOST_SECONDS:
            break
    return tuple(rates)


def _seconds(message: torch.Tensor) -> float:
    distributed.barrier()
    began = time.perf_counter()
    distributed.all_reduce(message)
    if message.device.type != "cpu":
        torch.accelerator.synchronize(message.device)
    return time.perf_counter() - began
