"""The worker's own stdin and stdout, out of reach of what libraries print and read."""

from __future__ import annotations

import os


def take_private_streams() -> tuple[int, int]:
    """Duplicates of stdin and stdout for the protocol; the originals read nothing and write to stderr."""
    private_input, private_output = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return private_input, private_output
