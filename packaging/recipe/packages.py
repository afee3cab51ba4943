"""The program's packages: its dependencies without torch, uv, and its own code; trimmed to what is used."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from recipe.source import ROOT, run
from recipe.target import Target

OWN = ("gui", "engine", "resources")
_ENGINE = ("torch", "torchvision")
"""With what only they need: the engine, which is installed later."""
_MODULES = "Core Gui Widgets Svg DBus Network OpenGL OpenGLWidgets Test".split()
"""Of Qt: what the window and pyqtgraph import."""
_LIBRARIES = [
    *_MODULES,
    *"XcbQpa WaylandClient WlShellIntegration WaylandEglClientHwIntegration".split(),
]
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
    """Puts all packages into the program's folder, and uv beside the interpreter."""
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
    """uv's program goes beside the interpreter; the other packages' programs go, as they name a path."""
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
    _remove(path for path in (plugins / "platforms").iterdir() if not _is_kept_platform(path.stem))
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


def _is_kept_platform(stem: str) -> bool:
    return stem.removeprefix("lib").removeprefix("q") in _PLATFORMS
