"""Fixtures of the tests that need a GPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture
def compiled_in_this_process() -> Iterator[None]:
    """Compile without helper processes, which would outlive the test."""
    from torch._inductor import config

    torch._dynamo.reset()
    with config.patch({"compile_threads": 1}):
        yield
    torch._dynamo.reset()
