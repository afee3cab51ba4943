"""The program's folder, from which every package is made:

ammeter          the launcher, of Linux and macOS
python/          the interpreter; uv beside it, the packages in its site-packages; package.json
licences/        the licences of all parts, and NOTICE.txt, which lists them
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterable
from email.parser import HeaderParser
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path

from engine import __version__
from recipe.interpreter import copy_interpreter
from recipe.source import ROOT, RecipeError, Target, run, settle

_HEAD = """\
Ammeter is free software under the MIT licence (LICENSE.txt). This package also contains the parts below,
each under its own licence, whose text lies in the folder of its name.

Qt, PySide6 and Shiboken are used under the GNU Lesser General Public License 3 (LGPL-3.0.txt, which adds to
GPL-3.0.txt). They are dynamic libraries in the folder PySide6 of the program's packages, as the Qt Company
publishes them, and may be replaced by your own. Their source: https://download.qt.io/official_releases/QtForPython
and https://download.qt.io/official_releases/qt, under the version named below.

fpdf2 is under the same licence. It is Python source in the folder fpdf, and may be replaced likewise.

"""
_LICENCE_WORDS = ("licen", "copying", "notice", "authors")


def write_notices(target: Target, into: Path) -> None:
    """Write NOTICE.txt and collect the license texts."""
    place = into / "licences"
    place.mkdir()
    shutil.copy(ROOT / "LICENSE", place / "LICENSE.txt")
    for text in (ROOT / "packaging" / "licences").iterdir():
        shutil.copy(text, place / text.name)
    rows = [f"Python {target.python_version}: Python Software Foundation License, https://www.python.org"]
    python_licence = into / target.standard_library / "LICENSE.txt"
    if python_licence.exists():
        (place / "Python").mkdir()
        shutil.copy(python_licence, place / "Python")
    site = into / target.site_packages
    for folder in sorted(site.glob("*.dist-info")):
        rows.append(_row(PathDistribution(folder)))
        _copy_texts(folder, place)
    rows += _libraries(into, place)
    (place / "NOTICE.txt").write_text(_HEAD + "\n".join(rows) + "\n", encoding="utf-8")


def _row(part: Distribution) -> str:
    about = HeaderParser().parsestr(part.read_text("METADATA") or "")
    classified = [each for each in about.get_all("Classifier", []) if each.startswith("License ::")]
    licence = about["License-Expression"] or (about["License"] or "").split("\n")[0]
    licence = licence or ", ".join(each.rpartition(" :: ")[2] for each in classified)
    pages = [each.rpartition(", ")[2] for each in about.get_all("Project-URL", [])]
    page = next(iter([*filter(None, [about["Home-page"]]), *pages]), "on PyPI")
    return f"{about['Name']} {about['Version']}: {licence}, {page}"


def _copy_texts(folder: Path, place: Path) -> None:
    name = folder.name.partition("-")[0]
    for path in sorted(folder.rglob("*")):
        if path.is_file() and any(word in path.name.lower() for word in _LICENCE_WORDS):
            (place / name).mkdir(exist_ok=True)
            shutil.copy(path, place / name / path.name)


def _libraries(into: Path, place: Path) -> list[str]:
    rows = []
    for library in sorted((into / "python" / "lib").glob("lib*.so.*")):
        if library.name.startswith("libpython"):
            continue
        name = library.name.partition(".so")[0]
        text = next(Path("/usr/share/doc").glob(f"{name.replace('libcrypto', 'libssl')}*/copyright"), None)
        rows.append(f"{library.name}: see {name}" if text else library.name)
        if text:
            (place / name).mkdir(exist_ok=True)
            shutil.copy(text, place / name / "copyright")
    return rows


OWN = ("gui", "engine", "resources")
_ENGINE = ("torch", "torchvision")
"""With what only they need: the engine, which is installed later."""
_MODULES = "Core Gui Widgets Svg DBus Network OpenGL OpenGLWidgets Test".split()
"""Of Qt: what the window and pyqtgraph import."""
_LIBRARIES = [*_MODULES, *"XcbQpa WaylandClient WlShellIntegration WaylandEglClientHwIntegration".split()]
_PLUGINS = (
    *"platforms imageformats iconengines styles platformthemes platforminputcontexts".split(),
    "xcbglintegrations",
    *"wayland-decoration-client wayland-shell-integration wayland-graphics-integration-client".split(),
)
_PLUGINS_LEFT_OUT = ("*qtvirtualkeyboard*", "*qpdf*", "*qgtk3*")
"""They need parts of Qt that are left out, and GTK; its dialogs come through the desktop portal too."""
_TOOLS = (
    *"assistant designer linguist lrelease lupdate qmlformat qmllint qmlls svgtoqml opengl32sw".split(),
    *"doc glue include lib scripts typesystems".split(),
)
"""Qt's tools for developers, and its OpenGL in software for Windows: nothing is drawn by OpenGL here."""
_PLATFORMS = ("xcb", "wayland", "offscreen", "minimal", "windows", "cocoa")


