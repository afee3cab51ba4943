"""The program's launchers for Windows: distlib's, which pip uses for its scripts, with the program inside."""

from __future__ import annotations

import io
import time
import zipfile
from importlib.resources import files
from pathlib import Path

from recipe.source import epoch

_MAIN = """\
import os
import sys

# the user's own Python and its settings stay out, here and in the workers
for name in ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONPLATLIBDIR"):
    os.environ.pop(name, None)
os.environ["PYTHONNOUSERSITE"] = "1"

from gui.__main__ import main

sys.exit(main())
"""


def write_launchers(tree: Path) -> None:
    """Writes Ammeter.exe, which opens the window, and bin/ammeter.exe for the command line.

    Their first line names the interpreter from their own folder, so that the program's folder may be moved.
    """
    (tree / "bin").mkdir()
    _write(tree / "Ammeter.exe", "w64.exe", r"python\pythonw.exe")
    _write(tree / "bin" / "ammeter.exe", "t64.exe", r"..\python\python.exe")


def _write(path: Path, stub: str, interpreter: str) -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as content:
        content.writestr(zipfile.ZipInfo("__main__.py", time.gmtime(epoch())[:6]), _MAIN)
    start = f"#!<launcher_dir>\\{interpreter} -E -s -P\r\n".encode()
    path.write_bytes((files("distlib") / stub).read_bytes() + start + archive.getvalue())
