"""Pack the dependencies other than torch, for a machine with a GPU but no package index.

    uv run python tests/gpu/bundle.py [--python 3.12] [--torch 2.11]      here, in the project's root

makes `.gpu`, which git ignores. There, in the project's root, with torch, torchvision and transformers:

    source .gpu/activate && python3 tests/gpu/day check

Qt is trimmed to what a window of widgets loads. Of the system's libraries only the missing are used.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOLDER, NAME = ROOT / ".gpu", "bundle.tar.xz"
PLATFORM = "x86_64-manylinux_2_34"
_MIB = 2**20
MOST_BYTES = 64 * _MIB
"""The most that is to travel, with what git tracks."""
OWN = ("torch", "torchvision", "numpy", "pillow")
"""What is always that machine's own: torch is built for it, and the others are what torch was built with."""
BESIDES = ("typing-extensions",)
"""What torch brings in a version that may be too old for the rest."""
_TESTS = ("pytest", "hypothesis")
"""How the names begin of what tests need; what checks the code is left out."""
_QT = "Core|Gui|Widgets|Svg|SvgWidgets|Test|OpenGL|OpenGLWidgets|PrintSupport|Network|DBus|Xml|Concurrent"
_QT_PLUGINS = ("platforms", "imageformats", "iconengines", "styles", "printsupport")
_QT_FOLDERS = (
    "Qt/qml",
    "Qt/translations",
    "Qt/metatypes",
    "Qt/libexec",
    "Qt/resources",
    "include",
    "typesystems",
)
_LIBRARIES = """
libegl1 libglvnd0 libgl1 libglx0 libopengl0 libx11-6 libxcb1 libxau6 libxdmcp6 libbsd0 libmd0 libxkbcommon0
libdbus-1-3 libfontconfig1 libfreetype6 libglib2.0-0 libpng16-16 libbrotli1 libexpat1 libpcre2-8-0 libsystemd0
libcap2 libgcrypt20 liblz4-1 libgpg-error0 liblzma5 libzstd1
""".split()
_ACTIVATE = """\
# source this in the project's root: it unpacks the bundle once, and names its places
eval "$(python3 .gpu/unpack.py)"
"""
_UNPACK = '''\
"""Unpacks the bundle beside it, and prints what a shell has to export."""

import ctypes
import os
import shlex
import tarfile
import tempfile
from contextlib import suppress
from pathlib import Path

bundle = Path(__file__).resolve().with_name("bundle.tar.xz")
stamp = bundle.stat()
place = Path(tempfile.gettempdir(), f"ammeter-bundle-{stamp.st_size}-{stamp.st_mtime_ns}")
if not place.exists():
    part = Path(tempfile.mkdtemp())
    with tarfile.open(bundle) as packed:
        packed.extractall(part, filter="tar")
    for library in sorted((part / "lib").iterdir()):
        with suppress(OSError):  # where it is missing, that of the bundle is used
            ctypes.CDLL(library.name)
            library.unlink()
    part.rename(place)
exports = {
    "PYTHONPATH": [os.getcwd(), place / "site", os.environ.get("PYTHONPATH")],
    "LD_LIBRARY_PATH": [os.environ.get("LD_LIBRARY_PATH"), place / "lib"],
    "QT_QPA_PLATFORM": ["offscreen"],
}
for name, parts in exports.items():
    print(f"export {name}={shlex.quote(':'.join(str(part) for part in parts if part))}")
'''


class BundleError(Exception):
    """Nothing was packed; the text is a sentence that says why."""


def main() -> int:
    """Pack and print the size; return 1 if that fails."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", default="3.12", help="the version there")
    parser.add_argument("--torch", default="2.11", help="the version there")
    options = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="ammeter-bundle-") as scratch:
            pack(Path(scratch), options.python, options.torch)
    except BundleError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def project() -> dict[str, Any]:
    """Return the content of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def needed(project: Mapping[str, Any]) -> list[str]:
    """Return the requirements of the program, FP8 and the tests. Other extras are left out."""
    of_tests = [
        requirement
        for requirement in project["dependency-groups"]["dev"]
        if isinstance(requirement, str) and name_of(requirement).startswith(_TESTS)
    ]
    own = project["project"]
    return [*own["dependencies"], *own["optional-dependencies"]["fp8"], *of_tests]


def packed(resolved: Iterable[str], there: Iterable[str], needed: Iterable[str]) -> list[str]:
    """Return the requirements to pack: those that torch does not bring, or that the project names."""
    known = {name_of(requirement) for requirement in there} - set(BESIDES)
    named = {name_of(requirement) for requirement in needed}
    names = {requirement: name_of(requirement) for requirement in resolved}
    return [it for it, name in names.items() if name not in OWN and (name not in known or name in named)]


