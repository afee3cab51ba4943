"""Which samples are taken: what a run draws follows from its seed and the place in the run alone."""

from __future__ import annotations

import numpy as np
import torch


def seed_of(*place: int) -> int:
    """A seed of 63 bits that depends on all of `place`, such as (seed, epoch, batch); none is negative."""
    return int(np.random.SeedSequence(place).generate_state(1, np.uint64)[0] >> np.uint64(1))


def epoch_order(samples: int, seed: int, epoch: int) -> torch.Tensor:
    """The samples' numbers (samples,) in the order in which that epoch takes them.

    It is drawn on the CPU, so that it is the same for every precision and device.
    """
    return torch.randperm(samples, generator=torch.Generator().manual_seed(seed_of(seed, epoch)))


def spread(samples: int, count: int) -> list[int]:
    """At most `count` of the samples' numbers, ascending and evenly spaced; nothing is drawn."""
    count = min(count, samples)
    return [place * samples // count for place in range(count)]
