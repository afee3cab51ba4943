"""Source and target of a package, and helpers to build it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Literal

ROOT = Path(__file__).resolve().parents[2]
"""The checkout."""


class RecipeError(Exception):
    """Raised if a package cannot be built. The text is a sentence with the reason."""


@cache
def epoch() -> int:
    """Return the modification time of all files in a package: SOURCE_DATE_EPOCH, or the last commit's."""
    named = os.environ.get("SOURCE_DATE_EPOCH")
    return int(named or run("git", "log", "-1", "--format=%ct", folder=ROOT))


def run(
    *command: str | Path,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    text: str | None = None,
) -> str:
    """Run a command and return its output. Raises RecipeError with the end of its stderr."""
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
    """Give all files the same time and plain permissions, to make builds reproducible."""
    for path in sorted([folder, *folder.rglob("*")], reverse=True):
        if not path.is_symlink():
            is_program = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if is_program else 0o644)
        os.utime(path, (epoch(), epoch()), follow_symlinks=False)


def size_of(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())


System = Literal["linux", "windows", "macos"]
Package = Literal["deb", "run", "flatpak", "windows", "macos"]

_UV_PLATFORMS = {
    # PySide6 needs glibc 2.34 itself
    ("linux", "x86_64"): "x86_64-manylinux_2_34",
    ("linux", "aarch64"): "aarch64-manylinux_2_39",
    ("windows", "x86_64"): "x86_64-pc-windows-msvc",
    ("macos", "arm64"): "aarch64-apple-darwin",
}


@dataclass(frozen=True)
class Target:
    """A package to build: its system, and the Python interpreter that it contains.

    `python` is the folder of the interpreter, laid out as by python-build-standalone (`bin` and `lib`, or
    `python.exe` and `Lib`). The program gets a trimmed copy in its own folder `python`.
    """

    package: Package
    system: System
    machine: str
    python: Path

    @property
    def uv_platform(self) -> str:
        """uv's name of the system and processor."""
        try:
            return _UV_PLATFORMS[self.system, self.machine]
        except KeyError:
            raise RecipeError(f"There is no package for {self.system} on {self.machine}.") from None

    @property
    def python_version(self) -> str:
        """Such as "3.12", read from the interpreter's folder. Raises RecipeError."""
        pattern, folder = (
            ("python3*.dll", self.python) if self.system == "windows" else ("python3.*", self.python / "lib")
        )
        for path in sorted(folder.glob(pattern)):
            if match := re.fullmatch(r"python3\.?(\d+)(\.dll)?", path.name):
                return f"3.{match[1]}"
        raise RecipeError(f"{self.python} holds no Python for {self.system}.")

    @property
    def standard_library(self) -> PurePosixPath:
        """Relative path of the standard library in the program's folder."""
        if self.system == "windows":
            return PurePosixPath("python/Lib")
        return PurePosixPath(f"python/lib/python{self.python_version}")

    @property
    def site_packages(self) -> PurePosixPath:
        """Relative path of site-packages in the program's folder."""
        return self.standard_library / "site-packages"

    @property
    def executable(self) -> PurePosixPath:
        """Relative path of the interpreter in the program's folder; uv is in the same folder."""
        return PurePosixPath("python/python.exe" if self.system == "windows" else "python/bin/python3")


def linux_here(package: Package, python: Path | None = None) -> Target:
    """Return the target of a Linux package, with this interpreter or the one in `python`."""
    import platform

    return Target(package, "linux", platform.machine(), python or Path(sys.base_prefix))
