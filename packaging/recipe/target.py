"""What a package is built for."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from recipe.source import RecipeError

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
    """A package, its system, and the interpreter that it contains.

    `python` is the interpreter's folder, as python-build-standalone lays it out (`bin` and `lib`, or
    `python.exe` and `Lib`); its trimmed copy is the folder `python` of the program.
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
        """Its place in the program's folder."""
        if self.system == "windows":
            return PurePosixPath("python/Lib")
        return PurePosixPath(f"python/lib/python{self.python_version}")

    @property
    def site_packages(self) -> PurePosixPath:
        """The place of the packages in the program's folder."""
        return self.standard_library / "site-packages"

    @property
    def executable(self) -> PurePosixPath:
        """The place of the interpreter in the program's folder; uv lies beside it."""
        return PurePosixPath("python/python.exe" if self.system == "windows" else "python/bin/python3")


def linux_here(package: Package, python: Path | None = None) -> Target:
    """The target of a Linux package, with the interpreter that runs this, unless `python` is another."""
    import platform

    return Target(package, "linux", platform.machine(), python or Path(sys.base_prefix))
