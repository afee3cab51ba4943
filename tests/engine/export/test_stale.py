"""What a killed export left beside its target is swept up by the next, and nothing else is."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.export.files import make_workplace, place


@pytest.fixture(scope="module")
def gone() -> int:
    """The number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-S", "-c", ""]) as process:
        pass
    return process.pid


@pytest.fixture
def left(tmp_path: Path, gone: int) -> Callable[..., Path]:
    """A workplace with a file in it, as a process that was killed two hours ago left it."""

    def make(pid: int = gone, hours: float = 2.0) -> Path:
        own = make_workplace(tmp_path)
        folder = own.with_name(own.name.replace(f"-{os.getpid()}-", f"-{pid}-"))
        own.rename(folder)
        (folder / "report.html").write_text("half")
        then = time.time() - hours * 3600.0
        os.utime(folder, (then, then))
        return folder

    return make


def export(folder: Path) -> None:
    with place(folder / "report.html", force=True) as temporary:
        temporary.write_text("whole")


def test_what_a_killed_export_left_goes_with_the_next_but_not_what_is_alive_or_fresh(
    tmp_path: Path, left: Callable[..., Path]
) -> None:
    first, second = left(), left()
    export(tmp_path)
    assert not first.exists() and not second.exists()
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]
    living, fresh = left(pid=os.getpid()), left(hours=0.5)
    export(tmp_path)
    assert living.exists() and fresh.exists()


def test_what_others_named_alike_stays(tmp_path: Path, left: Callable[..., Path], gone: int) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.tex").write_text("all of it")
    one = left()
    link, file = one.with_name(f"{one.name}l"), one.with_name(f"{one.name}f")
    link.symlink_to(precious)
    file.write_text("a file")
    (tmp_path / f".ammeter-{'0' * 12}-{gone}-abc").mkdir()
    (tmp_path / ".ammeter-notes").mkdir()
    for path in tmp_path.iterdir():
        os.utime(path, (0.0, 0.0), follow_symlinks=False)
    export(tmp_path)
    assert not one.exists() and link.is_symlink() and file.exists()
    assert (precious / "thesis.tex").read_text() == "all of it"
    assert (tmp_path / f".ammeter-{'0' * 12}-{gone}-abc").exists() and (tmp_path / ".ammeter-notes").exists()
