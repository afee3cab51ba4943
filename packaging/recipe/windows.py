"""The installer for Windows, built by NSIS from the program's folder, launchers and icon."""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
import time
import zipfile
from importlib.resources import files
from pathlib import Path

from engine import __version__
from recipe.icon import icon_bitmap
from recipe.interpreter import foreign_python
from recipe.source import RecipeError, Target, epoch, run, settle, size_of
from recipe.tree import build_tree

HERE = Path(__file__).parent
_ICON_SIZES = (16, 20, 24, 32, 40, 48, 64, 128, 256)
_LONGEST_PATH = 160
"""Below the folder of the program: Windows takes 259 letters in all, unless it was set up for more."""


def build_windows(out: Path, python: Path | None = None) -> Path:
    """Build the installer in the folder `out` and return its file. Raises RecipeError.

    `python` is the folder of an interpreter for Windows; by default uv fetches one.
    """
    with tempfile.TemporaryDirectory(prefix="ammeter-windows-") as folder:
        python = python or foreign_python("windows-x86_64", Path(folder) / "interpreters")
        target = Target("windows", "windows", "x86_64", python)
        tree = build_tree(target, Path(folder) / "program")
        complete_tree(tree)
        return build_installer(tree, out)


def complete_tree(tree: Path) -> None:
    """Add signed launchers and the icon to the program's folder. Raises RecipeError."""
    write_launchers(tree)
    icon_bitmap(256).save(tree / "ammeter.ico", sizes=[(size, size) for size in _ICON_SIZES])
    shutil.copy(HERE / "user_path.py", tree)
    _check_paths(tree)
    sign(tree / "Ammeter.exe", tree / "bin" / "ammeter.exe")
    settle(tree)


def build_installer(tree: Path, out: Path) -> Path:
    """Build the signed installer of a complete folder. Raises RecipeError."""
    out.mkdir(parents=True, exist_ok=True)
    installer = out.resolve() / f"ammeter-{__version__}-windows-x86_64.exe"
    numbers = ".".join([*__version__.split(".")[:3], "0"])
    # fmt: off
    run(
        "makensis", "-V2", "-NOCD", f"-DVERSION={__version__}", f"-DNUMBERS={numbers}",
        f"-DTREE={tree.resolve()}", f"-DKIB={size_of(tree) // 1024}", f"-DOUT={installer}",
        HERE / "ammeter.nsi",
    )
    # fmt: on
    sign(installer)
    return installer


def _check_paths(tree: Path) -> None:
    names: dict[str, Path] = {}
    for path in tree.rglob("*"):
        place = path.relative_to(tree)
        if len(str(place)) > _LONGEST_PATH:
            raise RecipeError(f"{place} has more than {_LONGEST_PATH} letters, too many for Windows.")
        if (other := names.setdefault(str(place).casefold(), place)) != place:
            raise RecipeError(f"{place} and {other} are one file on Windows.")


_LAUNCHED = """\
import os
import sys

# the user's scripts get these back
os.environ.setdefault("AMMETER_SCRIPTS_PATH", os.environ.get("PYTHONPATH", ""))
if not os.environ.get("PYTHONNOUSERSITE"):
    os.environ["AMMETER_SCRIPTS_USER_SITE"] = "1"
# the user's own Python and its settings stay out, here and in the workers
for name in ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONPLATLIBDIR"):
    os.environ.pop(name, None)
os.environ["PYTHONNOUSERSITE"] = "1"

from gui.__main__ import main

sys.exit(main())
"""


def write_launchers(tree: Path) -> None:
    """Write Ammeter.exe, which opens the window, and bin/ammeter.exe for the command line.

    Their first line names the interpreter from their own folder, so that the program's folder may be moved.
    """
    (tree / "bin").mkdir()
    _write_launcher(tree / "Ammeter.exe", "w64.exe", r"python\pythonw.exe")
    _write_launcher(tree / "bin" / "ammeter.exe", "t64.exe", r"..\python\python.exe")


def _write_launcher(path: Path, stub: str, interpreter: str) -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as content:
        content.writestr(zipfile.ZipInfo("__main__.py", time.gmtime(epoch())[:6]), _LAUNCHED)
    start = f"#!<launcher_dir>\\{interpreter} -E -s -P\r\n".encode()
    path.write_bytes((files("distlib") / stub).read_bytes() + start + archive.getvalue())


CERTIFICATE, PASSWORD, CLOCK = (
    "AMMETER_WINDOWS_CERTIFICATE",
    "AMMETER_WINDOWS_CERTIFICATE_PASSWORD",
    "AMMETER_WINDOWS_TIMESTAMP_URL",
)
"""The environment's names of a .pfx file, its password, and a server that adds the time."""


def sign(*programs: Path) -> None:
    """Sign the files in place: by signtool on Windows, elsewhere by osslsigncode. Raises RecipeError."""
    certificate = os.environ.get(CERTIFICATE)
    if not certificate:
        names = ", ".join(program.name for program in programs)
        print(f"Not signed, as {CERTIFICATE} names no certificate: {names}")
        return
    password, clock = os.environ.get(PASSWORD, ""), os.environ.get(CLOCK)
    for program in programs:
        try:
            if sys.platform == "win32":
                time = ("/tr", clock, "/td", "sha256") if clock else ()
                run("signtool", "sign", "/fd", "sha256", "/f", certificate, "/p", password, *time, program)
            else:
                signed, time = program.with_name(f"{program.name}.signed"), ("-ts", clock) if clock else ()
                key = ("-pkcs12", certificate, "-pass", password, "-h", "sha256", "-n", "Ammeter")
                run("osslsigncode", "sign", *key, *time, "-in", program, "-out", signed)
                signed.replace(program)
        except RecipeError as error:
            raise RecipeError(str(error).replace(password or "\0", "***")) from None
