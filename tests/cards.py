"""Which tests may use a graphics card: those in `tests/gpu`, if they are named, first and in one process.

From all others a card is hidden. Many workers would share its memory, and a process that has profiled the
CPU alone cannot record a card any more (https://github.com/pytorch/pytorch/issues/197005).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent / "gpu"
UNNAMED = "needs a CUDA card, and to be named: pytest tests/gpu"
IN_WORKERS = "needs a CUDA card of its own, which workers would share: leave out -n"
NO_CARD = "needs a CUDA card"


def _are_named(config: pytest.Config) -> bool:
    start = config.invocation_params.dir
    return any(_needs_card(start / argument.partition("::")[0]) for argument in config.args)


def _needs_card(path: Path) -> bool:
    path = path.resolve()
    return FOLDER in (path, *path.parents)


def pytest_configure(config: pytest.Config) -> None:
    """Hides every card before anything looks for one, and so from all processes that tests start."""
    if not _are_named(config):
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts the tests of the card first, or skips them."""
    ours = [item for item in items if _needs_card(item.path)]
    reason = _why_not(config) if ours else None
    for item in ours if reason is not None else ():
        item.add_marker(pytest.mark.skip(reason=reason))
    items.sort(key=lambda item: not _needs_card(item.path))


def _why_not(config: pytest.Config) -> str | None:
    if not _are_named(config):
        return UNNAMED
    if hasattr(config, "workerinput"):
        return IN_WORKERS
    import torch

    return None if torch.cuda.is_available() else NO_CARD
