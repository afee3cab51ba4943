"""The fix for a package that a user's file imports and PyTorch's installation lacks."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from engine.installation.installed import engines_folder

# packages whose name on an index is not that of their module
_NAMES = {
    "PIL": "pillow",
    "cv2": "opencv-python-headless",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
_ASKS = re.compile(r"pip install (?:-\S+ )*[`'\"]?([A-Za-z][\w.-]*)|optional dependency '([\w.-]+)'")


def missing_package(error: BaseException) -> str | None:
    """Return the name of the package that an import did not find. None for any other error."""
    if not isinstance(error, ImportError):
        return None
    if isinstance(error, ModuleNotFoundError) and error.name:
        top = error.name.partition(".")[0]
        # a part of a package that is here is another version's, or misspelled
        is_here = True
        # what lies in the user's folder and is not kept is refused here, too
        with suppress(ImportError):
            is_here = top in sys.modules or find_spec(top) is not None
        return None if is_here else _NAMES.get(top, top.replace("_", "-"))
    found = _ASKS.search(str(error))
    return None if found is None else (found[1] or found[2]).rstrip(".")


def package_remedy(error: BaseException, file: str) -> str | None:
    """Return how to install the package that an import in `file` did not find. None for any other error."""
    package = missing_package(error)
    if package is None:
        return None
    is_far = "AMMETER_REMOTE" in os.environ
    if _has_torch_of_its_own() and not is_far:
        parts = ["uv", "pip", "install", "--python", sys.executable, package]
        command = subprocess.list2cmdline(parts) if os.name == "nt" else shlex.join(parts)
    else:
        machine = " --machine NAME" if is_far else ""
        command = f"ammeter engine install{machine} --with {package}"
    where = "the PyTorch installation of that machine" if is_far else "the PyTorch installation"
    return f"Add it to {where} with `{command}`. If it is your own module, put it next to {file}."


def _has_torch_of_its_own() -> bool:
    # also in a worker, to whose path the engine's packages were added
    spec = None
    with suppress(ValueError):
        spec = find_spec("torch")
    return spec is not None and not Path(spec.origin or "").is_relative_to(engines_folder())
