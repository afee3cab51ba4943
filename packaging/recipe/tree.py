"""The program's folder, from which every package is made:

ammeter          the launcher, of Linux and macOS
python/          the interpreter; uv beside it, the packages in its site-packages; package.json
licences/        the licences of all parts, and NOTICE.txt, which lists them
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from engine import __version__
from recipe.interpreter import copy_interpreter
from recipe.notices import write_notices
from recipe.packages import install_packages
from recipe.source import RecipeError, run, settle
from recipe.target import Target

_LAUNCHER = """\
#!/bin/sh
# The bundled interpreter, untouched by the user's own Python and its settings; workers inherit this.
here=$(readlink -f "$0")
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONPLATLIBDIR
export PYTHONNOUSERSITE=1
exec "${here%/*}/python/bin/python3" -P -m gui "$@"
"""


def build_tree(target: Target, into: Path) -> Path:
    """Makes the program's folder at `into`, which must not exist, and returns it. Raises RecipeError."""
    if into.exists():
        raise RecipeError(f"{into} exists already.")
    copy_interpreter(target, into)
    install_packages(target, into)
    write_notices(target, into)
    if target.system != "windows":
        launcher = into / "ammeter"
        launcher.write_text(_LAUNCHER, encoding="utf-8")
        launcher.chmod(0o755)
    description = {"package": target.package, "version": __version__}
    (into / "python" / "package.json").write_text(json.dumps(description) + "\n", encoding="utf-8")
    _compile(target, into)
    settle(into)
    return into


def _compile(target: Target, into: Path) -> None:
    """Compiles all modules: the folder is read-only to its users. The files do not depend on times.

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
        environment={"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": ""},
    )
    # fmt: on
