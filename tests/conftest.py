"""Every test has a home of its own, and leaves no process and no thread behind."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

# before anything imports Qt: tests need no display
os.environ["QT_QPA_PLATFORM"] = "offscreen"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh AMMETER_HOME and AMMETER_DATA, so that no test sees a person's runs or another test's."""
    folder = tmp_path / "home"
    monkeypatch.setenv("AMMETER_HOME", str(folder))
    monkeypatch.setenv("AMMETER_DATA", str(tmp_path / "data"))
    return folder


@pytest.fixture(autouse=True)
def nothing_left_running(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a test that leaves a child process or a thread that would keep the interpreter alive."""
    children_before = _children()
    threads_before = set(threading.enumerate())
    yield
    left = _children() - children_before - _ALLOWED
    if left:
        _, alive = psutil.wait_procs(left, timeout=5)
        assert not alive, f"left running: {[' '.join(process.cmdline()) for process in alive]}"
    threads = [
        thread
        for thread in set(threading.enumerate()) - threads_before
        if not thread.daemon and thread.is_alive()
    ]
    assert not threads, f"left running: {threads}"


_ALLOWED: set[psutil.Process] = set()


def allow_process(pid: int) -> None:
    """For what a session-wide fixture starts and ends itself."""
    _ALLOWED.add(psutil.Process(pid))


def _children() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))
