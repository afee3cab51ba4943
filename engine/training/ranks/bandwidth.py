"""The bandwidth of an all-reduce between the processes of a run."""

from __future__ import annotations

import torch
from torch import distributed

from engine.protocol.profile import BusRate
from engine.training.measuring.telemetry import clock_for
from engine.training.ranks.rank import current_rank
from engine.training.ranks.sharing import gather_from_ranks

_SIZES = tuple(4**power * 2**14 for power in range(8))  # from 16 KiB to 256 MiB
_LARGEST_ON_CPU = 64 * 2**20
_REPEATS = 5
_IN_A_ROW = 10  # on a card, which works through them while the host launches: its delay counts once
_MOST_SECONDS = 0.3  # a message that takes longer is the last: larger ones are no faster by then


def measure_bus_bandwidth(device: torch.device) -> tuple[BusRate, ...]:
    """Return the bus bandwidth by message size, measured by all processes together.

    Each is the fastest of some calls in FP32, on the slowest process.
    """
    rates = []
    count = current_rank().count
    for size in _SIZES:
        if device.type == "cpu" and size > _LARGEST_ON_CPU:
            break
        message = torch.zeros(size // 4, device=device)
        own = [_seconds(message) for _ in range(1 + _REPEATS)][1:]
        # all know the times of all, and so end with the same message
        seconds = min(max(times) for times in zip(*gather_from_ranks(own, device), strict=True))
        rates.append(BusRate(size=size, gb_per_second=2 * (count - 1) / count * size / seconds / 1e9))
        if seconds > _MOST_SECONDS:
            break
    return tuple(rates)


def _seconds(message: torch.Tensor) -> float:
    is_on_cpu, clock = message.device.type == "cpu", clock_for(message.device)
    calls = 1 if is_on_cpu else _IN_A_ROW
    distributed.barrier()
    begun = clock.mark()
    for _ in range(calls):
        distributed.all_reduce(message)
    ended = clock.mark()
    if not is_on_cpu:
        torch.accelerator.synchronize(message.device)
    return clock.seconds_between(begun, ended) / calls
