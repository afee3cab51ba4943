"""The command: `python tests/gpu/day STEP...` in the project's root, on a machine with a GPU."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

_FOLDER = Path(__file__).resolve().parent
_ROOT = _FOLDER.parents[2]
if sys.path and Path(sys.path[0]).resolve() == _FOLDER:
    sys.path[:1] = [str(_ROOT), str(_FOLDER.parent), str(_ROOT / "tests" / "benchmarks")]
    # a machine may have a package of that name, which would come before a mere folder
    tests = sys.modules["tests"] = ModuleType("tests")
    tests.__path__ = [str(_ROOT / "tests")]

if __name__ == "__main__":
    from day.command import main

    sys.exit(main())
