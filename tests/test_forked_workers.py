"""Workers are forked where that is possible: otherwise each of hundreds would import torch."""

from __future__ import annotations

import os

import pytest

from engine.worker.keeper import worker_environment
from engine.worker.site import COMMAND, WorkerProcess
from tests.forked_workers import _Forked, _is_as_here, can_fork_workers


@pytest.mark.skipif(not can_fork_workers(), reason="needs Linux without an NVIDIA GPU")
def test_a_worker_is_forked_and_one_with_other_libraries_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = WorkerProcess(COMMAND)
    try:
        assert isinstance(worker._process, _Forked)
    finally:
        worker.close()
    assert not _is_as_here(worker_environment({"LD_PRELOAD": "/other.so"}))
    monkeypatch.setitem(os.environ, "PYTHONPATH", "here")
    assert not _is_as_here(worker_environment({})), "a worker does not import from a relative folder"
