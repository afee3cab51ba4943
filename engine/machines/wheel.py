"""The program as a wheel, made from what runs here, for a machine that has none of it."""

from __future__ import annotations

import functools
import hashlib
import io
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import dataclass
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
"""The packages that the program needs without its window; PyTorch belongs to the engine."""
PYTHONS = ">=3.11,<3.15"
_PACKAGES = (engine, resources)
_LEFT_OUT = ("__pycache__", "guide", "screenshots")
_TIME = (2020, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Wheel:
    """A wheel; programs with the same files and the same versions of what they need have the same `id`."""

    id: str
    filename: str
    content: bytes


@functools.cache
def program_id() -> str:
    """The id of the program that runs here: 12 hexadecimal digits."""
    # of the list of files with their hashes: another zlib would compress them to other bytes
    return hashlib.sha256(_record(_files()).encode()).hexdigest()[:12]


def program_wheel() -> Wheel:
    """The program that runs here, without its window. It takes about half a second."""
    files = _files()
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, data in [*files.items(), (f"{_INFO}/RECORD", _record(files).encode())]:
            member = zipfile.ZipInfo(name, _TIME)
            member.external_attr = 0o644 << 16
            archive.writestr(member, data, zipfile.ZIP_DEFLATED)
    return Wheel(program_id(), f"ammeter-{engine.__version__}-py3-none-any.whl", content.getvalue())


_INFO = f"ammeter-{engine.__version__}.dist-info"
_WHEEL = "Wheel-Version: 1.0\nGenerator: ammeter\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def _files() -> dict[str, bytes]:
    found = {
        f"{package.__name__}/{path.relative_to(folder).as_posix()}": path.read_bytes()
        for package in _PACKAGES
        for folder in [Path(str(package.__file__)).parent]
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not any(_is_left_out(part) for part in path.relative_to(folder).parts)
    }
    head = ("Metadata-Version: 2.1", "Name: ammeter", f"Version: {engine.__version__}")
    metadata = [*head, f"Requires-Python: {PYTHONS}", *_requirements()]
    found[f"{_INFO}/METADATA"] = "".join(f"{line}\n" for line in metadata).encode()
    found[f"{_INFO}/WHEEL"] = _WHEEL.encode()
    return dict(sorted(found.items()))


def _is_left_out(part: str) -> bool:
    return part in _LEFT_OUT or part.startswith(".")


def _requirements() -> Iterator[str]:
    for name in REQUIREMENTS:
        try:
            # what is proven to go together here
            yield f"Requires-Dist: {name}=={version(name)}"
        except PackageNotFoundError:  # one that only Linux needs
            yield f"Requires-Dist: {name}"


def _record(files: dict[str, bytes]) -> str:
    rows = (f"{name},sha256={_hash(data)},{len(data)}\n" for name, data in files.items())
    return f"{''.join(rows)}{_INFO}/RECORD,,\n"


def _hash(data: bytes) -> str:
    return urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
