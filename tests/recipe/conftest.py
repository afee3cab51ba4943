from __future__ import annotations

import shutil


def is_there(*programs: str) -> bool:
    """Whether all these programs are installed."""
    return all(map(shutil.which, programs))
