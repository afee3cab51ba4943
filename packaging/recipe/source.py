"""The source that a package is made of, and what runs to make it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The checkout."""


class RecipeError(Exception):
    """Why a package cannot be built, as a sentence."""


@cache
def epoch() -> int:
    """The time that every file of a package bears: SOURCE_DATE_EPOCH, else that of the last commit."""
    named = os.environ.get("SOURCE_DATE_EPOCH")
    return int(named or run("git", "log", "-1", "--format=%ct", folder=ROOT))


def run(
    *command: str | Path,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    text: str | None = None,
) -> str:
    """What a command prints. Raises RecipeError with the end of its stderr."""
    words = [str(word) for word in command]
    if shutil.which(words[0]) is None:
        raise RecipeError(f"`{words[0]}` is needed to build this package, and is not installed.")
    done = subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        input=text,
        text=True,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        said = "\n".join((done.stderr or done.stdout).strip().splitlines()[-20:])
        raise RecipeError(f"`{' '.join(words)}` failed:\n{said}")
    return done.stdout


def settle(folder: Path) -> None:
    """Gives all files the same time and plain permissions, so that two builds are the same bytes."""
    for path in sorted(_all_of(folder), reverse=True):
        if not path.is_symlink():
            is_program = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if is_program else 0o644)
        os.utime(path, (epoch(), epoch()), follow_symlinks=False)


def size_of(folder: Path) -> int:
    """The bytes of all files in a folder."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())


def _all_of(folder: Path) -> list[Path]:
    return [folder, *folder.rglob("*")]
