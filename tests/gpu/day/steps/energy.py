"""The card's own counter of energy beside the power that its sensor shows meanwhile."""

from __future__ import annotations

import energy as energies
import torch

from day.work import Work


def energy(work: Work) -> None:
    """Counts the energy of matrix products, and integrates the power; without a counter nothing is told."""
    device, size = torch.device(work.device), work.small(8_192, 64)
    found = energies.measured(device, size, work.small(30.0, 0.3))
    if found is not None:
        counted, integral = found
        work.tell("energy", 100 * abs(counted / integral - 1), f"({counted:,.0f} J and {integral:,.0f} J)")
