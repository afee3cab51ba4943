"""uv's process: it runs without the user's settings, and ends with all its children."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

import psutil

from engine.installation.uv import run_uv
from tests.wheel_index import Fault, WheelIndex


def test_settings_that_lie_around_do_not_count(wheels, tmp_path, monkeypatch):
    (tmp_path / "uv.toml").write_text('index-url = "http://nowhere.invalid/simple"\n')
    monkeypatch.chdir(tmp_path)
    for name in ("UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL", "UV_INDEX"):
        monkeypatch.setenv(name, "http://nowhere.invalid/simple")
    monkeypatch.setenv("UV_CONSTRAINT", str(tmp_path / "gone"))
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path))
    wanted, lock = tmp_path / "wanted.in", tmp_path / "lock.txt"
    wanted.write_text("torch")
    arguments = ["pip", "compile", str(wanted), "-o", str(lock), "--no-index", "--find-links", str(wheels)]
    for _ in run_uv(arguments):
        pass
    assert "torch==2.15.0" in lock.read_text()


def test_uv_ends_with_its_children_as_soon_as_nobody_waits(wheels: Path, tmp_path: Path) -> None:
    with WheelIndex(wheels) as index:
        held = index.order(Fault(held=threading.Event()))
        arguments = ["pip", "install", "torch", "--target", str(tmp_path / "target")]
        with closing(run_uv(arguments, indexes=[index.simple], cache=tmp_path / "cache")) as running:
            for _ in running:
                if index.fetched():
                    break
        assert held.held is not None and not held.held.is_set()
    names = [child.name() for child in psutil.Process().children(recursive=True)]
    assert not any(name.startswith("uv") for name in names)
