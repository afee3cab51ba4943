"""Ammeter, packed for a machine without it: its files and its requirements."""

from __future__ import annotations

import functools
import io
import tarfile
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import engine
import resources

REQUIREMENTS = (
    "numpy",
    "pillow",
    "platformdirs",
    "pydantic",
    "tomli-w",
    "nvidia-ml-py",
    "psutil",
    "wakepy",
    "jeepney",
    "truststore",
    "typer",
    "rich",
    "jinja2",
    "fpdf2",
    "fonttools",
    "tensorboardx",
)
"""The packages that Ammeter needs without its window and without PyTorch."""
PYTHONS = ">=3.11,<3.15"
_LEFT_OUT = ("__pycache__", "guide", "screenshots")


@functools.cache
def program_id() -> str:
    """Return twelve hexadecimal digits that identify the files and the versions of their requirements."""
    listed = sorted(f"{name} {sha256(data).hexdigest()}\n" for name, data in _files().items())
    return sha256("".join(listed).encode()).hexdigest()[:12]


def program_archive(folder: str, uv: bytes) -> bytes:
    """Return the program as tar.gz, all in `folder`, with `uv` if given. The last file marks it complete."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz", compresslevel=3) as archive:
        for name, data in {**_files(), **({"uv": uv} if uv else {}), "whole": b""}.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size, member.mode = len(data), 0o700 if name == "uv" else 0o600
            archive.addfile(member, io.BytesIO(data))
    return written.getvalue()


def _files() -> dict[str, bytes]:
    found = {
        f"{package.__name__}/{path.relative_to(folder).as_posix()}": path.read_bytes()
        for package in (engine, resources)
        for folder in [Path(str(package.__file__)).parent]
        for path in folder.rglob("*")
        if path.is_file()
        and not any(part in _LEFT_OUT or part.startswith(".") for part in path.relative_to(folder).parts)
    }
    return found | {"requirements.txt": "".join(map(_requirement, REQUIREMENTS)).encode()}


def _requirement(name: str) -> str:
    try:
        # the versions that work together here
        return f"{name}=={version(name)}\n"
    except PackageNotFoundError:  # one that only Linux needs
        return f"{name}\n"
