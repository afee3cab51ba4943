"""The program in a file: unpacked once, refused when damaged, and removed with nothing left of it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from recipe.desktop import write_desktop
from recipe.icon import APP
from recipe.single_file import packed

pytestmark = pytest.mark.skipif(shutil.which("xz") is None, reason="xz is not installed")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The packed stand-in of a program that says where it is and what it was asked."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "ammeter").write_text('#!/bin/sh\necho "$0" "$@"\n')
    (tree / "ammeter").chmod(0o755)
    write_desktop(tree / "share")
    content = packed(tree, tmp_path / "packed", level=0)
    assert packed(tree, tmp_path / "again", level=0) == content
    made = tmp_path / "Ammeter.run"
    made.write_bytes(content)
    made.chmod(0o755)
    return made


def started(file: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    home = file.parent / "home"
    environment = {"HOME": str(home), "PATH": os.environ["PATH"]}
    return subprocess.run(
        [file, *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_it_unpacks_once_and_passes_its_arguments_on(file: Path) -> None:
    first, second = started(file, "runs", "a b"), started(file, "runs")
    assert first.stdout.endswith("/ammeter runs a b\n")
    assert "Unpacking" in first.stderr
    assert second.stdout.endswith("/ammeter runs\n")
    assert not second.stderr


def test_a_damaged_file_unpacks_nothing(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-10])
    done = started(file)
    assert done.returncode == 1
    assert "download it again" in done.stderr
    assert not list(file.parent.glob("home/**/ammeter"))


def test_what_it_installs_it_removes_and_the_users_data_stay(file: Path) -> None:
    data = file.parent / "home/.local/share"
    (data / "ammeter").mkdir(parents=True)
    (data / "ammeter/runs.sqlite").write_text("runs")
    assert started(file, "--install").returncode == 0
    entry = (data / f"applications/{APP}.desktop").read_text()
    assert f'Exec="{data}/ammeter-program/' in entry
    assert (data.parent / "bin/ammeter").exists()
    assert started(file, "--remove").returncode == 0
    assert not [*data.rglob("org.ammeter.*.desktop"), *data.rglob("*.png"), *data.glob("ammeter-program")]
    assert (data / "ammeter/runs.sqlite").exists()
    assert not (data.parent / "bin/ammeter").is_symlink()