def install_packages(target: Target, into: Path) -> None:
    """Install all packages into the program's folder, and uv next to the interpreter."""
    site = into / target.site_packages
    wanted = into / "requirements.txt"
    # fmt: off
    run(
        "uv", "export", "--quiet", "--no-dev", "--group", "package", "--no-emit-project",
        *(f"--prune={name}" for name in _ENGINE), "--no-annotate", "--no-header", "--output-file", wanted,
        folder=ROOT,
    )
    run(
        "uv", "pip", "install", "--quiet", "--target", site, "--require-hashes", "--no-deps",
        "--only-binary", ":all:", "--link-mode", "copy",
        "--python-platform", target.uv_platform, "--python-version", target.python_version,
        "--requirements", wanted, folder=ROOT,
    )
    # fmt: on
    wanted.unlink()
    (site / ".lock").unlink(missing_ok=True)
    _move_uv(target, into)
    for name in OWN:
        shutil.copytree(ROOT / name, site / name, ignore=shutil.ignore_patterns("__pycache__", "screenshots"))
    _trim(site)


def _move_uv(target: Target, into: Path) -> None:
    site = into / target.site_packages
    programs = site / ("Scripts" if (site / "Scripts").exists() else "bin")
    name = "uv.exe" if target.system == "windows" else "uv"
    shutil.move(programs / name, (into / target.executable).with_name(name))
    shutil.rmtree(programs)
    shutil.rmtree(site / "uv")


def _trim(site: Path) -> None:
    qt = site / "PySide6"
    _remove(path for path in qt.iterdir() if path.name.endswith(".pyi") or _is_left_out_module(path))
    _remove(path for path in qt.iterdir() if path.suffix in (".exe", ".app", ".lib") or path.stem in _TOOLS)
    parts = ("qml", "metatypes", "libexec", "resources", "translations", "qsci", "modules", "sbom")
    _remove(base / name for base in (qt, qt / "Qt") for name in parts)
    for folder in (qt, qt / "Qt" / "lib"):
        libraries = (*folder.glob("*Qt6*"), *folder.glob("Qt*.framework"))
        _remove(path for path in libraries if not _is_kept_library(path.name))
    plugins = qt / "Qt" / "plugins" if (qt / "Qt").exists() else qt / "plugins"
    _remove(path for path in plugins.iterdir() if path.name not in _PLUGINS)
    for path in list((plugins / "platforms").iterdir()):
        if path.stem.removeprefix("lib").removeprefix("q") not in _PLATFORMS:
            _remove([path])
    for pattern in (*_PLUGINS_LEFT_OUT, "*pyside6qml*"):
        _remove(qt.rglob(pattern))
    _remove(site.glob("pyqtgraph/examples"))
    # they only make faster what is seldom done, and are two thirds of it
    _remove((site / "fontTools").rglob("*.so"))
    # also numpy's and others' tests, and what only type checkers read
    _remove(path for path in sorted(site.rglob("tests")) if path.is_dir() and path.parent.name != "resources")
    _remove(path for path in sorted(site.rglob("*")) if path.suffix in (".pyi", ".c", ".cpp", ".pyx", ".pxd"))
    _remove(site / name for name in ("numpy/typing/tests", "numpy/_core/lib"))


def _remove(paths: Iterable[Path]) -> None:
    for path in list(paths):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _is_left_out_module(path: Path) -> bool:
    match = re.match(r"Qt(\w+)\.(abi3\.so|pyd)$", path.name)
    return match is not None and match[1] not in _MODULES


def _is_kept_library(name: str) -> bool:
    match = re.match(r"(?:lib)?Qt6?(\w+?)(?:_debug)?\.(?:so|dll|dylib|framework)", name)
    return match is not None and match[1] in _LIBRARIES


LAUNCHER = """\
#!/bin/sh
# The bundled interpreter, untouched by the user's own Python and its settings; workers inherit this.
here=$(readlink -f "$0")
# the user's scripts get these back
export AMMETER_SCRIPTS_PATH="${AMMETER_SCRIPTS_PATH-$PYTHONPATH}"
[ -n "$PYTHONNOUSERSITE" ] || export AMMETER_SCRIPTS_USER_SITE=1
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONPLATLIBDIR
export PYTHONNOUSERSITE=1
exec "${here%/*}/python/bin/python3" -P -m gui "$@"
"""


def build_tree(target: Target, into: Path) -> Path:
    """Build the program's folder at `into`, which must not exist, and return it. Raises RecipeError."""
    if into.exists():
        raise RecipeError(f"{into} exists already.")
    copy_interpreter(target, into)
    install_packages(target, into)
    write_notices(target, into)
    if target.system != "windows":
        launcher = into / "ammeter"
        launcher.write_text(LAUNCHER, encoding="utf-8")
        launcher.chmod(0o755)
    description = {"package": target.package, "version": __version__}
    (into / "python" / "package.json").write_text(json.dumps(description) + "\n", encoding="utf-8")
    _compile(target, into)
    settle(into)
    return into


def _compile(target: Target, into: Path) -> None:
    """Compile all modules reproducibly, because the folder is read-only to its users.

    Raises RecipeError where this is another version of Python than the target's.
    """
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    if here != target.python_version:
        raise RecipeError(
            f"The package contains Python {target.python_version}, whose modules only that version compiles; "
            f"this is {here}. Build with `uv run --python {target.python_version} packaging/build ...`."
        )
    # fmt: off
    run(
        sys.executable, "-m", "compileall", "-q", "-j", str(os.cpu_count() or 1),
        "--invalidation-mode", "unchecked-hash", "-s", into, into / target.standard_library,
        environment={"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": ""},
    )
    # fmt: on
