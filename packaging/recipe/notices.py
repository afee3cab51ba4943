"""The licences of all parts of a package, in the folder `licences` of the program."""

from __future__ import annotations

import shutil
from email.parser import HeaderParser
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path

from recipe.source import ROOT
from recipe.target import Target

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
    """Writes NOTICE.txt and gathers the licences' texts."""
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
    """The system's libraries that are beside the interpreter, with Debian's account of their licences."""
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
