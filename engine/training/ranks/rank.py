"""The rank of this process in a run, and its share of the data."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
from torch import Tensor, distributed
from torch._C._distributed_c10d import FileStore

from engine.protocol import jobs

# A rank that died is noticed at once by who started it; one that is slow, as in compiling, is waited for.
_PATIENCE = timedelta(hours=1)


@dataclass(frozen=True)
class Rank:
    """This process's place in a multi-device run: its number (0-based) among the `count` processes."""

    number: int = 0
    count: int = 1

    @property
    def is_first(self) -> bool:
        """True for the process that saves, and for the only process of a run."""
        return self.number == 0


def current_rank() -> Rank:
    """Return this process's rank. It is 0 of 1 in a run with one process."""
    if distributed.is_available() and distributed.is_initialized():
        return Rank(distributed.get_rank(), distributed.get_world_size())
    return Rank()


@contextmanager
def process_group(rank: jobs.Rank | None, device_type: str) -> Iterator[None]:
    """Connect to the other ranks of the run in this context. No-op for a single process."""
    if rank is None:
        yield
        return
    if sys.platform.startswith("linux"):
        # all are on this machine: a host name that does not resolve would make them wait for minutes
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    backend = "nccl" if device_type == "cuda" else "xccl" if device_type == "xpu" else "gloo"
    # a file in a private folder, not a port, which another program may have taken by then
    store = FileStore(rank.meeting, rank.count)
    distributed.init_process_group(
        backend, store=store, rank=rank.number, world_size=rank.count, timeout=_PATIENCE
    )
    # Left to the end of the process: destroying the group waits for ranks that may have gone.
    yield


def rank_indices(order: Tensor, batch_size: int) -> Tensor:
    """Return this process's share of an epoch's sample indices (samples,), in order.

    Cut into batches of `batch_size`, the shares of all processes together have, step by step, the samples of
    one process with batches of `count * batch_size`. The last batches have equal sizes. If the samples cannot
    be divided evenly, the last ones, fewer than the processes, are skipped.
    """
    rank = current_rank()
    if rank.count == 1:
        return order
    order = order[: len(order) // rank.count * rank.count]
    whole = len(order) // (rank.count * batch_size) * (rank.count * batch_size)
    full = order[:whole].view(-1, rank.count, batch_size)[:, rank.number].flatten()
    return torch.cat((full, order[whole:].view(rank.count, -1)[rank.number]))
