"""The builds of torch that could be installed here, and why; what uv detects decides, this explains it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Build:
    """A build: uv's name for it, what a user reads, and why it fits or does not fit here.

    `download_bytes` is roughly what it takes, for the choice; the plan tells exactly.
    """

    backend: str
    title: str
    why: str
    fits: bool
    download_bytes: int
