"""A plugin that gives the GPU to the tests in `tests/gpu` alone, if they are named, first and in one process.

From all others the GPU is hidden. Many workers would share its memory, and a process that has profiled the
CPU alone cannot record a GPU any more (https://github.com/pytorch/pytorch/issues/197005).
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent / "gpu"
UNNAMED = "needs a CUDA GPU, and to be named: pytest tests/gpu"
IN_WORKERS = "needs a CUDA GPU of its own, which workers would share: omit -n"
NO_GPU = "needs a CUDA GPU"


def _are_named(config: pytest.Config) -> bool:
    start = config.invocation_params.dir
    return any(_needs_gpu(start / argument.partition("::")[0]) for argument in config.args)


@cache
def _needs_gpu(path: Path) -> bool:
    path = path.resolve()
    return FOLDER in (path, *path.parents)


def pytest_configure(config: pytest.Config) -> None:
    """Hide every GPU before anything looks for one, and so from all processes that tests start."""
    if not _are_named(config):
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the tests of the GPU first, or skip them."""
    ours = [item for item in items if _needs_gpu(item.path)]
    reason = _skip_reason(config) if ours else None
    for item in ours if reason is not None else ():
        item.add_marker(pytest.mark.skip(reason=reason))
    items.sort(key=lambda item: not _needs_gpu(item.path))


def _skip_reason(config: pytest.Config) -> str | None:
    if not _are_named(config):
        return UNNAMED
    if hasattr(config, "workerinput"):
        return IN_WORKERS
    import torch

    return None if torch.cuda.is_available() else NO_GPU