def name_of(requirement: str) -> str:
    """Return the package's name as an index writes it."""
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert name is not None, requirement
    return re.sub(r"[-_.]+", "-", name[0]).lower()


def pack(scratch: Path, python: str, torch: str) -> None:
    """Make the folder `.gpu`. Raises BundleError."""
    known = project()
    options = ["--python-version", python, "--python-platform", PLATFORM]
    newest = known["tool"]["uv"].get("exclude-newer")
    options += ["--exclude-newer", newest] if newest else []
    own = [f"torch=={torch}.*", "torchvision"]
    resolved = _resolved(scratch, [*needed(known), own[0]], options)
    chosen = packed(resolved, _resolved(scratch, own, options), needed(known))
    wanted = scratch / "packed.txt"
    wanted.write_text("\n".join(chosen) + "\n", encoding="utf-8")
    site = scratch / "site"
    # copies: what is linked would be the cache's own, and so that of every environment here
    into = ["--target", str(site), "--no-deps", "--link-mode", "copy", "-r", str(wanted)]
    _run(["uv", "pip", "install", "-q", *options, *into])
    _trim(site)
    _libraries(scratch)
    FOLDER.mkdir(exist_ok=True)
    _run(["tar", "-C", scratch, "-I", "xz -T0", "-cf", FOLDER / NAME, "site", "lib"])
    (FOLDER / "activate").write_text(_ACTIVATE, encoding="utf-8")
    (FOLDER / "unpack.py").write_text(_UNPACK, encoding="utf-8")
    _weigh([name_of(requirement) for requirement in chosen])


def _resolved(scratch: Path, requirements: Sequence[str], options: Sequence[str]) -> list[str]:
    given = scratch / "wanted.in"
    given.write_text("\n".join(requirements) + "\n", encoding="utf-8")
    plain = ["--no-header", "--no-annotate", "--no-emit-index-url"]
    return _run(["uv", "pip", "compile", "-q", given, *options, *plain]).split()


def _trim(site: Path) -> None:
    """Keep of Qt what a window of widgets and its tests load, and of torchao what is Python."""
    for path in (site / "torchao").glob("_C*.so"):  # for formats of inference, and 13 MiB
        path.unlink()
    qt = site / "PySide6"
    kept = re.compile(rf"(Qt({_QT})\.abi3|libQt6({_QT}|XcbQpa)\.so)")
    for path in [*qt.glob("Qt*.abi3.so"), *(qt / "Qt" / "lib").glob("libQt6*")]:
        if not kept.match(path.name):
            path.unlink()
    for path in qt.iterdir():
        if path.is_file() and not (path.suffix == ".py" or ".so" in path.name):
            path.unlink()
    plugins = [path for path in (qt / "Qt" / "plugins").iterdir() if path.name not in _QT_PLUGINS]
    folders = [*(qt / name for name in (*_QT_FOLDERS, "glue", "doc", "scripts", "examples")), *plugins]
    for folder in [*folders, site / "pyqtgraph" / "examples", site / "bin", *site.rglob("__pycache__")]:
        shutil.rmtree(folder, ignore_errors=True)


def _libraries(scratch: Path) -> None:
    """The libraries of an offscreen window, out of Debian's packages."""
    debs, whole, lib = (scratch / name for name in ("debs", "root", "lib"))
    for folder in (debs, whole, lib):
        folder.mkdir()
    _run(["apt-get", "-qq", "download", *_LIBRARIES], cwd=debs)
    for deb in debs.glob("*.deb"):
        _run(["dpkg-deb", "--extract", deb, whole])
    for path in whole.rglob("*.so.*"):
        # the link has the name by which it is loaded
        if path.is_symlink():
            shutil.copy(path.resolve(), lib / path.name)


def _weigh(names: Sequence[str]) -> None:
    """Print the size of what is sent. Raises BundleError if it is too large."""
    tracked = _run(["git", "-C", ROOT, "ls-files", "-z"]).split("\0")
    files = [ROOT / name for name in tracked if name]
    ours = sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file())
    whole = ours + sum(path.stat().st_size for path in files if path.is_file())
    print(f"packed: {', '.join(names)}")
    print(
        f".gpu: {ours / _MIB:.1f} MiB, with what git tracks {whole / _MIB:.1f} of {MOST_BYTES / _MIB:.0f} MiB"
    )
    if whole >= MOST_BYTES:
        raise BundleError("That is too much.")


def _run(command: Sequence[str | Path], cwd: Path | None = None) -> str:
    try:
        done = subprocess.run(
            [str(word) for word in command], cwd=cwd, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise BundleError(f"{command[0]} is not installed here.") from None
    if done.returncode:
        raise BundleError(f"{' '.join(str(word) for word in command)}\n{done.stderr.strip()[-2_000:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
