"""The names of the stretches that a recording marks in its trace."""

from __future__ import annotations

STEP = "ammeter.step"
"""From asking for a step's batches to the end of its last launch."""

DATA = "ammeter.data"
"""Waiting for the next batch, in the host's thread that trains."""

OPTIMIZER = "ammeter.optimizer"
"""Unscaling, clipping, and the optimizer's and the scaler's update."""

VALIDATION = "ammeter.validation"
"""A validation batch."""

MODULE = "ammeter.module:"
"""Before the dotted name of the module whose forward pass it is; the model itself has the empty name."""
